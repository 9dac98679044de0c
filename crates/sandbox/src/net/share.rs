//! What the servers with egress on a host share: forwarding on the uplinks, its guard, and cleaning up after
//! dead servers.

use std::fs;
use std::io;

use super::netlink::{self, Netlink};
use super::nft;
use super::registry::{Block, Registry, Switched, Turn};
use crate::sweep::SweepReport;

/// The common prefix of all servers' interface names.
pub(super) const EVERY_INTERFACE: &str = "flint";

/// The host's own switch, `net.ipv4.ip_forward`, has this name among the interfaces'. Who sets it sets those
/// of all interfaces; Flint does not.
const EVERYTHING: &str = "all";

impl Block {
    /// The prefix of its interfaces' names.
    pub(super) fn interfaces(&self) -> String {
        format!("{EVERY_INTERFACE}{}-", self.number)
    }

    /// Its nftables table.
    pub(super) fn table(&self) -> String {
        format!("flint_egress_{}", self.number)
    }
}

/// Switches forwarding on for `uplinks`. Those that did not forward before do so for sandboxes only, and
/// until the last server with egress ends. Returns whether the guard is there.
pub(super) fn switch_on(turn: &Turn, uplinks: &[String]) -> io::Result<bool> {
    leave_to_others(turn)?;
    let off: Vec<&String> = uplinks.iter().filter(|name| !forwards(name)).collect();
    let mut guarded = turn.switched_on()?;
    let known = guarded.len();
    let but_host = host_forwards();
    let not_yet = off.iter().filter(|name| guarded.iter().all(|switched| switched.name != ***name));
    let added: Vec<Switched> = not_yet.map(|name| Switched { name: String::clone(name), but_host }).collect();
    guarded.extend(added);
    if guarded.len() != known {
        turn.note_switched_on(&guarded)?;
    }
    if !guarded.is_empty() {
        nft::guard(&guarded)?;
    }
    for name in off {
        fs::write(forwarding_switch(name), "1")
            .map_err(|error| io::Error::other(format!("forwarding through {name}: {error}")))?;
    }
    Ok(!guarded.is_empty())
}

/// Whether the whole host forwards, for which Flint is not the reason.
pub(super) fn host_forwards() -> bool {
    forwards(EVERYTHING)
}

/// Once somebody else has switched forwarding on for the whole host, and so for the uplinks, these are theirs:
/// their packets pass, and they switch it off. Uplinks that did not forward although the host did are what
/// they were.
pub(super) fn leave_to_others(turn: &Turn) -> io::Result<()> {
    let guarded = turn.switched_on()?;
    if !host_forwards() || guarded.iter().all(|switched| switched.but_host) {
        return Ok(());
    }
    let ours: Vec<Switched> = guarded.into_iter().filter(|switched| switched.but_host).collect();
    if ours.is_empty() {
        nft::remove_table(nft::GUARD)?;
        turn.forget_switched_on()
    } else {
        nft::guard(&ours)?;
        turn.note_switched_on(&ours)
    }
}

/// Removes everything that was made for a block and gives it back; the last server restores the host's
/// forwarding. If something cannot be removed, the block stays registered for the next sweep.
pub(super) fn leave(turn: &Turn, block: Block, report: &mut SweepReport) {
    let known = report.problems.len();
    match remove_interfaces(&block.interfaces()) {
        Ok(removed) => report.interfaces += removed,
        Err(error) => report.problems.push(format!("interfaces {}*: {error}", block.interfaces())),
    }
    match nft::remove_table(&block.table()) {
        Ok(removed) => report.nft_tables += usize::from(removed),
        Err(error) => report.problems.push(format!("nftables table {}: {error}", block.table())),
    }
    if report.problems.len() > known {
        return;
    }
    turn.free(block)
        .and_then(|()| switch_off_for_nobody(turn, report))
        .unwrap_or_else(|error| report.problems.push(format!("forwarding for egress: {error}")));
}

fn switch_off_for_nobody(turn: &Turn, report: &mut SweepReport) -> io::Result<()> {
    if !turn.is_deserted()? {
        return Ok(());
    }
    leave_to_others(turn)?;
    for Switched { name, .. } in turn.switched_on()? {
        // An interface that has gone needs no switching off.
        let _ = fs::write(forwarding_switch(&name), "0");
    }
    report.nft_tables += usize::from(nft::remove_table(nft::GUARD)?);
    turn.forget_switched_on()
}

/// Removes what killed servers with egress have left.
pub(super) fn sweep_abandoned(turn: &Turn, report: &mut SweepReport) {
    match turn.abandoned() {
        Ok(blocks) => blocks.into_iter().for_each(|block| leave(turn, block, report)),
        Err(error) => report.problems.push(format!("blocks of addresses for egress: {error}")),
    }
    // The last server may have been killed after it had given its block back.
    switch_off_for_nobody(turn, report)
        .unwrap_or_else(|error| report.problems.push(format!("forwarding for egress: {error}")));
}

/// Sweeps for a server without egress.
pub(crate) fn sweep(report: &mut SweepReport) {
    let turn = Registry::of_this_network().and_then(|registry| registry.enter_existing());
    let swept = match turn {
        Ok(None) => Ok(()),
        Ok(Some(turn)) => {
            sweep_abandoned(&turn, report);
            turn.close()
        }
        Err(error) => Err(error),
    };
    match swept {
        // Egress takes root, so without root there is nothing to sweep.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
            report.problems.push(format!("the servers with egress on this host: {error}"));
        }
        _ => {}
    }
}

pub(super) fn forwarding_switch(name: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{name}/forwarding")
}

fn forwards(name: &str) -> bool {
    fs::read_to_string(forwarding_switch(name)).is_ok_and(|text| text.trim() == "1")
}

/// Removes the interfaces whose names begin with `prefix`; returns how many.
fn remove_interfaces(prefix: &str) -> io::Result<usize> {
    let mut removed = 0;
    for name in netlink::names()?.into_iter().filter(|name| name.starts_with(prefix)) {
        match netlink::index_of(&name).and_then(|index| Netlink::new()?.delete(index)) {
            Ok(()) => removed += 1,
            // It has gone together with its sandbox.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}
