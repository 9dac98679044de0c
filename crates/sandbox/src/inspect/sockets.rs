//! What a socket is, for messages.

use super::Process;

const TABLES: [(&str, &str); 5] =
    [("tcp", "TCP"), ("tcp6", "TCP"), ("udp", "UDP"), ("udp6", "UDP"), ("unix", "Unix")];

/// `a TCP socket`, by the target `socket:[INODE]` of one of its descriptors.
pub(super) fn describe(process: Process, target: &str) -> String {
    let inode = target.trim_start_matches("socket:[").trim_end_matches(']');
    for (table, name) in TABLES {
        let text = std::fs::read_to_string(process.path(&format!("net/{table}"))).unwrap_or_default();
        if text.lines().skip(1).any(|line| line.split_whitespace().any(|word| word == inode)) {
            return format!("a {name} socket");
        }
    }
    "a socket".into()
}
