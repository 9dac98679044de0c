//! Describes a socket for messages.

use std::fs::File;
use std::io::Read;

use super::Process;

const TABLES: [(&str, &str); 5] =
    [("tcp", "TCP"), ("tcp6", "TCP"), ("udp", "UDP"), ("udp6", "UDP"), ("unix", "Unix")];

/// How much of a table is read: it lists the sockets of the whole sandbox, and is read anew for each socket
/// described.
const TABLE_MAX: u64 = 256 * 1024;

/// For example `a TCP socket`, from the target `socket:[INODE]` of one of its descriptors.
pub(super) fn describe(process: Process, target: &str) -> String {
    let inode = target.trim_start_matches("socket:[").trim_end_matches(']');
    for (table, name) in TABLES {
        let mut text = String::new();
        if let Ok(file) = File::open(process.path(&format!("net/{table}"))) {
            let _ = file.take(TABLE_MAX).read_to_string(&mut text);
        }
        if text.lines().skip(1).any(|line| line.split_whitespace().any(|word| word == inode)) {
            return format!("a {name} socket");
        }
    }
    "a socket".into()
}
