//! Who may know whom among the crates of this workspace, read from `cargo metadata`.
//!
//! The crates stand on floors, [`FLOORS`]; an import may only point to a lower floor. Crates on one floor do not know each
//! other: a front knows no other front, an executor no other executor, a store driver no other driver.
//! Above that, a driver (`executor-*`, `store-*`) is named by the composition root alone: everybody else knows
//! its contract, `executor` or `store`.
//!
//! Tests may use more: a dev-dependency may also point to a driver (the pool is tested with real processes), but
//! never to a higher floor.

use std::fmt;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// The house from the roof to the ground. A name that ends in `-*` stands for every crate with that prefix.
const FLOORS: &[&[&str]] = &[
    &["flint"],
    &["flint-api-*", "flint-lab"],
    &["flint-controller"],
    &["flint-scheduler"],
    &["flint-invoker"],
    &["flint-executor-*", "flint-store-*", "flint-nats"],
    &["flint-runtimes"],
    &["flint-executor", "flint-store"],
    &["flint-gate", "flint-sandbox"],
    &["flint-model", "flint-request-body", "flint-telemetry"],
    &["flint-shares"],
];

const ROOT: &str = "flint";
const DRIVERS: &[&str] = &["flint-executor-*", "flint-store-*"];

/// One crate of the workspace naming another one in its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Arrow {
    from: String,
    to: String,
    /// Whether only the tests of `from` use it.
    dev: bool,
}

impl fmt::Display for Arrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.dev { " (dev-dependency)" } else { "" };
        write!(f, "{} -> {}{kind}", self.from, self.to)
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.len() > prefix.len() && name.starts_with(prefix),
        None => name == pattern,
    }
}

fn is_driver(name: &str) -> bool {
    DRIVERS.iter().any(|pattern| matches(pattern, name))
}

/// The floor of a crate, 0 being the roof.
fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.iter().any(|pattern| matches(pattern, name)))
}

/// The rule that an arrow breaks, in words; `None` for a good arrow.
fn broken_rule(arrow: &Arrow) -> Option<String> {
    let (from, to) = match (floor(&arrow.from), floor(&arrow.to)) {
        (Some(from), Some(to)) => (from, to),
        (None, _) => return Some(format!("`{}` has no floor yet: give it one in FLOORS", arrow.from)),
        (_, None) => return Some(format!("`{}` has no floor yet: give it one in FLOORS", arrow.to)),
    };
    if arrow.from == arrow.to {
        return None; // a crate that turns on its own features for its tests
    }
    if to < from {
        return Some(format!("it points up: `{}` stands above `{}`", arrow.to, arrow.from));
    }
    if to == from {
        return Some(format!(
            "it points sideways: crates on one floor ({}) do not know each other; move what both need one floor down",
            FLOORS[from].join(", ")
        ));
    }
    if is_driver(&arrow.to) && arrow.from != ROOT && !arrow.dev {
        return Some(format!(
            "`{}` is a driver, and only `{ROOT}` chooses drivers: use its contract (`flint-executor` or `flint-store`) instead",
            arrow.to
        ));
    }
    None
}

/// One line for each bad arrow: the arrow and the rule it breaks.
fn violations(arrows: &[Arrow]) -> Vec<String> {
    arrows.iter().filter_map(|arrow| broken_rule(arrow).map(|rule| format!("{arrow}: {rule}"))).collect()
}

/// Every arrow between two crates of this workspace.
fn workspace_arrows() -> Vec<Arrow> {
    let metadata = MetadataCommand::new()
        // From the package's own folder, where tests run: what another clone has built knows only that one's path.
        .manifest_path("../../Cargo.toml")
        .no_deps()
        .exec()
        .expect("`cargo metadata` reads the workspace");
    let members = metadata.workspace_packages();
    let is_member = |name: &str| members.iter().any(|package| package.name.as_str() == name);
    members
        .iter()
        .flat_map(|package| {
            package.dependencies.iter().filter(|dependency| is_member(&dependency.name)).map(|dependency| {
                Arrow {
                    from: package.name.to_string(),
                    to: dependency.name.clone(),
                    dev: dependency.kind == DependencyKind::Development,
                }
            })
        })
        .collect()
}

fn arrow(from: &str, to: &str) -> Arrow {
    Arrow { from: from.to_owned(), to: to.to_owned(), dev: false }
}

fn dev_arrow(from: &str, to: &str) -> Arrow {
    Arrow { dev: true, ..arrow(from, to) }
}

#[test]
fn imports_point_down() {
    let arrows = workspace_arrows();
    assert!(arrows.contains(&arrow("flint", "flint-controller")), "the arrows were not read: {arrows:?}");
    let violations = violations(&arrows);
    assert!(violations.is_empty(), "imports that DESIGN does not allow:\n  {}", violations.join("\n  "));
}

#[test]
fn arrows_that_point_down_pass() {
    let good = [
        arrow("flint", "flint-executor-process"),
        arrow("flint", "flint-lab"),
        arrow("flint-api-native", "flint-controller"),
        arrow("flint-controller", "flint-model"),
        arrow("flint-executor-fork", "flint-sandbox"),
        arrow("flint-executor-wasm", "flint-store"),
        arrow("flint-store-sqlite", "flint-store"),
        arrow("flint-lab", "flint-executor"),
        dev_arrow("flint-invoker", "flint-executor-process"),
        dev_arrow("flint-store", "flint-store"),
    ];
    assert_eq!(violations(&good), Vec::<String>::new());
}

#[test]
fn bad_arrows_are_named_with_their_rule() {
    let cases = [
        (arrow("flint-model", "flint-store"), "it points up"),
        (arrow("flint-invoker", "flint-scheduler"), "it points up"),
        (arrow("flint-controller", "flint-lab"), "it points up"),
        (dev_arrow("flint-executor", "flint-executor-process"), "it points up"),
        (arrow("flint-api-openwhisk", "flint-api-native"), "it points sideways"),
        (arrow("flint-executor-fork", "flint-executor-process"), "it points sideways"),
        (arrow("flint-executor-wasm", "flint-store-sqlite"), "it points sideways"),
        (arrow("flint-store-postgres", "flint-store-sqlite"), "it points sideways"),
        (arrow("flint-telemetry", "flint-model"), "it points sideways"),
        (arrow("flint-controller", "flint-store-sqlite"), "is a driver"),
        (arrow("flint-lab", "flint-executor-process"), "is a driver"),
        (arrow("flint-model", "flint-cellar"), "has no floor yet"),
    ];
    for (bad, rule) in cases {
        let found = violations(std::slice::from_ref(&bad));
        assert_eq!(found.len(), 1, "{bad} was let through");
        assert!(found[0].starts_with(&bad.to_string()) && found[0].contains(rule), "{}", found[0]);
    }
}
