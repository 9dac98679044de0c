//! The arms of experiments: ways of running a workload. docs/benchmarks.md describes them.

use std::time::Duration;

use flint_lab::Comparison;

/// An arm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strategy {
    /// Its name.
    pub(super) name: &'static str,
    pub(super) by: By,
}

/// What runs the function.
#[derive(Clone, Copy, Debug)]
pub(super) enum By {
    /// Flint.
    Flint(Wish),
    /// Another program, by a script of scripts/baselines.
    Baseline(Scripts),
}

/// The options of a deploy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    /// `--start`, `--reuse`; `None`: Flint chooses.
    pub(super) asked: Option<(&'static str, &'static str)>,
    /// Called with the workload's event before the snapshot, if there is one.
    pub(super) warmed_up: bool,
    /// One instance serves all callers concurrently.
    pub(super) shared: bool,
    /// `--isolation wasm`.
    pub(super) wasm: bool,
    /// The server is configured for many rarely called functions: snapshots expire after [`LEAN_IDLE`], and
    /// prewarmed runtimes stand in.
    pub(super) lean: bool,
}

/// How long an uncalled snapshot is kept on a lean server, in the time of a trace.
pub(super) const LEAN_IDLE: Duration = Duration::from_secs(60);
/// Number of prewarmed runtimes on a lean server.
pub(super) const LEAN_PREWARMED: usize = 3;

impl Wish {
    /// Whether everything is left to Flint's choice.
    pub(super) const fn is_flints_own(&self) -> bool {
        self.asked.is_none() && !self.wasm
    }
}

/// Folders of scripts/baselines, by language.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scripts {
    pub(super) node: Option<&'static str>,
    pub(super) python: Option<&'static str>,
    /// It is nothing but the function: its whole memory counts, and no call of it is cold.
    pub(super) is_plain: bool,
}

const NOTHING_ASKED: Wish = Wish { asked: None, warmed_up: false, shared: false, wasm: false, lean: false };

const fn asked(name: &'static str, start: &'static str, reuse: &'static str) -> Strategy {
    Strategy { name, by: By::Flint(Wish { asked: Some((start, reuse)), ..NOTHING_ASKED }) }
}

const fn warmed_up(name: &'static str, reuse: &'static str) -> Strategy {
    let wish = Wish { asked: Some(("fork", reuse)), warmed_up: true, ..NOTHING_ASKED };
    Strategy { name, by: By::Flint(wish) }
}

const fn baseline(name: &'static str, script: &'static str) -> Strategy {
    let scripts = Scripts { node: Some(script), python: Some(script), is_plain: false };
    Strategy { name, by: By::Baseline(scripts) }
}

/// A new sandbox and process for each call.
pub(super) const SPAWN_NEVER: Strategy = asked("spawn-never", "spawn", "never");
/// A sandbox with its own runtime, kept for further calls; none is prewarmed.
pub(super) const SPAWN_WARM: Strategy = asked("spawn-warm", "spawn", "warm");
/// A clone of a snapshot whose code was loaded but never run: FIREWORKS' OS snapshot.
pub(super) const UNWARMED: Strategy = asked("fork-never-unwarmed", "fork", "never");
/// A clone of a snapshot whose code was compiled, for each call: FIREWORKS' post-JIT snapshot.
pub(super) const FORK_NEVER: Strategy = warmed_up("fork-never", "never");
/// The same, kept for further calls.
pub(super) const FORK_WARM: Strategy = warmed_up("fork-warm", "warm");
/// A WebAssembly instance for each call.
pub(super) const WASM: Strategy =
    Strategy { name: "wasm", by: By::Flint(Wish { wasm: true, ..NOTHING_ASKED }) };
/// One instance for all callers, as in Photons.
pub(super) const CONCURRENT: Strategy = Strategy {
    name: "spawn-concurrent",
    by: By::Flint(Wish { asked: Some(("spawn", "warm")), shared: true, ..NOTHING_ASKED }),
};
/// Flint's default, given the warm-up event only.
pub(super) const FLINT: Strategy =
    Strategy { name: "flint", by: By::Flint(Wish { warmed_up: true, ..NOTHING_ASKED }) };

/// The same on a lean server.
pub(super) const LEAN: Strategy =
    Strategy { name: "flint-lean", by: By::Flint(Wish { warmed_up: true, lean: true, ..NOTHING_ASKED }) };

/// Containers made by runc and kept for further calls.
pub(super) const OPENWHISK: Strategy = baseline("openwhisk", "openwhisk");
/// The same in gVisor.
pub(super) const GVISOR: Strategy = baseline("gvisor", "gvisor");
/// One warm container, with a process for each call.
pub(super) const OPENFAAS: Strategy = baseline("openfaas-classic", "openfaas-classic");
/// A server process of the language, without isolation.
pub(super) const FRAMEWORK: Strategy = Strategy {
    name: "functions-framework",
    by: By::Baseline(Scripts {
        node: Some("functions-framework-node"),
        python: Some("functions-framework-python"),
        is_plain: true,
    }),
};
/// A V8 isolate in one process.
pub(super) const WORKERD: Strategy = Strategy {
    name: "workerd",
    by: By::Baseline(Scripts { node: Some("workerd"), python: None, is_plain: true }),
};

impl Strategy {
    /// Whether it is a reference: a sandbox with the start of a runtime and the loading of the code, in a
    /// container or Flint's own.
    pub(super) fn is_reference(&self) -> bool {
        [OPENWHISK.name, SPAWN_WARM.name].contains(&self.name)
    }

    pub(super) const fn is_lean(&self) -> bool {
        matches!(self.by, By::Flint(Wish { lean: true, .. }))
    }

    /// Whether every call gets an instance that ends with it. WebAssembly instances are inside the server,
    /// and gone once it has answered.
    pub(super) fn ends_with_its_call(&self) -> bool {
        match self.by {
            By::Flint(wish) => !wish.wasm && wish.asked.is_none_or(|(_, reuse)| reuse == "never"),
            By::Baseline(_) => self.name == OPENFAAS.name,
        }
    }

    pub(super) const fn is_flints(&self) -> bool {
        matches!(self.by, By::Flint(_))
    }
}

/// How the values of two arms of one function are compared.
type Compare = fn(&str, (&str, &[f64]), (&str, &[f64])) -> Option<Comparison>;

/// Compares each reference with each of Flint's arms, by their calls or rounds.
pub(super) fn compared(title: &str, arms: &[(Strategy, Vec<f64>)], compare: Compare) -> Vec<Comparison> {
    let references = arms.iter().filter(|(strategy, _)| strategy.is_reference());
    let pairs = references.flat_map(|reference| {
        let others = arms.iter().filter(|(strategy, _)| strategy.is_flints());
        others.filter(|other| other.0.name != reference.0.name).map(move |other| (reference, other))
    });
    pairs.filter_map(|(a, b)| compare(title, (a.0.name, &a.1), (b.0.name, &b.1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_with_its_call_is_not_looked_for_while_it_does() {
        let all = [
            SPAWN_NEVER,
            SPAWN_WARM,
            CONCURRENT,
            UNWARMED,
            FORK_NEVER,
            FORK_WARM,
            WASM,
            FLINT,
            OPENWHISK,
            OPENFAAS,
            FRAMEWORK,
        ];
        let ending: Vec<_> = all
            .iter()
            .filter(|strategy| strategy.ends_with_its_call())
            .map(|strategy| strategy.name)
            .collect();
        let expected = ["spawn-never", "fork-never-unwarmed", "fork-never", "flint", "openfaas-classic"];
        assert_eq!(ending, expected);
    }

    #[test]
    fn references_are_compared_with_flints_arms_and_not_with_themselves() {
        let arms: Vec<_> = [OPENWHISK, WORKERD, SPAWN_WARM, FORK_WARM]
            .into_iter()
            .enumerate()
            .map(|(at, strategy)| (strategy, vec![f64::from(4 - at as u32); 5]))
            .collect();
        let pairs: Vec<_> = compared("f", &arms, Comparison::of_rounds)
            .into_iter()
            .map(|one| (one.a, one.b, one.times))
            .collect();
        let expected = [
            ("openwhisk", "spawn-warm", 2.0),
            ("openwhisk", "fork-warm", 4.0),
            ("spawn-warm", "fork-warm", 2.0),
        ];
        assert_eq!(pairs, expected.map(|(a, b, times)| (a.to_owned(), b.to_owned(), times)));
    }
}
