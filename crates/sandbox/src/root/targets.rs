//! Where the caller's mounts may appear inside a sandbox.

use std::io;
use std::path::{Component, Path};

use crate::error::Fault;

/// Directories that the sandbox fills itself.
const RESERVED: [&str; 7] = ["/proc", "/dev", "/sys", "/etc", "/tmp", "/bin", "/sbin"];

/// Checks that a mount target is well-formed and allowed.
pub(crate) fn check(target: &str) -> Result<(), Fault> {
    let path = Path::new(target);
    let refuse = |what: &str| Err(Fault::Invalid { what: format!("mount target {target:?} {what}") });
    let mut parts = path.components();
    if parts.next() != Some(Component::RootDir) {
        return refuse("is not absolute: write it as seen inside, such as /function");
    }
    let normal = parts.clone().all(|part| matches!(part, Component::Normal(_)));
    if !normal || parts.next().is_none() || target.contains('\0') {
        return refuse("must name a place below / without . or ..");
    }
    if path == Path::new("/usr") || RESERVED.iter().any(|reserved| path.starts_with(reserved)) {
        return refuse(
            "would cover a part of the sandbox itself; choose a place such as /function or /opt/NAME",
        );
    }
    Ok(())
}

/// Makes sure that `target` exists in the template at `root`: a directory or an empty file, like the mount's
/// source. Inside a directory bound from the host nothing can be created, so there it must exist.
pub(super) fn ensure(root: &Path, target: &str, directory: bool) -> io::Result<()> {
    let place = root.join(target.trim_start_matches('/'));
    if place.symlink_metadata().is_ok() {
        return Ok(());
    }
    if directory {
        std::fs::create_dir_all(place)
    } else {
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::File::create(place).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_of_the_callers_own() {
        for good in ["/function", "/opt/python", "/usr/local/x", "/srv/a.b"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in
            ["", "/", "x", "/a/../etc", "/./..", "/proc/1", "/dev", "/etc/passwd", "/tmp/x", "/usr", "/bin"]
        {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
