//! A way out for sandboxes: a virtual Ethernet pair each, NAT, and rules about where it leads.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::thread::LinkNameSpaceType;

use super::netlink::{self, Netlink};
use super::nft::{self, Rules};
use crate::error::Fault;
use crate::sys;

/// Addresses of sandboxes: the range for benchmarks of interconnects (RFC 2544), which real networks do not route.
pub(super) const RANGE: &str = "198.18.0.0/15";
/// The host's end of every pair.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// First address of a sandbox; there are some 130,000.
const FIRST: u32 = Ipv4Addr::new(198, 18, 1, 0).to_bits();

/// What egress needs to know.
#[derive(Debug, Clone)]
pub(crate) struct EgressConfig {
    pub(crate) table: String,
    pub(crate) interfaces: String,
    pub(crate) resolvers: Vec<IpAddr>,
    pub(crate) allow_private: bool,
    pub(crate) rootless: bool,
    /// Where to note, for a sweep, whose forwarding was switched on.
    pub(crate) note: PathBuf,
}

/// The server's part: rules and forwarding, set up when the first sandbox asks.
#[derive(Debug)]
pub(crate) struct Egress {
    config: EgressConfig,
    ready: bool,
    used: HashSet<u32>,
    /// Interfaces whose forwarding was switched on here.
    forwarding: Vec<String>,
}

impl Egress {
    pub(crate) fn new(config: EgressConfig) -> Self {
        Self { config, ready: false, used: HashSet::new(), forwarding: Vec::new() }
    }

    /// Prepares a way out of the empty network `namespace`, closed for now; the number returned gives it up again.
    pub(super) fn connect(&mut self, host: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> Result<u32, Fault> {
        self.prepare()?;
        let number = (0..100_000)
            .find(|number| !self.used.contains(number))
            .ok_or_else(|| Fault::step("find a free address for egress", &io::ErrorKind::AddrInUse.into()))?;
        self.used.insert(number);
        let name = self.name_of(number);
        join(host, namespace, &name, Ipv4Addr::from_bits(FIRST + number)).map_err(|error| {
            self.release(number);
            Fault::step(format!("make the network interface {name}"), &error)
        })?;
        Ok(number)
    }

    /// Opens or closes a way out. Closed, there is no route inside, so that connections fail at once, and nothing is forwarded on the host.
    pub(super) fn set_open(
        &self,
        host: BorrowedFd<'_>,
        namespace: BorrowedFd<'_>,
        number: u32,
        open: bool,
    ) -> Result<(), Fault> {
        let switch = || {
            fs::write(forwarding_switch(&self.name_of(number)), if open { "1" } else { "0" })?;
            sys::enter(namespace, LinkNameSpaceType::Network)?;
            let switched = set_default_route(open);
            sys::enter(host, LinkNameSpaceType::Network)?;
            switched
        };
        let step = if open { "open the way out" } else { "close the way out" };
        switch().map_err(|error| Fault::step(step, &error))
    }

    fn name_of(&self, number: u32) -> String {
        format!("{}{number:x}", self.config.interfaces)
    }

    /// Removes the interface pair at once; the namespace itself may live on for a moment.
    pub(super) fn release(&mut self, number: u32) {
        self.used.remove(&number);
        let name = self.name_of(number);
        if let (Ok(index), Ok(netlink)) = (netlink::index_of(&name), Netlink::new()) {
            let _ = netlink.delete(index);
        }
    }

    fn prepare(&mut self) -> Result<(), Fault> {
        if self.ready {
            return Ok(());
        }
        if let Some((what, remedy)) = missing(self.config.rootless) {
            return Err(Fault::Unavailable { what: format!("network egress ({what})"), remedy });
        }
        let uplinks = uplinks();
        let off: Vec<String> = uplinks.iter().filter(|name| !forwards(name)).cloned().collect();
        fs::write(&self.config.note, off.join("\n"))
            .map_err(|error| Fault::step("note what is changed for egress", &error))?;
        for name in off {
            match fs::write(forwarding_switch(&name), "1") {
                Ok(()) => self.forwarding.push(name),
                Err(error) => {
                    return Err(Fault::Unavailable {
                        what: format!(
                            "network egress (forwarding through {name} cannot be switched on: {error})"
                        ),
                        remedy: format!("allow it with `sysctl -w net.ipv4.conf.{name}.forwarding=1`"),
                    });
                }
            }
        }
        let rules = Rules {
            table: &self.config.table,
            interfaces: &self.config.interfaces,
            resolvers: &self.config.resolvers,
            allow_private: self.config.allow_private,
            guarded: &self.forwarding,
        };
        rules.apply().map_err(|error| Fault::Unavailable {
            what: format!("network egress (nft refused its rules: {error})"),
            remedy: "it needs the kernel's nf_tables with NAT (modules nft_masq, nft_chain_nat, nft_ct)"
                .into(),
        })?;
        self.ready = true;
        Ok(())
    }

    /// Removes rules and interfaces, and switches forwarding off where it was off before.
    pub(crate) fn end(&mut self) {
        if self.ready {
            let _ = remove_interfaces(&self.config.interfaces);
            let _ = nft::remove_table(&self.config.table);
        }
        undo_forwarding(&self.config.note);
    }
}

/// Switches forwarding off again where the note says that it was.
pub(crate) fn undo_forwarding(note: &Path) -> usize {
    let names = fs::read_to_string(note).unwrap_or_default();
    let undone = names.lines().filter(|name| fs::write(forwarding_switch(name), "0").is_ok()).count();
    let _ = fs::remove_file(note);
    undone
}

/// What this host lacks for egress, and the remedy.
pub(crate) fn missing(rootless: bool) -> Option<(String, String)> {
    if rootless {
        return Some((
            "without root a sandbox has no way out".into(),
            "run flint as root (or with CAP_NET_ADMIN and CAP_SYS_ADMIN), or deploy the function with network none".into(),
        ));
    }
    if nft::program().is_none() {
        return Some(("the `nft` command is missing".into(), "install the package nftables".into()));
    }
    if uplinks().is_empty() {
        return Some(("this host has no default IPv4 route".into(), "connect the host to a network".into()));
    }
    None
}

/// The pair and its addresses.
fn join(host: BorrowedFd<'_>, namespace: BorrowedFd<'_>, name: &str, address: Ipv4Addr) -> io::Result<()> {
    let here = Netlink::new()?;
    here.add_pair(name, "eth0", namespace)?;
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    let index = netlink::index_of(name)?;
    here.add_address(index, GATEWAY, address)?;
    // Only the one address may come out of it.
    fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "1")?;
    // A new interface forwards when the host does.
    fs::write(forwarding_switch(name), "0")?;
    here.set_up(index)?;
    sys::enter(namespace, LinkNameSpaceType::Network)?;
    let inside = inside(address);
    sys::enter(host.as_fd(), LinkNameSpaceType::Network)?;
    inside
}

fn inside(address: Ipv4Addr) -> io::Result<()> {
    let netlink = Netlink::new()?;
    let index = netlink::index_of("eth0")?;
    netlink.add_address(index, address, GATEWAY)?;
    netlink.set_up(index)
}

/// In the sandbox's network.
fn set_default_route(there: bool) -> io::Result<()> {
    let netlink = Netlink::new()?;
    let index = netlink::index_of("eth0")?;
    if there {
        netlink.add_default_route(index, GATEWAY)
    } else {
        netlink.remove_default_route(index, GATEWAY)
    }
}

/// Interfaces that a default IPv4 route leads through.
fn uplinks() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/net/route").unwrap_or_default();
    let mut names: Vec<String> = table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            matches!(fields[..], [_, "00000000", _, _, _, _, _, "00000000", ..]).then(|| fields[0].to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

fn forwarding_switch(name: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{name}/forwarding")
}

fn forwards(name: &str) -> bool {
    fs::read_to_string(forwarding_switch(name)).is_ok_and(|text| text.trim() == "1")
}

/// Removes the interfaces whose names begin with `prefix`, and gives their number.
pub(crate) fn remove_interfaces(prefix: &str) -> io::Result<usize> {
    let mut removed = 0;
    for name in netlink::names()?.into_iter().filter(|name| name.starts_with(prefix)) {
        Netlink::new()?.delete(netlink::index_of(&name)?)?;
        removed += 1;
    }
    Ok(removed)
}
