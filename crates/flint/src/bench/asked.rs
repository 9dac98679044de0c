//! Validates `--arms` and `--set`. A misspelt name is refused with the valid ones: the whole experiment
//! instead would take hours, and its report would not show it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    run::{Run, Size},
    suite,
};
use crate::failure::Failure;

/// The valid names of `--set` for an experiment; `docs/benchmarks.md` explains them.
fn options(experiment: &str) -> &'static [&'static str] {
    match experiment {
        "coldstart" => &["live", "sizes"],
        "fireworks-density" => &["memory_mb", "most"],
        "activation-queries" => &["millions"],
        other => suite::of(other).map_or(&[], suite::Suite::options),
    }
}

/// Refuses unknown options.
pub(super) fn check_options(experiment: &str, set: &BTreeMap<String, String>) -> Result<(), Failure> {
    let known = options(experiment);
    match set.keys().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) if known.is_empty() => {
            Err(Failure::usage(format!("--set {unknown}: the experiment {experiment} has no options")))
        }
        Some(unknown) => Err(Failure::usage(format!(
            "--set {unknown}: the experiment {experiment} has no such option; it has {}",
            known.join(", ")
        ))),
    }
}

/// Refuses a size for experiments without inputs of several sizes: the report would name a size without
/// effect.
pub(super) fn check_size(experiment: &str, size: Size) -> Result<(), Failure> {
    if size == Size::Small || suite::of(experiment).is_some() {
        return Ok(());
    }
    let size = size.as_str();
    Err(Failure::usage(format!("--size {size}: the functions of the experiment {experiment} have one size")))
}

/// Refuses unknown arms. `names` may contain duplicates.
pub(super) fn check_arms<'a>(
    asked: &[String],
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), Failure> {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    match asked.iter().find(|arm| !known.contains(&arm.as_str())) {
        None => Ok(()),
        Some(unknown) => {
            Err(Failure::usage(format!("there is no arm '{unknown}': choose from {}", known.join(", "))))
        }
    }
}

/// An invalid file, folder or trace in the command is a usage error.
pub(super) fn wrong(error: anyhow::Error) -> anyhow::Error {
    if error.is::<Failure>() { error } else { Failure::usage(format!("{error:#}")).into() }
}

/// Refuses unknown names in the list of `--set KEY=A,B`.
pub(super) fn check_list<'a>(
    run: &Run,
    key: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(), Failure> {
    let Some(list) = run.effort.set.get(key) else { return Ok(()) };
    let known: BTreeSet<&str> = names.into_iter().collect();
    match list.split(',').find(|name| !known.contains(name)) {
        Some(unknown) if !known.is_empty() => Err(Failure::usage(format!(
            "--set {key}={list}: there is no {key} '{unknown}' here; there is {}",
            known.into_iter().collect::<Vec<_>>().join(", ")
        ))),
        _ => Ok(()),
    }
}

/// A number from `--set NAME=…`, at least 0.01.
pub(super) fn option(run: &Run, name: &str, usual: f64) -> Result<f64, Failure> {
    between(0.01, MOST, run, name, usual)
}

/// The same, at least 1, for counts: a smaller number would silently be measured as something else.
pub(super) fn at_least_one(run: &Run, name: &str, usual: f64) -> Result<f64, Failure> {
    between(1.0, MOST, run, name, usual)
}

/// Hosts have gigabytes.
const MOST: f64 = 1e9;

/// The same within bounds.
pub(super) fn between(least: f64, most: f64, run: &Run, name: &str, usual: f64) -> Result<f64, Failure> {
    let Some(text) = run.effort.set.get(name) else { return Ok(usual) };
    let number = text.parse().ok().filter(|number: &f64| (least..=most).contains(number));
    number
        .ok_or_else(|| Failure::usage(format!("--set {name}={text}: write a number from {least} to {most}")))
}

/// Numbers of callers or instances from `--set NAME=A,B`, sorted and without duplicates.
pub(super) fn numbers(name: &str, text: &str) -> Result<Vec<usize>, Failure> {
    let number = |one: &str| {
        one.parse().ok().filter(|number| (1..=1000).contains(number)).ok_or_else(|| {
            Failure::usage(format!("--set {name}={text}: '{one}' is not a number from 1 to 1000"))
        })
    };
    let numbers: BTreeSet<usize> = text.split(',').map(number).collect::<Result<_, _>>()?;
    Ok(numbers.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bench::experiments, failure::Exit};

    #[test]
    fn what_an_experiment_does_not_have_is_refused_with_what_it_has() {
        let set = |name: &str| BTreeMap::from([(name.to_owned(), "1".to_owned())]);
        let refused = |experiment: &str, name: &str| {
            let failure = check_options(experiment, &set(name)).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            failure.message
        };
        assert_eq!(refused("wasm", "bogus"), "--set bogus: the experiment wasm has no options");
        let message = refused("coldstart", "lives");
        assert_eq!(message, "--set lives: the experiment coldstart has no such option; it has live, sizes");
        assert!(refused("faasdom", "seconds").ends_with("it has functions, workload, variant, input"));
        assert!(check_options("afterburn", &set("levels")).is_ok());
        assert!(check_options("azure-replay", &set("functions-at-most")).is_ok());

        let known = ["bare-http", "flint-node", "flint-python", "flint-node", "bare-http"];
        let asked = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(check_arms(&[], known).is_ok() && check_arms(&asked(&["flint-node"]), known).is_ok());
        let failure = check_arms(&asked(&["flint-node", "nosuch"]), known).unwrap_err();
        let message = "there is no arm 'nosuch': choose from bare-http, flint-node, flint-python";
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Usage, message));
        assert_eq!(numbers("live", "1,x").unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_size_is_refused_where_nothing_has_one() {
        assert!(check_size("faasdom", Size::Large).is_ok() && check_size("overhead", Size::Small).is_ok());
        let refused = check_size("fireworks-density", Size::Large).unwrap_err();
        let message = "--size large: the functions of the experiment fireworks-density have one size";
        assert_eq!((refused.exit, refused.message.as_str()), (Exit::Usage, message));
    }

    #[test]
    fn numbers_are_listed() {
        assert_eq!(numbers("levels", "16,4,1,4").unwrap(), [1, 4, 16]);
        for wrong in ["", "0", "1,,2", "1001", "a"] {
            assert!(numbers("levels", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_documents_name_every_option() {
        let text = include_str!("../../../../docs/benchmarks.md");
        for (experiment, _) in experiments() {
            for name in options(experiment) {
                assert!(text.contains(&format!("--set {name}=")), "{experiment}: --set {name}");
            }
        }
    }
}
