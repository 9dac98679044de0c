//! Ways in which a workload is run: the arms of an experiment.

/// How functions are deployed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strategy {
    /// The arm's name.
    pub(super) name: &'static str,
    /// `--start`, `--reuse`; nothing: Flint chooses.
    pub(super) asked: Option<(&'static str, &'static str)>,
    /// Called with the workload's event before it is frozen, where that is a snapshot.
    pub(super) warmed_up: bool,
    /// Calls at once in one instance are as many as callers.
    pub(super) shared: bool,
}

const fn strategy(name: &'static str, start: &'static str, reuse: &'static str) -> Strategy {
    Strategy { name, asked: Some((start, reuse)), warmed_up: false, shared: false }
}

/// A process for each call, as OpenFaaS' classic watchdog has it.
pub(super) const CLASSIC: Strategy = strategy("classic", "spawn", "never");
/// A sandbox with a runtime of its own that stays for further calls, as OpenWhisk's containers do.
pub(super) const CONTAINER: Strategy = strategy("container", "spawn", "warm");
/// A clone of a snapshot taken when the code was loaded and had never run: FIREWORKS' OS snapshot.
pub(super) const LOADED: Strategy = strategy("snapshot-loaded", "fork", "never");
/// A clone of a snapshot taken after the code was compiled: FIREWORKS' post-JIT snapshot.
pub(super) const COMPILED: Strategy =
    Strategy { warmed_up: true, ..strategy("snapshot-compiled", "fork", "never") };
/// What Flint does when nobody says anything but the warm-up event.
pub(super) const FLINT: Strategy = Strategy { name: "flint", asked: None, warmed_up: true, shared: false };
/// One instance for all callers, as Photons has it.
pub(super) const SHARED: Strategy = Strategy { shared: true, ..strategy("shared", "spawn", "warm") };
