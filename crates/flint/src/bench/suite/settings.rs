//! The server settings of an arm.

use std::{collections::BTreeSet, time::Duration};

use anyhow::bail;
use flint_executor_fork::ForkConfig;
use flint_invoker::PoolConfig;

use super::{
    manifest::Variant,
    site::Options,
    strategy::{LEAN_IDLE, LEAN_PREWARMED, Wish},
};
use crate::bench::interpreter;

/// Settings as environment variables.
pub(super) type Settings = Vec<(String, String)>;

/// The server settings of an arm.
pub(super) fn settings(variant: &Variant, wish: Wish, options: &Options) -> anyhow::Result<Settings> {
    let mut settings = vec![
        set("POOL__KEEP_ALIVE", millis(options.keep_alive)),
        set("POOL__MEMORY", "1024GB"),
        set("LIMITS__MAX_CONCURRENCY", "1000"),
        set("LIMITS__MAX_CODE", "512MB"),
        set("PREPARE__MAX_UNPACKED", "2GB"),
    ];
    match options.compression {
        Some(compression) => settings.extend(compressed(wish, options, compression)),
        None => settings.push(set("POOL__KEEP_ALIVE_FORKED", millis(options.keep_alive))),
    }
    if !(wish.is_flints_own() && options.compression.is_some()) {
        // A cold start brings up its own runtime, as on a container platform.
        settings.push(set("POOL__PREWARM", "0"));
    }
    if wish.lean {
        settings.extend(lean(variant)?);
    }
    if !options.standbys {
        settings.push(set("SNAPSHOT__STANDBYS", "0"));
    }
    Ok(settings)
}

/// Flint's own idle limits in the time of a trace: otherwise none of them would fit into its replay.
fn compressed(wish: Wish, options: &Options, compression: f64) -> Settings {
    let (pool, snapshot) = (PoolConfig::default(), ForkConfig::default());
    let short = |limit: Duration| millis(limit.div_f64(compression));
    let idle = if wish.lean { LEAN_IDLE } else { snapshot.idle };
    // If an arm asks for instances that stay, they stay as long as containers.
    let forked = match wish.is_flints_own() {
        true => short(pool.keep_alive_forked),
        false => millis(options.keep_alive),
    };
    vec![
        set("POOL__KEEP_ALIVE_FORKED", forked),
        set("POOL__PAUSE_GRACE", short(pool.pause_grace)),
        set("SNAPSHOT__IDLE", short(idle)),
        set("SNAPSHOT__STANDBY_IDLE", short(snapshot.standby_idle)),
    ]
}

/// Prewarmed runtimes, which stand in for snapshots that are dropped early.
fn lean(variant: &Variant) -> anyhow::Result<Settings> {
    let mut kinds = BTreeSet::new();
    for function in &variant.functions {
        match function.kind.as_str() {
            "nodejs" => kinds.insert("nodejs:default".to_owned()),
            "python" => kinds.insert(interpreter::python()?.kind),
            other => bail!("functions of {other} have no snapshots that could be let go"),
        };
    }
    Ok(vec![
        set("POOL__PREWARM", LEAN_PREWARMED.to_string()),
        set("POOL__PREWARM_KINDS", serde_json::to_string(&kinds)?),
    ])
}

fn set(key: &str, value: impl Into<String>) -> (String, String) {
    (format!("FLINT_{key}"), value.into())
}

fn millis(duration: Duration) -> String {
    // Zero is not allowed.
    format!("{}ms", duration.as_millis().max(1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::suite::strategy::{By, FLINT, FORK_WARM, LEAN, SPAWN_WARM, Strategy, WASM};

    /// The settings of an arm's server, with the defaults for the others.
    fn told(strategy: Strategy, compression: Option<f64>) -> BTreeMap<String, String> {
        let function = serde_json::json!({ "name": "f", "code": "f.js", "kind": "nodejs" });
        let variant = serde_json::json!({ "name": "node", "entry": "f", "functions": [function] });
        let variant: Variant = serde_json::from_value(variant).unwrap();
        let By::Flint(wish) = strategy.by else { panic!("{} is not Flint", strategy.name) };
        let keep_alive = Duration::from_secs(600).div_f64(compression.unwrap_or(1.0));
        let options = Options { keep_alive, compression, standbys: true, ..Options::new("small") };
        let mut all = BTreeMap::new();
        for (key, value) in settings(&variant, wish, &options).unwrap() {
            all.insert(key.trim_start_matches("FLINT_").to_owned(), value);
        }
        all
    }

    #[test]
    fn every_idle_limit_is_in_the_time_of_the_trace() {
        let of = |strategy, compression, keys: [&str; 6]| {
            let told = told(strategy, Some(compression));
            keys.map(|key| told.get(key).cloned().unwrap_or_default())
        };
        let keys = [
            "POOL__KEEP_ALIVE",
            "POOL__KEEP_ALIVE_FORKED",
            "POOL__PAUSE_GRACE",
            "SNAPSHOT__IDLE",
            "POOL__PREWARM",
            "SNAPSHOT__STANDBY_IDLE",
        ];
        // Defaults: 10 min, 30 s, 10 s, 1 h, one prewarmed runtime of each kind, 10 min.
        assert_eq!(of(FLINT, 60.0, keys), ["10000ms", "500ms", "166ms", "60000ms", "", "10000ms"]);
        assert_eq!(of(FLINT, 10.0, keys), ["60000ms", "3000ms", "1000ms", "360000ms", "", "60000ms"]);
        // For little memory: a minute.
        assert_eq!(of(LEAN, 60.0, keys), ["10000ms", "500ms", "166ms", "1000ms", "3", "10000ms"]);
        assert_eq!(of(LEAN, 10.0, keys), ["60000ms", "3000ms", "1000ms", "6000ms", "3", "60000ms"]);
        // A container platform: ten minutes, nothing prewarmed.
        for strategy in [SPAWN_WARM, FORK_WARM, WASM] {
            let told = of(strategy, 60.0, keys);
            assert_eq!((&*told[0], &*told[3], &*told[4]), ("10000ms", "60000ms", "0"), "{}", strategy.name);
        }
        assert_eq!(of(FORK_WARM, 60.0, keys)[1], "10000ms");
    }

    #[test]
    fn without_a_trace_idle_instances_of_all_kinds_stay_as_long_as_is_asked_for() {
        let told = told(FLINT, None);
        assert_eq!(
            (&*told["POOL__KEEP_ALIVE"], &*told["POOL__KEEP_ALIVE_FORKED"], &*told["POOL__PREWARM"]),
            ("600000ms", "600000ms", "0")
        );
        assert!(!told.contains_key("SNAPSHOT__IDLE") && !told.contains_key("SNAPSHOT__STANDBYS"));
    }
}
