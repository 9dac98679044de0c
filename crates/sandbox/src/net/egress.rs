//! Egress for sandboxes: a veth pair for each, NAT, and rules about allowed destinations.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::thread::LinkNameSpaceType;

use super::conntrack;
use super::netlink::{self, Netlink};
use super::nft::{self, Rules};
use super::registry::{BLOCKS, Block, Registry, Turn};
use super::share::{self, forwarding_switch};
use crate::error::Fault;
use crate::sweep::SweepReport;
use crate::sys;

/// Addresses of sandboxes: the range for benchmarks of interconnects (RFC 2544), which real networks do not
/// route. The gateway is in the first block; each of the other blocks is for one server.
const RANGE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// Addresses in a block; the range of /15 has 32 blocks.
const BLOCK_SIZE: u32 = 1 << 12;
/// The host's end of every veth pair.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The configuration of egress.
#[derive(Debug, Clone)]
pub(crate) struct EgressConfig {
    pub(crate) resolvers: Vec<IpAddr>,
    pub(crate) allow_private: bool,
    pub(crate) rootless: bool,
}

/// Egress of one server. Addresses, rules and forwarding are claimed for the first sandbox that needs them.
#[derive(Debug)]
pub(crate) struct Egress {
    config: EgressConfig,
    part: Option<Part>,
}

/// What a server has claimed on the host.
#[derive(Debug)]
struct Part {
    registry: Registry,
    block: Block,
    /// Whether there is a guard that may have to go: see [`share::leave_to_others`].
    guarded: bool,
    used: HashSet<u32>,
    /// Numbers whose addresses were never used, or whose connection tracking entries have been deleted since.
    clean: Vec<u32>,
}

impl Part {
    fn name_of(&self, number: u32) -> String {
        format!("{}{number:x}", self.block.interfaces())
    }

    fn address_of(&self, number: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(first_address(&self.block) + number)
    }

    /// An unused number, and so an address, for one sandbox. Packets for an earlier sandbox with that address
    /// do not reach it: their connection tracking entries have been deleted.
    fn take_number(&mut self) -> io::Result<u32> {
        if self.clean.is_empty() {
            forget_connections(&self.block, &self.used)?;
            self.clean = (0..BLOCK_SIZE).rev().filter(|number| !self.used.contains(number)).collect();
        }
        let number = self.clean.pop().ok_or(io::ErrorKind::AddrInUse)?;
        self.used.insert(number);
        Ok(number)
    }
}

impl Egress {
    pub(crate) fn new(config: EgressConfig) -> Self {
        Self { config, part: None }
    }

    /// Connects the empty network namespace `namespace` to the host, closed for now. The number returned
    /// releases it again.
    pub(super) fn connect(&mut self, host: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> Result<u32, Fault> {
        self.leave_to_others();
        let part = match &mut self.part {
            Some(part) => part,
            none => none.insert(prepare(&self.config)?),
        };
        let number =
            part.take_number().map_err(|error| Fault::step("find a free address for egress", &error))?;
        let name = part.name_of(number);
        join(host, namespace, &name, part.address_of(number)).map_err(|error| {
            self.release(number);
            Fault::step(format!("make the network interface {name}"), &error)
        })?;
        Ok(number)
    }

    /// Whether [`Self::leave_to_others`] should be called now and then.
    pub(super) fn is_guarded(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.guarded)
    }

    /// Takes the guard away if somebody else wants the host to forward by now.
    pub(super) fn leave_to_others(&mut self) {
        let Some(part) = self.part.as_mut().filter(|part| part.guarded && share::host_forwards()) else {
            return;
        };
        // If another server has its turn, or something fails, the next look is soon enough.
        if let Ok(Some(turn)) = part.registry.try_enter()
            && share::leave_to_others(&turn).is_ok()
        {
            part.guarded = false;
        }
    }

    /// Opens or closes egress. While it is closed the sandbox has no default route, so that connections fail
    /// at once, and the host does not forward from its interface.
    pub(super) fn set_open(
        &self,
        host: BorrowedFd<'_>,
        namespace: BorrowedFd<'_>,
        number: u32,
        open: bool,
    ) -> Result<(), Fault> {
        let Some(part) = &self.part else { return Ok(()) };
        let switch = || {
            fs::write(forwarding_switch(&part.name_of(number)), if open { "1" } else { "0" })?;
            sys::enter(namespace, LinkNameSpaceType::Network)?;
            let switched = set_default_route(open);
            sys::enter(host, LinkNameSpaceType::Network)?;
            switched
        };
        let step = if open { "open the way out" } else { "close the way out" };
        switch().map_err(|error| Fault::step(step, &error))
    }

    /// Removes the interface pair. The network namespace itself may outlive it.
    pub(super) fn release(&mut self, number: u32) {
        let Some(part) = &mut self.part else { return };
        part.used.remove(&number);
        if let (Ok(index), Ok(netlink)) = (netlink::index_of(&part.name_of(number)), Netlink::new()) {
            let _ = netlink.delete(index);
        }
    }

    /// Removes rules and interfaces, and gives the block back. What cannot be removed is left to the next
    /// server that sweeps.
    pub(crate) fn end(&mut self) {
        let Some(Part { registry, block, .. }) = self.part.take() else { return };
        if let Ok(turn) = registry.enter() {
            share::leave(&turn, block, &mut SweepReport::default());
            let _ = turn.close();
        }
    }
}

/// Claims a block, and sets up rules and forwarding.
fn prepare(config: &EgressConfig) -> Result<Part, Fault> {
    if let Some((what, remedy)) = missing(config.rootless) {
        return Err(Fault::Unavailable { what: format!("network egress ({what})"), remedy });
    }
    let no_registry = |error: io::Error| Fault::Unavailable {
        what: format!("network egress (servers on this host agree on addresses in /run/flint: {error})"),
        remedy: "let flint write to /run/flint".into(),
    };
    let registry = Registry::of_this_network().map_err(no_registry)?;
    let turn = registry.enter().map_err(no_registry)?;
    share::sweep_abandoned(&turn, &mut SweepReport::default());
    let block = turn.claim().map_err(no_registry)?.ok_or_else(|| Fault::Unavailable {
        what: format!(
            "network egress ({BLOCKS} servers on this host have it, and there are addresses for no more)"
        ),
        remedy: "stop one of them".into(),
    })?;
    match put_in_force(config, &turn, &block) {
        Ok(guarded) => {
            let clean = (0..BLOCK_SIZE).rev().collect();
            Ok(Part { registry, block, guarded, used: HashSet::new(), clean })
        }
        Err(fault) => {
            share::leave(&turn, block, &mut SweepReport::default());
            let _ = turn.close();
            Err(fault)
        }
    }
}

/// Returns whether forwarding is guarded.
fn put_in_force(config: &EgressConfig, turn: &Turn, block: &Block) -> Result<bool, Fault> {
    let uplinks = uplinks();
    let guarded = share::switch_on(turn, &uplinks).map_err(|error| Fault::Unavailable {
        what: format!("network egress (the host cannot be made to forward: {error})"),
        remedy: format!("allow it with `sysctl -w net.ipv4.conf.{}.forwarding=1`", uplinks.join("|")),
    })?;
    let rules = Rules {
        table: &block.table(),
        interfaces: &block.interfaces(),
        sources: &format!("{}/20", Ipv4Addr::from_bits(first_address(block))),
        resolvers: &config.resolvers,
        allow_private: config.allow_private,
    };
    rules.apply().map_err(|error| Fault::Unavailable {
        what: format!("network egress (nft refused its rules: {error})"),
        remedy: "it needs the kernel's nf_tables with NAT (modules nft_masq, nft_chain_nat, nft_ct)".into(),
    })?;
    // Entries of the block's previous holder.
    forget_connections(block, &HashSet::new()).map_err(|error| Fault::Unavailable {
        what: format!(
            "network egress (connections of sandboxes that have ended cannot be forgotten: {error})"
        ),
        remedy: "it needs the kernel's connection tracking by netlink (module nf_conntrack_netlink)".into(),
    })?;
    Ok(guarded)
}

fn first_address(block: &Block) -> u32 {
    RANGE.to_bits() + block.number * BLOCK_SIZE
}

/// Deletes the connection tracking entries of all addresses in a block but those with these numbers.
fn forget_connections(block: &Block, but: &HashSet<u32>) -> io::Result<()> {
    let first = first_address(block);
    conntrack::forget(|address| {
        address
            .to_bits()
            .checked_sub(first)
            .is_some_and(|number| number < BLOCK_SIZE && !but.contains(&number))
    })
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

/// Makes the veth pair with its addresses.
fn join(host: BorrowedFd<'_>, namespace: BorrowedFd<'_>, name: &str, address: Ipv4Addr) -> io::Result<()> {
    let here = Netlink::new()?;
    here.add_pair(name, "eth0", namespace)?;
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
    let index = netlink::index_of(name)?;
    here.add_address(index, GATEWAY, address)?;
    // Reverse path filtering drops packets from any other source address.
    fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "1")?;
    // A new interface takes over the host's default for forwarding.
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

/// Runs in the sandbox's network namespace.
fn set_default_route(there: bool) -> io::Result<()> {
    let netlink = Netlink::new()?;
    let index = netlink::index_of("eth0")?;
    if there {
        netlink.add_default_route(index, GATEWAY)
    } else {
        netlink.remove_default_route(index, GATEWAY)
    }
}

/// Interfaces with a default IPv4 route.
fn uplinks() -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
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
