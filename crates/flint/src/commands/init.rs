//! `flint init`: creates a project to start from.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::{
    cli::InitArgs,
    failure::{Exit, Failure},
    output::{print_json, print_line},
    project,
};

pub(crate) fn run(args: &InitArgs, json: bool) -> anyhow::Result<Exit> {
    let lang = args.lang.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from(format!("hello-{lang}")));
    let name = name_of(&directory)?;
    let files = project::write(args.lang, &name, &directory)?;
    if json {
        print_json(
            &serde_json::json!({ "directory": directory.to_string_lossy(), "name": name, "files": files }),
        )?;
        return Ok(Exit::Ok);
    }
    let shown = directory.display();
    print_line(&format!("wrote {shown}: {}", files.join(", ")))?;
    print_line(&format!("next: flint deploy {shown} && flint invoke {name} -P {shown}/event.json"))?;
    print_line(&format!("      {shown}/README.md says what has to be installed"))?;
    Ok(Exit::Ok)
}

/// The directory's name, which has to be valid for build tools and as the function's name.
fn name_of(directory: &Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    match name.bytes().next().is_some_and(|first| first.is_ascii_lowercase()) && name.bytes().all(plain) {
        true => Ok(name),
        false => Err(Failure::usage(format!("'{name}' cannot be the name of a project in every language"))
            .hint("choose a directory whose name is of a-z, 0-9, - and _ and begins with a letter")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_every_build_tool_takes() {
        assert_eq!(name_of(Path::new("/x/my-fn_2")).unwrap(), "my-fn_2");
        for bad in ["/x/My", "/x/2fast", "/x/a b", "/x/a\"b", "/"] {
            assert!(name_of(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
