//! Landlock: a second opinion on the file system, and no signals or abstract sockets across the sandbox's edge.
//! Best effort: an older kernel enforces what it knows, one without Landlock nothing.

use std::io;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

/// The newest interface that this code was tried with.
const NEWEST: ABI = ABI::V6;

/// Places where writing is meant. Missing ones are passed over.
const WRITABLE: [&str; 2] = ["/tmp", "/proc"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Locks the calling thread (and its descendants) in, for good; sets `no_new_privs`. `writable`: further places to write to.
/// Returns whether anything is enforced.
pub(crate) fn lock_in<'a>(writable: impl Iterator<Item = &'a str>) -> io::Result<bool> {
    enforce(writable).map(|status| status.ruleset != RulesetStatus::NotEnforced).map_err(io::Error::other)
}

fn enforce<'a>(writable: impl Iterator<Item = &'a str>) -> Result<RestrictionStatus, landlock::RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let look = AccessFs::from_read(NEWEST);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let places = WRITABLE.into_iter().map(|place| (place, all)).chain(writable.map(|place| (place, all)));
    let devices = DEVICES.into_iter().map(|place| (place, device));
    for (place, access) in std::iter::once(("/", look)).chain(places).chain(devices) {
        if let Ok(fd) = PathFd::new(place) {
            rules = rules.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    rules.restrict_self()
}

/// Like [`lock_in`], but without rules about files: a tmpfs that is mounted nowhere is below no place that a rule could name.
pub(crate) fn lock_in_scopes() -> io::Result<bool> {
    let enforce = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .restrict_self()
    };
    enforce()
        .map(|status: RestrictionStatus| status.ruleset != RulesetStatus::NotEnforced)
        .map_err(|error: landlock::RulesetError| io::Error::other(error))
}

/// The kernel's Landlock version, 0 without it.
pub(crate) fn version() -> i64 {
    // SAFETY: asks for the version only (LANDLOCK_CREATE_RULESET_VERSION).
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, 1u32) };
    version.max(0)
}
