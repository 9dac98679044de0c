//! What the servers with egress on a host share: forwarding on the uplinks, its guard, and cleaning up after
//! dead servers.

use std::fs;
use std::io;

use super::netlink::{self, Netlink};
use super::nft;
use super::registry::{Block, Registry, Turn};
use crate::sweep::SweepReport;

/// The common prefix of all servers' interface names.
pub(super) const EVERY_INTERFACE: &str = "flint";

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
/// until the last server with egress ends.
pub(super) fn switch_on(turn: &Turn, uplinks: &[String]) -> io::Result<()> {
    let off: Vec<&String> = uplinks.iter().filter(|name| !forwards(name)).collect();
    let mut guarded = turn.switched_on()?;
    let known = guarded.len();
    guarded.extend(off.iter().copied().cloned());
    guarded.sort();
    guarded.dedup();
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
    Ok(())
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
    for name in turn.switched_on()? {
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
