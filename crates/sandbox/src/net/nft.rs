//! The nftables rules of egress: one table per server for its sandboxes' destinations, and one shared table
//! that guards the host's forwarding.

use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::registry::Switched;
use super::share::EVERY_INTERFACE;

/// Never reachable, whatever the configuration: this host's network, loopback, Azure's host, link-local (the
/// metadata of other clouds), multicast, reserved ranges and sandboxes. Azure's host may be a resolver all the
/// same.
const NEVER: &str =
    "0.0.0.0/8, 127.0.0.0/8, 168.63.129.16, 169.254.0.0/16, 192.0.0.0/24, 198.18.0.0/15, 224.0.0.0/3";
/// Never reachable either, though in a private range: the metadata of Alibaba's cloud.
const NEVER_OF_PRIVATE: &str = "100.100.100.200";
/// Reachable only with `allow_private`.
const PRIVATE: &str = "10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12, 192.168.0.0/16";

/// The table that all servers share.
pub(super) const GUARD: &str = "flint_egress";

/// The parameters of a server's rules.
pub(super) struct Rules<'a> {
    pub(super) table: &'a str,
    /// The prefix of its sandboxes' interface names.
    pub(super) interfaces: &'a str,
    /// The address range of its sandboxes.
    pub(super) sources: &'a str,
    pub(super) resolvers: &'a [IpAddr],
    pub(super) allow_private: bool,
}

impl Rules<'_> {
    /// Replaces the server's table. Forbidden connections are rejected, so that they fail at once; on a
    /// kernel that cannot reject they are dropped and time out.
    pub(super) fn apply(&self) -> io::Result<()> {
        apply(&self.script("reject with icmpx type admin-prohibited"))
            .or_else(|_| apply(&self.script("drop")))
    }

    /// The whole table as an `nft` script.
    fn script(&self, refuse: &str) -> String {
        let Rules { table, interfaces, sources, .. } = self;
        let more = if self.allow_private { NEVER_OF_PRIVATE } else { PRIVATE };
        let blocked = format!("{NEVER}, {more}");
        let resolvers: Vec<String> =
            self.resolvers.iter().filter(|address| address.is_ipv4()).map(IpAddr::to_string).collect();
        let dns = if resolvers.is_empty() {
            String::new()
        } else {
            let list = resolvers.join(", ");
            format!(
                "iifname \"{interfaces}*\" ip daddr {{ {list} }} udp dport 53 accept\n\
                 iifname \"{interfaces}*\" ip daddr {{ {list} }} tcp dport 53 accept\n"
            )
        };
        format!(
            "table inet {table}\n\
             delete table inet {table}\n\
             table inet {table} {{\n\
             chain input {{\n\
             type filter hook input priority -10; policy accept;\n\
             iifname \"{interfaces}*\" {refuse}\n\
             }}\n\
             chain forward {{\n\
             type filter hook forward priority -10; policy accept;\n\
             iifname \"{interfaces}*\" meta nfproto ipv6 {refuse}\n\
             iifname \"{interfaces}*\" oifname \"{EVERY_INTERFACE}*\" {refuse}\n\
             {dns}\
             iifname \"{interfaces}*\" ip daddr {{ {blocked} }} {refuse}\n\
             oifname \"{interfaces}*\" ct state established,related accept\n\
             oifname \"{interfaces}*\" drop\n\
             }}\n\
             chain postrouting {{\n\
             type nat hook postrouting priority 100; policy accept;\n\
             ip saddr {sources} oifname != \"{EVERY_INTERFACE}*\" masquerade\n\
             }}\n\
             }}\n"
        )
    }
}

/// Drops everything that arrives on these uplinks unless it goes to a sandbox's interface, of whichever
/// server: they forward only because of egress.
pub(super) fn guard(uplinks: &[Switched]) -> io::Result<()> {
    let rules: String = uplinks
        .iter()
        .map(|Switched { name, .. }| format!("iifname \"{name}\" oifname != \"{EVERY_INTERFACE}*\" drop\n"))
        .collect();
    apply(&format!(
        "table inet {GUARD}\n\
         delete table inet {GUARD}\n\
         table inet {GUARD} {{\n\
         chain forward {{\n\
         type filter hook forward priority -10; policy accept;\n\
         {rules}\
         }}\n\
         }}\n"
    ))
}

/// The `nft` program.
pub(super) fn program() -> Option<PathBuf> {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];
    places.iter().map(|place| PathBuf::from(place).join("nft")).find(|path| path.is_file())
}

/// Runs `nft` with a script.
fn apply(script: &str) -> io::Result<()> {
    let program = program().ok_or(io::ErrorKind::NotFound)?;
    let mut child = Command::new(program)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// Removes a table; false when there was none.
pub(super) fn remove_table(table: &str) -> io::Result<bool> {
    let Some(program) = program() else { return Ok(false) };
    let mut list = Command::new(program);
    list.args(["list", "table", "inet", table]).stdout(Stdio::null()).stderr(Stdio::null());
    if !list.status()?.success() {
        return Ok(false);
    }
    apply(&format!("delete table inet {table}\n")).map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_ranges_are_open_only_on_request() {
        let rules = |allow_private| {
            let resolvers = ["192.0.2.53".parse().unwrap(), "2001:db8::53".parse().unwrap()];
            let (interfaces, sources) = ("flint1-", "198.18.16.0/20");
            Rules { table: "t", interfaces, sources, resolvers: &resolvers, allow_private }.script("drop")
        };
        assert!(rules(false).contains("10.0.0.0/8") && !rules(true).contains("10.0.0.0/8"));
        assert!(
            rules(false).contains("100.64.0.0/10") && rules(true).contains("224.0.0.0/3, 100.100.100.200")
        );
        for script in [rules(false), rules(true)] {
            assert!(script.contains("168.63.129.16, 169.254.0.0/16"));
            assert!(script.contains("ip daddr { 192.0.2.53 } udp dport 53 accept"));
            assert!(script.contains("iifname \"flint1-*\" oifname \"flint*\" drop"));
        }
    }
}
