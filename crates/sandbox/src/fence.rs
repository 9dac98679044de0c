//! Landlock: a second wall around the file system, and a barrier to signals and abstract sockets across the
//! sandbox's edge. Best effort: an older kernel enforces the part it knows, a kernel without Landlock
//! nothing.

use std::io;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

/// The newest Landlock ABI that this code was tested with.
const NEWEST: ABI = ABI::V6;

/// Writable places. Those that do not exist are skipped.
const WRITABLE: [&str; 2] = ["/tmp", "/proc"];
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Puts the calling thread and its descendants into a Landlock domain, irrevocably, and sets `no_new_privs`.
/// `writable` adds writable places. Returns whether the kernel enforces anything.
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

/// Like [`lock_in`], but without file rules: a clone's `/tmp` is a tmpfs without a mount point, so no path
/// rule could allow it.
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

/// The kernel's Landlock ABI version; 0 without Landlock.
pub(crate) fn version() -> i64 {
    // SAFETY: asks for the version only (LANDLOCK_CREATE_RULESET_VERSION).
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, 1u32) };
    version.max(0)
}
