//! Which programs a server with root rights may run: only those that nobody but the administrator can
//! replace.
//!
//! The server itself runs what it finds on PATH or in a version manager's directory, to learn its version,
//! and every function runs it afterwards. Whoever can replace it, or a directory that leads to it, gets the
//! server's rights. An ordinary user's server runs only what its user would run anyway.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

const ROOT: u32 = 0;
/// Groups below this number are the system's, and listed in /etc/group.
const FIRST_OF_USERS: u32 = 1000;
const BY_GROUP: u32 = 0o020;
const BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// The id that the kernel shows for owners who are not mapped in this user namespace.
const NOBODY: u32 = 65534;

/// Why another user could replace what `path` leads to; `None` if nobody can, or if the server is not root.
pub(super) fn objection(path: &Path) -> Option<String> {
    rustix::process::geteuid().is_root().then(|| replaceable(path))?
}

/// Why the file, or a directory above it, can be replaced, with links resolved.
fn replaceable(path: &Path) -> Option<String> {
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) => return Some(format!("it cannot be looked at: {error}")),
    };
    real.ancestors().find_map(|part| match fs::symlink_metadata(part) {
        Ok(found) => {
            let why = doubt(found.uid(), found.gid(), found.mode(), found.is_dir())?;
            Some(format!("{} {why}", part.display()))
        }
        Err(error) => Some(format!("{} cannot be looked at: {error}", part.display())),
    })
}

/// What is wrong with an owner and a mode.
fn doubt(owner: u32, group: u32, mode: u32, is_dir: bool) -> Option<String> {
    if owner != ROOT && !is_outside(owner) {
        return Some(format!("belongs to user {owner}"));
    }
    // In a sticky directory such as /tmp everybody can create files, but nobody can replace another user's.
    if is_dir && mode & STICKY != 0 {
        return None;
    }
    if mode & BY_ALL != 0 {
        return Some("can be written to by everybody".to_owned());
    }
    (mode & BY_GROUP != 0 && has_members(group)).then(|| format!("can be written to by group {group}"))
}

/// Whether an owner is outside this user namespace: the host's root, for example, if the server is root in a
/// user namespace only.
fn is_outside(id: u32) -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let maps_all = map.split_whitespace().nth(2) == Some("4294967295");
    id == NOBODY && !maps_all
}

/// Whether a group has members other than root. On some distributions /usr/local belongs to a system group
/// without members.
fn has_members(group: u32) -> bool {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    group != ROOT
        && (group >= FIRST_OF_USERS || listed_members(group, &read("/etc/group"), &read("/etc/passwd")))
}

fn listed_members(group: u32, groups: &str, users: &str) -> bool {
    let id = group.to_string();
    let rows = |text: &str, at: usize| -> Vec<Vec<String>> {
        let rows = text.lines().map(|line| line.split(':').map(str::to_owned).collect::<Vec<_>>());
        rows.filter(|row| row.get(at) == Some(&id)).collect()
    };
    let known = rows(groups, 2);
    let named = known.iter().filter_map(|row| row.get(3)).flat_map(|names| names.split(','));
    // A group that is not listed, in LDAP for example, may have any members.
    known.is_empty()
        || named
            .chain(rows(users, 3).iter().filter_map(|row| row.first()).map(String::as_str))
            .any(|user| !matches!(user, "" | "root"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_what_nobody_else_can_write_to_is_trusted() {
        let of = |owner, group, mode, is_dir| doubt(owner, group, mode, is_dir);
        assert_eq!(of(0, 0, 0o100_755, false), None);
        assert_eq!(of(0, 0, 0o040_775, true), None, "root's own group");
        assert_eq!(of(0, 0, 0o041_777, true), None, "/tmp");
        assert_eq!(of(NOBODY, 0, 0o100_755, false).is_none(), is_outside(NOBODY));
        assert!(of(1000, 0, 0o100_755, false).unwrap().contains("user 1000"));
        assert!(of(0, 0, 0o100_777, false).unwrap().contains("everybody"));
        assert!(
            of(0, 0, 0o101_777, false).unwrap().contains("everybody"),
            "sticky means something for folders only"
        );
        assert!(of(0, 4242, 0o040_775, true).unwrap().contains("group 4242"));
        assert_eq!(of(0, 4242, 0o040_755, true), None, "a group that may only read");
    }

    #[test]
    fn a_group_of_nobody_is_no_danger() {
        let (groups, users) = (
            "staff:x:50:\nwheel:x:10:root,me\nweb:x:33:\nadmin:x:9:root\n",
            "root:x:0:0::/root:\nweb:x:33:33::/:\n",
        );
        let members = |group| listed_members(group, groups, users);
        assert_eq!([50, 9, 10, 33, 77].map(members), [false, false, true, true, true]);
    }

    #[test]
    fn what_leads_to_a_program_counts_and_links_are_followed() {
        if !rustix::process::geteuid().is_root() {
            println!("not checked: without root the files of the test are not root's");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let (real, link) = (root.path().join("versions/bin"), root.path().join("node"));
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("node"), "").unwrap();
        symlink(real.join("node"), &link).unwrap();
        assert_eq!(objection(&link), None);
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        open(&root.path().join("versions"), 0o777);
        let why = objection(&link).unwrap();
        assert!(why.ends_with("versions can be written to by everybody"), "{why}");
        open(&root.path().join("versions"), 0o755);
        std::os::unix::fs::chown(real.join("node"), Some(1000), None).unwrap();
        assert!(objection(&link).unwrap().contains("bin/node belongs to user 1000"));
        assert!(objection(&root.path().join("gone")).unwrap().contains("cannot be looked at"));
    }
}
