//! The explain handler: why a function runs the way it does.

use std::sync::Arc;

use axum::{Json, extract::State};
use flint_executor::{Executor, Prepared};
use flint_model::{Function, Isolation, Network, Reuse, Start, Strategy, WasmOptions};

use crate::{
    Native,
    auth::Tenant,
    error::{ApiError, Path},
    functions::path_of,
    resource::{AbilityState, FunctionExplanation, FunctionResource, StrategyVerdict},
};

/// Explain why a function runs the way it does
///
/// Also shows what the host lacks for it.
#[utoipa::path(get, path = "/v1/explain/{name}", tag = "functions",
    params(("name" = String, Path, description = "Function name: `name`, or `package%2Fname`")),
    responses(
        (status = 200, description = "The explanation", body = FunctionExplanation),
        (status = 404, description = "No such function", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn explain(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
) -> Result<Json<FunctionExplanation>, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    let function = native.controller.function(&tenant.caller, &path).await;
    let function =
        function.map_err(|error| ApiError::no_function(error, path.namespace.as_str(), &path.local()))?;
    let kinds = native.controller.kinds();
    let runtime = kinds.iter().find(|runtime| runtime.kind == function.kind);
    let prepared = native.controller.prepared(&function);
    let strategy = prepared.as_ref().map_or(function.strategy, |prepared| prepared.strategy);
    let mut reasons = reasons(&function, &strategy);
    match prepared.as_ref().and_then(|prepared| prepared.fallback.as_deref()) {
        Some(fallback) => {
            reasons.push(format!("it was to run as {} and fell back: {fallback}", function.strategy));
        }
        None => reasons.extend(native.controller.why_not_forked(&function).await),
    }
    if prepared.is_none() {
        reasons.push("it was not made ready since the server started: its next call does that".to_owned());
    }
    let mut lacking = Vec::new();
    match runtime.map(|runtime| &runtime.state) {
        Some(Ok(found)) => reasons.push(format!("its runtime {} is {found}", function.kind)),
        Some(Err(missing)) => lacking.push(format!("the runtime {}: {missing}", function.kind)),
        None => {}
    }
    // A capability of one runtime, `start fork nodejs:20`, concerns its functions only.
    let concerns = |name: &str| match name.strip_prefix("start ").and_then(|rest| rest.split_once(' ')) {
        Some((_, kind)) => kind == function.kind.as_str(),
        None => true,
    };
    let missing = native
        .config
        .abilities
        .iter()
        .filter(|ability| ability.state == AbilityState::Missing && concerns(&ability.name));
    lacking
        .extend(missing.map(|ability| format!("{}: {}; {}", ability.name, ability.detail, ability.remedy)));
    Ok(Json(FunctionExplanation {
        strategy: strategy.into(),
        function: FunctionResource::with(&function, prepared.as_deref()),
        reasons,
        considered: considered(&native, &function, strategy, prepared.as_deref()).await,
        lacking,
    }))
}

/// Strategies and what each is good for; see `docs/architecture.md`, strategies.
const WAYS: &[(Isolation, Start, Reuse, &str)] = &[
    (
        Isolation::Process,
        Start::Spawn,
        Reuse::Warm,
        "a process that stays: quick for all calls but the first of an instance",
    ),
    (
        Isolation::Process,
        Start::Spawn,
        Reuse::Never,
        "a fresh process a call: nothing is shared, each call pays the start",
    ),
    (
        Isolation::Process,
        Start::Fork,
        Reuse::Never,
        "a fork of a warmed-up snapshot a call: nothing is shared, the start is short",
    ),
    (
        Isolation::Process,
        Start::Fork,
        Reuse::Warm,
        "a fork of a warmed-up snapshot that stays: connections are kept from call to call",
    ),
    (
        Isolation::Wasm,
        Start::Instantiate,
        Reuse::Never,
        "an instance of a compiled module a call: for compiled languages",
    ),
    (Isolation::Gvisor, Start::Spawn, Reuse::Warm, "a user-space kernel around each instance"),
    (Isolation::Microvm, Start::Restore, Reuse::Never, "a virtual machine resumed from a snapshot a call"),
];

/// The possible strategies of this function, which of them this server supports, and which is `own`, the
/// current one.
async fn considered(
    native: &Native,
    function: &Function,
    own: Strategy,
    prepared: Option<&Prepared>,
) -> Vec<StrategyVerdict> {
    let fallback = prepared.and_then(|prepared| prepared.fallback.as_deref());
    let mut verdicts = Vec::with_capacity(WAYS.len());
    for (isolation, start, reuse, what) in WAYS {
        let strategy =
            Strategy { isolation: *isolation, start: *start, reuse: *reuse, concurrency: own.concurrency };
        let handles = |executor: &&Arc<dyn Executor>| executor.handles(&strategy, function.contract);
        let executor = native.config.executors.iter().find(handles);
        let picked = strategy == own;
        let why = match (picked, executor) {
            (true, _) => format!("picked: {what}"),
            (false, None) => {
                format!("no executor of this server runs it with contract {}: {what}", function.contract)
            }
            (false, Some(_)) => match (native.controller.lacks(&strategy, function).await, fallback) {
                (Some(missing), _) => format!("here is missing: {missing}"),
                (None, Some(why)) if *start == function.strategy.start => {
                    format!("this function cannot: {why}")
                }
                (None, _) => {
                    format!("possible with --isolation {isolation} --start {start} --reuse {reuse}: {what}")
                }
            },
        };
        verdicts.push(StrategyVerdict {
            strategy: strategy.to_string(),
            executor: executor.map(|executor| executor.name().to_owned()),
            picked,
            why,
        });
    }
    verdicts
}

/// What each part of a strategy means for this function, and who chose it.
fn reasons(function: &Function, strategy: &Strategy) -> Vec<String> {
    let asked = &function.asked;
    let said = |own: bool, as_said: bool| match (own, as_said) {
        (true, true) => "asked for",
        (true, false) => "not what was asked for",
        (false, _) => "chosen by Flint",
    };
    let start_said = said(asked.start.is_some(), asked.start == Some(strategy.start));
    let reuse_said = said(asked.reuse.is_some(), asked.reuse == Some(strategy.reuse));
    let start = match strategy.start {
        Start::Spawn => "a new instance is a fresh process: works for every runtime",
        Start::Fork => "a new instance is a fork of a live, warmed-up snapshot",
        Start::Restore => "a new instance is resumed from a stored snapshot",
        Start::Instantiate => "a new instance is made from a compiled module",
    };
    let reuse = match strategy.reuse {
        Reuse::Warm => {
            "an instance stays for further calls of this function: only the first call of an instance is cold"
        }
        Reuse::Never => "an instance serves one call and is gone: no call sees what another has left behind",
    };
    let network = match (strategy.isolation, function.network) {
        (Isolation::Wasm, _) => for_wasm(&function.wasm),
        (_, Network::None) => {
            "network none: it may connect to nothing but itself; `--network egress` gives it the outside"
                .to_owned()
        }
        (_, Network::Egress) => {
            "network egress: it may connect to public addresses by NAT, not to this host or to other functions"
                .to_owned()
        }
    };
    vec![
        format!("contract {}: that is how its code takes a call", function.contract),
        format!("isolation {}, start {} ({start_said}): {start}", strategy.isolation, strategy.start),
        format!("reuse {} ({reuse_said}): {reuse}", strategy.reuse),
        network,
    ]
}

/// WebAssembly has no network, whatever the function asks for; only granted requests.
fn for_wasm(granted: &WasmOptions) -> String {
    if granted.allow_hosts.is_empty() {
        return "no network: `--allow-host HOST` lets it send HTTP requests there".to_owned();
    }
    let hosts: Vec<_> = granted.allow_hosts.iter().map(ToString::to_string).collect();
    format!("no network: it may send HTTP requests to {}, and not to private addresses", hosts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webassembly_is_said_to_have_no_network() {
        let mut granted = WasmOptions::default();
        assert!(for_wasm(&granted).contains("--allow-host"));
        granted.allow_hosts = vec!["example.com".parse().unwrap()];
        assert!(for_wasm(&granted).contains("requests to ") && for_wasm(&granted).contains("example.com"));
    }
}
