//! Chooses the key of a command.

use std::{env, fs, io, path::PathBuf};

use flint_model::ApiKey;

use super::Address;
use crate::failure::Failure;

/// The well-known key of the namespace `guest`, valid while a server listens on loopback only. Every
/// OpenWhisk has it.
pub(crate) const GUEST_KEY: &str =
    "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP";

/// The key for `address`: `given` (from --auth or FLINT_AUTH), else the user's file, else on loopback the guest key.
pub(crate) fn key_for(address: &Address, given: Option<&str>) -> Result<Option<String>, Failure> {
    if let Some(key) = given {
        return checked(key, "--auth or FLINT_AUTH").map(Some);
    }
    if let Some(path) = file() {
        match fs::read_to_string(&path) {
            Ok(text) => return checked(&text, &path.display().to_string()).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Failure::usage(format!("cannot read the key in {}: {error}", path.display())));
            }
        }
    }
    Ok(address.is_loopback().then(|| GUEST_KEY.to_owned()))
}

fn checked(text: &str, origin: &str) -> Result<String, Failure> {
    match ApiKey::parse(text.trim()) {
        Some(key) => Ok(key.expose()),
        None => Err(Failure::usage(format!(
            "what {origin} says is not a key: a key is a UUID, a colon and 64 letters and digits"
        ))
        .hint("an operator makes one with `flint namespace create NAME`")),
    }
}

/// `~/.config/flint/auth`.
fn file() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").or_else(|| env::home_dir().map(|home| home.join(".config")))?;
    Some(base.join("flint").join("auth"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_key_is_a_key_and_a_bad_one_is_refused_without_showing_it() {
        assert!(ApiKey::parse(GUEST_KEY).is_some());
        let address = Address::parse("http://10.0.0.1:1").unwrap();
        let failure = key_for(&address, Some("hunter2")).unwrap_err();
        assert!(!failure.message.contains("hunter2") && failure.message.contains("--auth"));
        assert_eq!(key_for(&address, Some(&format!(" {GUEST_KEY}\n"))).unwrap().as_deref(), Some(GUEST_KEY));
    }
}
