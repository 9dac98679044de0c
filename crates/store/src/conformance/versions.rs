//! What every [`Versions`](crate::Versions) does.

use flint_model::{
    Alias, AliasName, AliasTarget, Annotations, Digest, Function, FunctionPath, Parameters, SnapshotOptions,
    Timestamp, Version,
};
use serde_json::json;

use super::{
    Driver, Opened,
    sample::{bare_function, function, namespace, namespace_name, package, path, sequence},
};
use crate::{Expected, Replacing, StoreError};

const MANY: usize = 100;
/// Versions that are kept while a store is killed.
const KEPT_THROUGH_KILLS: usize = 3;

fn is_conflict<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict))
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn name(text: &str) -> AliasName {
    text.parse().unwrap()
}

fn how(expected: Expected, keep: usize) -> Replacing {
    Replacing { expected, keep, live_follows: false }
}

/// The function `at` in its `patch`th version, with code of its own.
fn nth(at: &str, patch: u64) -> Function {
    let mut function = function(at, patch);
    function.version = version(&format!("0.0.{patch}"));
    function.code.digest = Digest::from_bytes([patch as u8; 32]);
    function
}

fn alias(at: &str, alias: &str, targets: &[(&str, u32)]) -> Alias {
    let targets =
        targets.iter().map(|(text, weight)| AliasTarget { version: version(text), weight: *weight });
    Alias::new(path(at), name(alias), targets.collect(), Timestamp::from_millis(7)).unwrap()
}

/// Writes the versions 0.0.1 to 0.0.`last` of a function one after the other; gives them as they are stored.
async fn history(opened: &Opened, at: &str, last: u64, keep: usize) -> Vec<Function> {
    let mut written = Vec::new();
    let mut expected = Expected::Absent;
    for patch in 1..=last {
        let function = nth(at, patch);
        let revision = opened.versions.replace(&function, how(expected, keep)).await.unwrap();
        expected = Expected::Revision(revision);
        written.push(Function { revision, ..function });
    }
    written
}

async fn numbers(opened: &Opened, at: &FunctionPath) -> Vec<String> {
    let versions = opened.versions.versions(at).await.unwrap();
    versions.iter().map(|function| function.version.to_string()).collect()
}

/// The function that was there is kept as it was, also over a restart; what is read of it by other contracts is the newest alone.
pub async fn what_is_replaced_is_kept(driver: &dyn Driver) {
    let opened = driver.open().await;
    let written = history(&opened, "guest/p/f", 3, MANY).await;
    history(&opened, "guest/f", 1, MANY).await;
    opened.close.await;
    let opened = driver.open().await;
    let (versions, at) = (&opened.versions, path("guest/p/f"));
    assert_eq!(opened.catalog.function(&at).await.unwrap().as_ref(), Some(&written[2]));
    assert_eq!(opened.catalog.count_functions(&namespace_name("guest"), None).await.unwrap(), 2);
    let latest_first: Vec<_> = written.iter().rev().cloned().collect();
    assert_eq!(versions.versions(&at).await.unwrap(), latest_first);
    for function in &written {
        assert_eq!(versions.version(&at, function.version).await.unwrap().as_ref(), Some(function));
    }
    assert_eq!(versions.version(&at, version("0.0.4")).await.unwrap(), None);
    assert_eq!(versions.version(&path("guest/f"), version("0.0.2")).await.unwrap(), None, "of another one");
    let kept = versions.kept(&at).await.unwrap();
    let kept: Vec<_> = kept.iter().map(|kept| (kept.version, kept.revision, kept.named)).collect();
    assert_eq!(
        kept,
        [(written[1].version, written[1].revision, false), (written[0].version, written[0].revision, false)]
    );
    let mut code = versions.kept_code().await.unwrap();
    code.sort_unstable();
    assert_eq!(code, [written[0].code.digest, written[1].code.digest]);
    assert!(versions.named().await.unwrap().is_empty());
    opened.close.await;
}

/// A write that does not meet what it expects changes nothing, kept versions included.
pub async fn a_refused_write_leaves_no_trace(driver: &dyn Driver) {
    let opened = driver.open().await;
    let written = history(&opened, "guest/f", 2, MANY).await;
    for expected in [Expected::Absent, Expected::Revision(written[0].revision)] {
        assert!(is_conflict(&opened.versions.replace(&nth("guest/f", 3), how(expected, 0)).await));
    }
    let unseen = opened.versions.replace(&nth("guest/g", 1), how(Expected::Revision(1), 0)).await;
    assert!(is_conflict(&unseen), "there is nothing to replace");
    assert_eq!(numbers(&opened, &path("guest/f")).await, ["0.0.2", "0.0.1"]);
    opened.close.await;
}

/// As many are kept as may be, beside those that an alias names.
pub async fn the_oldest_go_first(driver: &dyn Driver) {
    let opened = driver.open().await;
    let at = path("guest/f");
    let mut head = history(&opened, "guest/f", 4, 2).await.pop().unwrap();
    assert_eq!(numbers(&opened, &at).await, ["0.0.4", "0.0.3", "0.0.2"]);
    opened.versions.put_alias(&alias("guest/f", "safe", &[("0.0.2", 1)]), MANY).await.unwrap();
    for patch in 5..=6 {
        let next = nth("guest/f", patch);
        let expected = Expected::Revision(head.revision);
        head = Function { revision: opened.versions.replace(&next, how(expected, 2)).await.unwrap(), ..next };
    }
    assert_eq!(numbers(&opened, &at).await, ["0.0.6", "0.0.5", "0.0.4", "0.0.2"]);
    assert_eq!(opened.versions.named().await.unwrap()[0].version, version("0.0.2"));
    // Without its alias it is one of the oldest; with none kept, the one that is replaced goes too.
    assert!(opened.versions.delete_alias(&at, &name("safe")).await.unwrap());
    assert_eq!(numbers(&opened, &at).await.len(), 4, "a write pushes it out, not the alias");
    let none = how(Expected::Revision(head.revision), 0);
    opened.versions.replace(&nth("guest/f", 7), none).await.unwrap();
    assert_eq!(numbers(&opened, &at).await, ["0.0.7"]);
    assert!(opened.versions.kept_code().await.unwrap().is_empty());
    opened.close.await;
}

/// Whoever chooses numbers chooses one twice at the cost of what had it, unless an alias names that.
pub async fn a_number_is_one_version(driver: &dyn Driver) {
    let opened = driver.open().await;
    let (versions, at) = (&opened.versions, path("guest/f"));
    let written = history(&opened, "guest/f", 3, MANY).await;
    let mut again = nth("guest/f", 1);
    again.main = Some("again".to_owned());
    let revision =
        versions.replace(&again, how(Expected::Revision(written[2].revision), MANY)).await.unwrap();
    assert_eq!(numbers(&opened, &at).await, ["0.0.1", "0.0.3", "0.0.2"]);
    assert_eq!(versions.version(&at, version("0.0.1")).await.unwrap().unwrap().main, again.main);
    // The number that it has already.
    let revision = versions.replace(&again, how(Expected::Revision(revision), MANY)).await.unwrap();
    assert_eq!(numbers(&opened, &at).await, ["0.0.1", "0.0.3", "0.0.2"]);
    versions.put_alias(&alias("guest/f", "a", &[("0.0.2", 1), ("0.0.1", 1)]), MANY).await.unwrap();
    for taken in [1, 2] {
        let refused = versions.replace(&nth("guest/f", taken), how(Expected::Revision(revision), MANY)).await;
        assert!(is_conflict(&refused), "0.0.{taken} would change under its alias");
    }
    assert_eq!(opened.catalog.function(&at).await.unwrap().unwrap().revision, revision);
    opened.close.await;
}

/// Aliases are written, replaced, listed in order of name and deleted, each of its function alone.
pub async fn aliases_come_back(driver: &dyn Driver) {
    let opened = driver.open().await;
    let written = history(&opened, "guest/f", 3, MANY).await;
    history(&opened, "guest/p/f", 1, MANY).await;
    let both = alias("guest/f", "canary", &[("0.0.3", 1), ("0.0.1", 99)]);
    for one in
        [&alias("guest/f", "live", &[("0.0.1", 1)]), &both, &alias("guest/p/f", "canary", &[("0.0.1", 1)])]
    {
        opened.versions.put_alias(one, MANY).await.unwrap();
    }
    let moved = alias("guest/f", "live", &[("0.0.2", 5)]);
    opened.versions.put_alias(&moved, 2).await.unwrap();
    let further = opened.versions.put_alias(&alias("guest/f", "more", &[("0.0.1", 1)]), 2).await;
    assert!(matches!(further, Err(StoreError::TooMany { allowed: 2 })), "{further:?}");
    opened.close.await;
    let opened = driver.open().await;
    let (versions, at) = (&opened.versions, path("guest/f"));
    assert_eq!(versions.aliases(&at).await.unwrap(), [both, moved]);
    let targets = versions.targets(&at, &name("canary")).await.unwrap().unwrap();
    assert_eq!(targets, [(1, written[2].clone()), (99, written[0].clone())]);
    assert_eq!(versions.targets(&at, &name("none")).await.unwrap(), None);
    let named: Vec<_> = versions.kept(&at).await.unwrap().iter().map(|kept| kept.named).collect();
    assert_eq!(named, [true, true]);
    assert_eq!(versions.named().await.unwrap(), written[..2]);
    assert!(versions.delete_alias(&at, &name("canary")).await.unwrap());
    assert!(!versions.delete_alias(&at, &name("canary")).await.unwrap());
    assert_eq!(versions.aliases(&path("guest/p/f")).await.unwrap().len(), 1);
    opened.close.await;
}

/// An alias cannot be written of what is not there, and what it names stays what it was when the function goes on.
pub async fn an_alias_names_what_is_there(driver: &dyn Driver) {
    let opened = driver.open().await;
    let (versions, at) = (&opened.versions, path("guest/f"));
    let written = history(&opened, "guest/f", 2, 0).await;
    for missing in
        [alias("guest/f", "a", &[("0.0.2", 1), ("0.0.1", 1)]), alias("guest/g", "a", &[("0.0.1", 1)])]
    {
        assert!(is_conflict(&versions.put_alias(&missing, MANY).await));
    }
    versions.put_alias(&alias("guest/f", "a", &[("0.0.2", 1)]), MANY).await.unwrap();
    assert_eq!(versions.targets(&at, &name("a")).await.unwrap().unwrap(), [(1, written[1].clone())]);
    versions.replace(&nth("guest/f", 3), how(Expected::Revision(written[1].revision), 0)).await.unwrap();
    assert_eq!(versions.targets(&at, &name("a")).await.unwrap().unwrap(), [(1, written[1].clone())]);
    opened.close.await;
}

/// The live alias is moved with the write, where there is one, and only where that is asked for.
pub async fn live_follows_in_the_same_commit(driver: &dyn Driver) {
    let opened = driver.open().await;
    let (versions, at) = (&opened.versions, path("guest/f"));
    let head = history(&opened, "guest/f", 2, MANY).await.pop().unwrap();
    let follow = |revision| Replacing { live_follows: true, ..how(Expected::Revision(revision), MANY) };
    let third = versions.replace(&nth("guest/f", 3), follow(head.revision)).await.unwrap();
    assert!(versions.aliases(&at).await.unwrap().is_empty(), "there is none to be moved");
    versions.put_alias(&alias("guest/f", "live", &[("0.0.1", 1), ("0.0.2", 3)]), MANY).await.unwrap();
    versions.put_alias(&alias("guest/f", "other", &[("0.0.1", 1)]), MANY).await.unwrap();
    let fourth = versions.replace(&nth("guest/f", 4), how(Expected::Revision(third), MANY)).await.unwrap();
    assert_eq!(versions.targets(&at, &AliasName::live()).await.unwrap().unwrap().len(), 2);
    assert!(is_conflict(&versions.replace(&nth("guest/f", 5), follow(third)).await));
    assert_eq!(versions.targets(&at, &AliasName::live()).await.unwrap().unwrap().len(), 2);
    versions.replace(&nth("guest/f", 5), follow(fourth)).await.unwrap();
    let live = versions.targets(&at, &AliasName::live()).await.unwrap().unwrap();
    assert_eq!(live.iter().map(|(_, function)| function.version).collect::<Vec<_>>(), [version("0.0.5")]);
    assert!(versions.aliases(&at).await.unwrap()[1].names(version("0.0.1")));
    opened.close.await;
}

/// Whichever way a function goes, its versions and aliases go with it, and one that has its name later begins anew.
pub async fn they_go_with_their_function(driver: &dyn Driver) {
    let opened = driver.open().await;
    let (catalog, versions) = (&opened.catalog, &opened.versions);
    history(&opened, "other/f", 2, MANY).await;
    for round in 0..5 {
        let text = if round == 1 { "guest/p/f" } else { "guest/f" };
        let at = path(text);
        let head = history(&opened, text, 3, MANY).await.pop().unwrap();
        versions.put_alias(&alias(text, "a", &[("0.0.1", 1)]), MANY).await.unwrap();
        match round {
            0 => catalog.delete_function(&at, head.revision).await.unwrap(),
            1 => {
                let package = package("guest/p", 1);
                let revision = catalog.put_entity(&package.clone().into(), Expected::Absent).await.unwrap();
                catalog.delete_package(&package.path(), revision, true).await.unwrap();
            }
            2 => {
                assert!(catalog.delete_namespace(&at.namespace).await.unwrap());
                catalog.put_namespace(&namespace("guest")).await.unwrap();
            }
            3 => catalog.delete_entity(&at.namespace, None, &at.name, head.revision).await.unwrap(),
            _ => {
                let taking = sequence(text, &["guest/g"], 9).into();
                let expected = Expected::Revision(head.revision);
                let revision = catalog.put_entity(&taking, expected).await.unwrap();
                versions.replace(&nth(text, 9), how(Expected::Revision(revision), MANY)).await.unwrap();
                assert_eq!(numbers(&opened, &at).await, ["0.0.9"], "a sequence is no version");
                assert!(versions.aliases(&at).await.unwrap().is_empty());
                break;
            }
        }
        assert!(versions.versions(&at).await.unwrap().is_empty(), "round {round}");
        assert!(versions.aliases(&at).await.unwrap().is_empty(), "round {round}");
        assert_eq!(versions.targets(&at, &name("a")).await.unwrap(), None);
        let anew = nth(text, 1);
        let revision = versions.replace(&anew, how(Expected::Absent, MANY)).await.unwrap();
        assert_eq!(numbers(&opened, &at).await, ["0.0.1"], "round {round}");
        catalog.delete_function(&at, revision).await.unwrap();
    }
    assert_eq!(numbers(&opened, &path("other/f")).await, ["0.0.2", "0.0.1"]);
    opened.close.await;
}

/// Replaces a function, its live alias following, until the process is killed; `say` is told each version that is acknowledged.
pub(super) async fn replace_until_killed(opened: &Opened, at: &str, say: impl Fn(u64)) {
    let mut revision = opened.versions.replace(&nth(at, 1), how(Expected::Absent, 0)).await.unwrap();
    opened.versions.put_alias(&alias(at, "live", &[("0.0.1", 1)]), MANY).await.unwrap();
    for patch in 2.. {
        let how = Replacing {
            expected: Expected::Revision(revision),
            keep: KEPT_THROUGH_KILLS,
            live_follows: true,
        };
        revision = opened.versions.replace(&nth(at, patch), how).await.unwrap();
        say(patch);
    }
}

/// What [`replace_until_killed`] has left: the last write that was said, or a later one, whole.
pub(super) async fn check_after_kill(opened: &Opened, at: &FunctionPath, said: u64) {
    let versions = opened.versions.versions(at).await.unwrap();
    let newest = versions[0].updated.as_millis();
    assert!(newest >= said, "{at} has gone back from {said} to {newest}");
    let there: Vec<_> = versions.iter().map(|function| function.updated.as_millis()).collect();
    let expected: Vec<_> = (1..=newest).rev().take(1 + KEPT_THROUGH_KILLS).collect();
    assert_eq!(there, expected, "{at}");
    let live = opened.versions.targets(at, &AliasName::live()).await.unwrap().unwrap();
    assert_eq!(live, [(1, versions[0].clone())], "{at}");
}

/// What upkeep reads of all functions at once has nothing that may be large, and everything that says which artefacts are theirs.
pub async fn upkeep_sees_nothing_large(driver: &dyn Driver) {
    let opened = driver.open().await;
    let versions = &opened.versions;
    let large = "x".repeat(100_000);
    let mut written = Vec::new();
    let mut expected = Expected::Absent;
    for patch in 1..=2 {
        let mut function = nth("guest/f", patch);
        function.main = Some(format!("main{patch}"));
        function.parameters = serde_json::from_value(json!([{"key": "large", "value": large}])).unwrap();
        function.annotations.set("large", large.as_str());
        function.snapshot = serde_json::from_value(json!({"warmup": [{"params": large}]})).unwrap();
        function.wasm = serde_json::from_value(json!({"config": {"large": large}})).unwrap();
        let revision = versions.replace(&function, how(expected, MANY)).await.unwrap();
        expected = Expected::Revision(revision);
        written.push(bare_function(Function { revision, ..function }));
    }
    versions.put_alias(&alias("guest/f", "old", &[("0.0.1", 1)]), MANY).await.unwrap();
    assert_eq!(versions.named().await.unwrap(), written[..1]);
    assert_eq!(opened.catalog.all_functions().await.unwrap(), written[1..]);
    opened.close.await;
}

/// The parameters of a version are its own, whether it is the newest, an earlier one or what an alias names. A list of versions has neither
/// them nor what else may be large.
pub async fn each_has_its_parameters(driver: &dyn Driver) {
    let opened = driver.open().await;
    let versions = &opened.versions;
    let mut written = Vec::new();
    let mut expected = Expected::Absent;
    for patch in 1..=3 {
        let mut function = nth("guest/f", patch);
        if patch != 2 {
            function.parameters = serde_json::from_value(json!([{"key": "patch", "value": patch}])).unwrap();
            function.annotations.set("patch", patch);
            function.snapshot =
                serde_json::from_value(json!({"annotate": false, "warmup": [{"params": {"patch": patch}}]}))
                    .unwrap();
        }
        let revision = versions.replace(&function, how(expected, MANY)).await.unwrap();
        expected = Expected::Revision(revision);
        written.push(Function { revision, ..function });
    }
    let at = path("guest/f");
    for one in &written {
        assert_eq!(versions.version(&at, one.version).await.unwrap().as_ref(), Some(one));
    }
    let all = alias("guest/f", "all", &[("0.0.1", 1), ("0.0.2", 1), ("0.0.3", 1)]);
    versions.put_alias(&all, MANY).await.unwrap();
    let targets = versions.targets(&at, &all.name).await.unwrap().unwrap();
    assert_eq!(targets.into_iter().map(|(_, function)| function).collect::<Vec<_>>(), written);
    let listed = |function: Function| Function {
        parameters: Parameters::default(),
        annotations: Annotations::default(),
        snapshot: SnapshotOptions { warmup: Vec::new(), ..function.snapshot.clone() },
        ..function
    };
    let listed: Vec<_> = written.into_iter().rev().map(listed).collect();
    assert_eq!(versions.versions(&at).await.unwrap(), listed);
    opened.close.await;
}
