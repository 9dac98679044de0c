//! `flint secret`: manages secrets and their encryption key.

use std::{fs, io, io::IsTerminal, path::Path};

use bytes::Bytes;
use flint_api_native::resource::{RotatedKey, SecretList, SecretResource};
use http::Method;
use serde_json::json;

use super::call::read_within;
use crate::{
    admin::Admin,
    cli::{Global, SecretArgs, SecretCommand},
    client::{Client, collect, parsed, segment},
    failure::{Exit, Failure},
    output::{ago, print_json, print_line, table},
};

const SECRETS: &str = "/v1/secrets";

/// More than any server accepts, whatever its `secrets.max_size`, which the server enforces itself.
const LARGEST: u64 = 16 << 20;
const WHAT_FOR: &str = "a secret: a server takes what its secrets.max_size says, 64 KB where it says nothing";

pub(crate) async fn run(global: &Global, args: &SecretArgs) -> anyhow::Result<Exit> {
    match &args.command {
        SecretCommand::Set { name, file, raw } => {
            // As everywhere, `-` is stdin.
            let file = file.as_deref().filter(|file| file.as_os_str() != "-");
            let value = value(file, *raw)?;
            let body = Some(("text/plain; charset=utf-8", Bytes::from(value)));
            let path = format!("{SECRETS}/{}", segment(name.as_str()));
            let answer = Client::new(global)?.request(Method::PUT, &path, "application/json", body).await?;
            let set: SecretResource = parsed(&collect(answer).await?)?;
            match global.json {
                true => print_json(&set)?,
                false => print_line(&format!("set {name}"))?,
            }
        }
        SecretCommand::List => {
            let list: SecretList = Client::new(global)?.get(SECRETS).await?;
            match global.json {
                true => print_json(&list)?,
                false => print_line(&listed(&list))?,
            }
        }
        SecretCommand::Rm { name } => {
            Client::new(global)?.delete(&format!("{SECRETS}/{}", segment(name.as_str()))).await?;
            match global.json {
                true => print_json(&json!({ "deleted": [name.as_str()] }))?,
                false => print_line(&format!("deleted {name}"))?,
            }
        }
        SecretCommand::RotateKey { data } => {
            let admin = Admin::connect(global, data).await?;
            let rotated = admin.ask(Method::POST, &format!("{SECRETS}/rotate-key"), None::<&()>).await;
            admin.close().await;
            let rotated: RotatedKey = rotated?;
            match global.json {
                true => print_json(&rotated)?,
                false => print_line(&words(&rotated))?,
            }
        }
    }
    Ok(Exit::Ok)
}

/// The value: the whole file or stdin. A line end at the end comes from an editor or `echo`, and is removed
/// unless it is to stay.
fn value(file: Option<&Path>, raw: bool) -> Result<Vec<u8>, Failure> {
    let read = |name: &str, content: io::Result<Vec<u8>>| {
        content.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))
    };
    let mut value = match file {
        Some(path) => {
            let content = fs::File::open(path).and_then(|file| read_within(LARGEST, WHAT_FOR, file));
            read(&path.display().to_string(), content)?
        }
        None if io::stdin().is_terminal() => {
            return Err(Failure::usage("the value of a secret is read from stdin or a file, and not shown")
                .hint("flint secret set NAME --file FILE, or PROGRAM | flint secret set NAME"));
        }
        None => read("stdin", read_within(LARGEST, WHAT_FOR, io::stdin().lock()))?,
    };
    if !raw && value.last() == Some(&b'\n') {
        value.pop();
        if value.last() == Some(&b'\r') {
            value.pop();
        }
    }
    match value.is_empty() {
        true => {
            Err(Failure::usage("the value of the secret is empty").hint("`flint secret rm NAME` deletes one"))
        }
        false => Ok(value),
    }
}

fn listed(list: &SecretList) -> String {
    if list.secrets.is_empty() {
        return "no secrets yet; set one with `flint secret set NAME --file FILE`".to_owned();
    }
    let rows = list.secrets.iter().map(|secret| {
        let state = if secret.readable { "" } else { "its key is not here" };
        vec![secret.name.clone(), ago(secret.updated), secret.key.clone(), state.to_owned()]
    });
    table(&["secret", "set", "key", ""], &[], rows)
}

fn words(rotated: &RotatedKey) -> String {
    let mut text = format!("{} secrets are encrypted with key {}", rotated.resealed, rotated.key);
    if rotated.lost > 0 {
        text.push_str(&format!(
            "\n{} are not: no key at hand opens them. The earlier keys are kept",
            rotated.lost
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_without_an_end_is_not_read_to_its_end() {
        let refused = value(Some(Path::new("/dev/zero")), false).unwrap_err().message;
        let expected = "cannot read /dev/zero: it has more than 16 MB, too much for a secret: a server takes";
        assert!(refused.starts_with(expected), "{refused}");
    }

    #[test]
    fn one_line_end_goes_unless_it_is_to_stay() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (content, short) in [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a")] {
            fs::write(file.path(), content).unwrap();
            assert_eq!(value(Some(file.path()), false).unwrap(), short.as_bytes());
            assert_eq!(value(Some(file.path()), true).unwrap(), content.as_bytes());
        }
        fs::write(file.path(), "\n").unwrap();
        assert!(value(Some(file.path()), false).is_err());
    }
}
