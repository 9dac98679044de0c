//! Chooses a function's strategy: the user's request, completed to fit its contract and this host. Pure
//! rules.

use flint_executor::Capability;
use flint_model::{
    Contract, Function, FunctionLimits, Isolation, Kind, Network, Reuse, Start, Strategy, StrategyRequest,
};

use crate::Unnamed;

/// Contract and strategy as requested, before the host is considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The user's request, now or earlier.
    pub(crate) request: StrategyRequest,
    pub(crate) contract: Contract,
    /// Reuse of clones when the user did not choose.
    clones: Reuse,
}

/// The request, completed by earlier ones that still count. `detected` is the contract that new code
/// declares.
pub(crate) fn asked(
    old: Option<&Function>,
    wish: StrategyRequest,
    unnamed: Unnamed,
    kind: &Kind,
    detected: Option<Contract>,
    clones: Reuse,
) -> Asked {
    // A new runtime makes it a new function in this respect: the old contract may make no sense.
    let old = old.filter(|old| unnamed == Unnamed::Kept && old.kind.family() == kind.family());
    let said = wish.contract.or(old.and_then(|old| old.asked.contract)).or(detected);
    let contract = said.or(old.map(|old| old.contract)).unwrap_or(match kind.family() {
        "native" => Contract::Stdio,
        "blackbox" => Contract::OpenWhisk,
        "wasm" => Contract::WasiCommand,
        "go" | "php" | "ruby" => Contract::ActionLoop,
        _ => Contract::Handler,
    });
    match old.filter(|old| old.contract == contract) {
        // An update of something else does not change the reuse of clones.
        Some(old) if old.strategy.start == Start::Fork => {
            Asked { request: wish.or(old.asked), contract, clones: old.strategy.reuse }
        }
        Some(old) => Asked { request: wish.or(old.asked), contract, clones },
        None => Asked { request: wish, contract, clones },
    }
}

/// Completes the strategy: what was not requested follows from the contract and from `lacks`, which tells
/// what this host is missing for a strategy.
pub(crate) fn complete(
    asked: &Asked,
    kind: &Kind,
    limits: &FunctionLimits,
    lacks: impl Fn(&Strategy) -> Option<String>,
) -> Strategy {
    let Asked { request, contract, clones } = *asked;
    let wasm = is_wasm(contract);
    let isolation = request.isolation.unwrap_or(if wasm { Isolation::Wasm } else { Isolation::Process });
    let with = |start| {
        let reuse = request.reuse.unwrap_or(match (contract, start) {
            (Contract::Stdio, _) => Reuse::Never,
            _ if wasm => Reuse::Never,
            (_, Start::Fork) => clones,
            _ => Reuse::Warm,
        });
        Strategy { isolation, start, reuse, concurrency: limits.concurrency }
    };
    match request.start {
        Some(start) => with(start),
        None if wasm => with(Start::Instantiate),
        None if forks_by_default(kind, contract) && lacks(&with(Start::Fork)).is_none() => with(Start::Fork),
        None => with(Start::Spawn),
    }
}

/// Chooses the strategy of an existing function again.
pub(crate) fn chosen_anew(function: &Function, lacks: impl Fn(&Strategy) -> Option<String>) -> Strategy {
    let asked =
        Asked { request: function.asked, contract: function.contract, clones: function.strategy.reuse };
    complete(&asked, &function.kind, &function.limits, lacks)
}

fn is_wasm(contract: Contract) -> bool {
    matches!(contract, Contract::WasmCore | Contract::WasiHttp | Contract::WasiCommand)
}

/// Whether such functions start from a snapshot wherever the host can.
pub(crate) fn forks_by_default(kind: &Kind, contract: Contract) -> bool {
    contract == Contract::Handler && matches!(kind.family(), "nodejs" | "python")
}

/// What a host lacks for this start of functions of this kind, by the capabilities `start fork` and `start
/// fork nodejs:20`.
pub(crate) fn missing(capabilities: &[Capability], start: Start, kind: &Kind) -> Option<String> {
    let (general, special) = (format!("start {start}"), format!("start {start} {kind}"));
    let concerns = |capability: &&Capability| capability.name == general || capability.name == special;
    capabilities.iter().filter(concerns).find_map(|capability| capability.state.clone().err())
}

/// What a host lacks for the function's network access; WebAssembly connects from the server's process.
pub(crate) fn missing_network(capabilities: &[Capability], function: &Function) -> Option<String> {
    if function.network == Network::None || function.strategy.isolation == Isolation::Wasm {
        return None;
    }
    let egress = capabilities.iter().find(|capability| capability.name == "egress")?;
    egress.state.clone().err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Kind {
        text.parse().unwrap()
    }

    fn chosen(kind_name: &str, wish: StrategyRequest, clones: Reuse, forks: bool) -> String {
        let kind = kind(kind_name);
        let asked = asked(None, wish, Unnamed::Default, &kind, None, clones);
        let lacks =
            |strategy: &Strategy| (strategy.start == Start::Fork && !forks).then(|| "no Landlock".to_owned());
        let strategy = complete(&asked, &kind, &FunctionLimits::default(), lacks);
        format!("{} {strategy}", asked.contract)
    }

    #[test]
    fn what_nobody_says_follows_from_the_contract_and_the_host() {
        let nothing = StrategyRequest::default();
        for (kind, clones, forks, expected) in [
            ("nodejs:20", Reuse::Never, true, "handler process/fork/never×1"),
            ("python:3.11", Reuse::Warm, true, "handler process/fork/warm×1"),
            ("nodejs:20", Reuse::Never, false, "handler process/spawn/warm×1"),
            ("java:21", Reuse::Never, true, "handler process/spawn/warm×1"),
            ("native", Reuse::Never, true, "stdio process/spawn/never×1"),
            ("php:8.2", Reuse::Warm, true, "actionloop process/spawn/warm×1"),
            ("wasm", Reuse::Warm, true, "wasi-command wasm/instantiate/never×1"),
        ] {
            assert_eq!(chosen(kind, nothing, clones, forks), expected);
        }
    }

    #[test]
    fn what_the_user_says_stands_and_the_rest_fits_it() {
        let never = StrategyRequest { reuse: Some(Reuse::Never), ..Default::default() };
        let warm = StrategyRequest { reuse: Some(Reuse::Warm), ..Default::default() };
        let spawn = StrategyRequest { start: Some(Start::Spawn), ..Default::default() };
        let fork = StrategyRequest { start: Some(Start::Fork), ..Default::default() };
        let http = StrategyRequest { contract: Some(Contract::Http), ..Default::default() };
        for (wish, forks, expected) in [
            (never, true, "handler process/fork/never×1"),
            (never, false, "handler process/spawn/never×1"),
            (warm, true, "handler process/fork/warm×1"),
            (spawn, true, "handler process/spawn/warm×1"),
            (fork, false, "handler process/fork/never×1"),
            (http, true, "http process/spawn/warm×1"),
        ] {
            assert_eq!(chosen("nodejs:20", wish, Reuse::Never, forks), expected, "{wish:?}");
        }
    }

    #[test]
    fn code_says_its_contract_unless_its_user_does() {
        let (http, nothing) = (Some(Contract::WasiHttp), StrategyRequest::default());
        let contract = |wish| asked(None, wish, Unnamed::Default, &kind("wasm"), http, Reuse::Never).contract;
        assert_eq!(contract(nothing), Contract::WasiHttp);
        let said = StrategyRequest { contract: Some(Contract::WasmCore), ..nothing };
        assert_eq!(contract(said), Contract::WasmCore);
    }

    #[test]
    fn a_capability_counts_for_the_start_and_the_kind_that_it_names() {
        let capability = |name: &str, state: Result<&str, &str>| Capability {
            name: name.to_owned(),
            state: state.map(str::to_owned).map_err(str::to_owned),
        };
        let host = [
            capability("network egress", Err("no NAT")),
            capability("start fork", Ok("Landlock 7")),
            capability("start fork nodejs:20", Err("no compiler: apt-get install g++")),
        ];
        let node = missing(&host, Start::Fork, &kind("nodejs:20"));
        assert_eq!(node.as_deref(), Some("no compiler: apt-get install g++"));
        assert_eq!(missing(&host, Start::Fork, &kind("nodejs:22")), None);
        assert_eq!(missing(&host, Start::Spawn, &kind("nodejs:20")), None);
    }
}
