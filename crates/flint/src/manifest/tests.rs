//! Tests from a manifest's text to the plan, without a server.

use std::{collections::BTreeMap, fs};

use flint_api_native::resource::{CodeResource, FunctionResource};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    assemble::{Basics, Packed, To, Wanted, assemble, open_for_apis},
    entity::{Entity, What, Write},
    facts::MANAGED,
    function::{self, DefaultLimits, packed},
    interpolate::Variables,
    kinds::Kinds,
    plan::{Plan, Verb, step},
    problems::Problems,
    read::Reader,
    server::{Existing, Listed, There, existing},
    show,
    target::local,
};

fn basics() -> Basics {
    let kind = |name: &str| json!([{ "kind": name, "default": true }]);
    Basics {
        namespace: "guest".to_owned(),
        kinds: Kinds::of(
            &json!({ "nodejs": kind("nodejs:20"), "python": kind("python:3.11"), "blackbox": kind("blackbox") }),
        ),
        defaults: DefaultLimits { timeout_ms: 60_000, memory_mb: 256, logs_mb: 10 },
    }
}

/// The desired state of a manifest beside `hello.js`.
fn wanted(text: &str) -> (Wanted, Problems) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("hello.js"), "exports.main = () => ({})").unwrap();
    let mut variables = Variables::of(&[]);
    let mut reader = Reader::new(&directory.path().join("manifest.yaml"), &mut variables);
    let mut project = reader.project(text);
    let mut problems = reader.problems;
    problems.check().map_err(|failure| failure.message).unwrap();
    open_for_apis(&mut project, "guest", &mut problems);
    let mut codes = Packed::new();
    for package in &project.packages {
        for action in &package.actions {
            codes.insert(local(package.name.as_deref(), &action.name), packed(action, &|_| {}).unwrap());
        }
    }
    let wanted = assemble(&project, Some(codes), &basics(), &mut problems);
    (wanted, problems)
}

fn fine(text: &str) -> Wanted {
    let (wanted, problems) = wanted(text);
    problems.check().map_err(|failure| failure.message).unwrap();
    wanted
}

fn refused(text: &str) -> String {
    wanted(text).1.check().unwrap_err().message
}

#[test]
fn everything_is_made_after_what_it_refers_to() {
    let wanted = fine(
        "packages:\n  p:\n    apis: {n: {b: {r: {outer: get}}}}\n    rules: {r: {trigger: t, action: outer}}\n    triggers: {t: {}}\n    sequences:\n      outer: {actions: 'inner, one'}\n      inner: {actions: 'core, mine/two'}\n      core: {actions: one}\n    actions: {one: {function: hello.js}}\n    dependencies: {mine: {location: /_/q}}\n  q:\n    actions: {two: {function: hello.js}}\n",
    );
    let order: Vec<_> =
        wanted.entities.iter().map(|one| format!("{} {}", one.what.name(), one.name)).collect();
    assert_eq!(
        order,
        [
            "package p",
            "package q",
            "binding mine",
            "function p/one",
            "function q/two",
            "sequence p/core",
            "sequence p/inner",
            "sequence p/outer",
            "trigger t",
            "rule r",
            "api get /b /r"
        ]
    );
    assert_eq!(wanted.references, [], "all of it is in the manifest");
    let outer = wanted.entities.iter().find(|one| one.name == "p/outer").unwrap();
    assert_eq!(outer.annotations["web-export"], true, "an API stands in front of it");
}

#[test]
fn what_the_manifest_does_not_make_is_noted() {
    let wanted = fine(
        "packages:\n  p:\n    dependencies: {d: {location: /whisk.system/utils}}\n    sequences: {s: {actions: 'd/sort, /other/q/x, y'}}\n    rules: {r: {trigger: elsewhere, action: s}}\n    triggers: {t: {feed: /whisk.system/alarms/alarm}}\n",
    );
    let to: Vec<_> = wanted
        .references
        .iter()
        .map(|reference| match &reference.to {
            To::Package { namespace, name } => format!("package /{namespace}/{name}"),
            To::Trigger(name) => format!("trigger {name}"),
            To::Action { target, .. } => format!("action {target}"),
        })
        .collect();
    assert_eq!(
        to,
        [
            "package /whisk.system/utils",
            "action /whisk.system/utils/sort",
            "action /other/q/x",
            "action /guest/p/y",
            "action /whisk.system/alarms/alarm",
            "trigger elsewhere"
        ]
    );
}

#[test]
fn circles_and_doubled_names_are_refused() {
    let message = refused(
        "packages:\n  p:\n    sequences:\n      a: {actions: b}\n      b: {actions: 'c'}\n      c: {actions: p/a}\n      d: {actions: a}\n",
    );
    assert!(message.contains("in a circle: p/a → p/b → p/c → p/a"), "{message}");
    assert!(refused("packages: {p: {sequences: {s: {actions: s}}}}").contains("p/s → p/s"));
    assert!(
        refused("packages: {p: {dependencies: {m: {location: /_/p}}, sequences: {s: {actions: m/s}}}}")
            .contains("circle")
    );
    for (text, what) in [
        (
            "packages: {p: {actions: {a: {function: hello.js}}, sequences: {a: {actions: x}}}}",
            "action of this name already, in line 1",
        ),
        ("packages: {p: {triggers: {t: {}}}, q: {triggers: {t: {}}}}", "trigger of this name"),
        ("packages: {p: {dependencies: {p: {location: /_/q}}}, q: {}}", "package of this name"),
        ("packages: {p: {triggers: {t: {}}, rules: {t: {trigger: t, action: a}}}}", "a trigger of this name"),
        ("packages: {p: {triggers: {p: {}}}}", "a package of this name already, in line 1"),
        (
            "packages: {default: {actions: {t: {function: hello.js}}, triggers: {t: {}}}}",
            "an action of this name",
        ),
        ("packages: {p: {apis: {x: {b: {r: {a: get, b: GET}}}}}}", "path and method of this name"),
        (
            "packages: {p: {dependencies: {a: {location: /_/b}, b: {location: /_/q}}}, q: {}}",
            "bindings do not stand for bindings",
        ),
        ("packages: {p: {rules: {r: {trigger: /other/t, action: a}}}}", "not a trigger of this namespace"),
        ("packages: {p: {actions: {a: {function: hello.js, runtime: 'nodejs:6'}}}}", "no runtime 'nodejs:6'"),
        ("packages: {p: {sequences: {s: {actions: a/b/c/d}}}}", "not the name of an action"),
    ] {
        let message = refused(text);
        assert!(message.contains(what), "{text}: {message}");
    }
}

#[test]
fn a_name_of_another_type_on_the_server_is_found() {
    let listed = |what| Listed { what, annotations: Map::new() };
    let there = There {
        triggers: [("t".to_owned(), listed(What::Trigger))].into(),
        packages: [("b".to_owned(), listed(What::Binding))].into(),
        ..There::default()
    };
    assert_eq!(there.other(What::Function, "t"), Some(What::Trigger));
    assert_eq!(there.other(What::Rule, "b"), Some(What::Binding));
    for (what, name) in
        [(What::Trigger, "t"), (What::Package, "b"), (What::Function, "p/t"), (What::Api, "t")]
    {
        assert_eq!(there.other(what, name), None, "{name}");
    }
}

/// An entity as the server shows it after it was written.
fn shown(entity: &Entity, managed: Option<&Value>) -> Existing {
    let annotations = entity.written_annotations(managed);
    let system = |annotations: &Map<String, Value>, more: &[(&str, Value)]| -> Value {
        let pairs = annotations.iter().map(|(key, value)| json!({ "key": key, "value": value }));
        pairs.chain(more.iter().map(|(key, value)| json!({ "key": key, "value": value }))).collect()
    };
    match &entity.write {
        Write::Function(package) => {
            let request = &package.request;
            let defaults = basics().defaults;
            let mut annotations = annotations;
            annotations.insert("exec".into(), json!(request.kind));
            annotations.insert("provide-api-key".into(), json!(false));
            let text = request.code.as_ref().and_then(|code| code.text.clone()).unwrap();
            let function: FunctionResource = serde_json::from_value(json!({
                "name": package.name, "namespace": "guest", "version": "0.0.1", "revision": 1, "kind": request.kind, "main": request.main,
                "contract": "handler", "strategy": {"isolation": "process", "start": "spawn", "reuse": "warm", "concurrency": 1},
                "asked": {"contract": request.contract, "isolation": request.isolation, "start": request.start, "reuse": request.reuse},
                "network": request.network.unwrap_or_default(),
                "limits": {"timeout_ms": request.limits.timeout_ms.unwrap_or(defaults.timeout_ms), "memory_mb": request.limits.memory_mb.unwrap_or(defaults.memory_mb),
                    "logs_mb": defaults.logs_mb, "concurrency": 1, "cpu_millis": 1000, "processes": 10, "tmp_mb": 64},
                "parameters": request.parameters, "annotations": annotations,
                "code": CodeResource { format: flint_model::CodeFormat::Source, size: text.len() as u64, digest: blake3::hash(text.as_bytes()).to_hex().to_string() },
                "updated": 1,
            }))
            .unwrap();
            let (facts, annotations) = function::there(&function);
            Existing { facts, annotations }
        }
        Write::Put(body) => {
            let mut shown = body.clone();
            shown.insert(
                "annotations".into(),
                system(
                    &annotations,
                    &[("exec", json!("sequence")), ("binding", json!({})), ("provide-api-key", json!(false))],
                ),
            );
            if entity.what == What::Rule {
                let split = |name: &Value| {
                    let (path, name) = name.as_str().unwrap().rsplit_once('/').unwrap();
                    json!({ "path": &path[1..], "name": name })
                };
                let (trigger, action) = (split(&shown["trigger"]), split(&shown["action"]));
                shown.extend([
                    ("trigger".into(), trigger),
                    ("action".into(), action),
                    ("status".into(), json!("active")),
                ]);
            }
            existing(entity.what, &shown.into())
        }
        Write::Trigger { body, feed } => {
            let mut shown = body.clone();
            let feed: Vec<_> = feed.iter().map(|feed| ("feed", json!(feed.action))).collect();
            shown.insert("annotations".into(), system(&annotations, &feed));
            existing(entity.what, &shown.into())
        }
        Write::Operation(_) | Write::Document(_) => panic!("APIs are shown as documents"),
    }
}

fn verbs(text: &str, there: &BTreeMap<String, Existing>) -> Plan {
    let steps = fine(text).entities.into_iter().map(|entity| {
        let old = there.get(&entity.name).cloned().map(|old| (entity.what, old));
        step(entity, old)
    });
    Plan { project: None, steps: steps.collect() }
}

const MANIFEST: &str = "packages:\n  p:\n    inputs: {a: 1}\n    annotations: {about: x}\n    actions:\n      one: {function: hello.js, inputs: {token: s3cret}, limits: {memorySize: 512}, web: true}\n    sequences: {s: {actions: one}}\n    triggers: {t: {inputs: {b: 2}}, daily: {feed: /whisk.system/alarms/alarm, inputs: {cron: '* * * * *'}}}\n    rules: {r: {trigger: t, action: s}}\n";

fn after(text: &str, managed: Option<&Value>) -> BTreeMap<String, Existing> {
    fine(text).entities.iter().map(|entity| (entity.name.clone(), shown(entity, managed))).collect()
}

#[test]
fn a_second_deployment_changes_nothing_and_a_change_is_shown_alone() {
    let managed = json!({"projectName": "demo", "projectHash": "x"});
    for managed in [None, Some(&managed)] {
        let there = after(MANIFEST, managed);
        let plan = verbs(MANIFEST, &there);
        assert!(
            plan.steps.iter().all(|step| step.verb == Verb::Unchanged),
            "{:#?}",
            show::lines(&plan, true)
        );
    }
    let there = after(MANIFEST, None);
    let changed = MANIFEST
        .replace("s3cret", "0ther")
        .replace("memorySize: 512", "memorySize: 256")
        .replace("* * * * *", "0 * * * *");
    let plan = verbs(&changed, &there);
    let told: Vec<_> = show::lines(&plan, false).into_iter().filter(|line| !line.starts_with('=')).collect();
    assert_eq!(
        told,
        [
            "~ function  p/one  memory 512 MB → 256 MB; input token changed",
            "~ trigger   daily  inputs of its feed changed"
        ]
    );
    assert!(show::lines(&plan, true).iter().any(|line| line.contains("input token \"s3cret\" → \"0ther\"")));
    let text = show::as_json(&plan, false, true, 0, &[]).to_string();
    assert!(!text.contains("s3cret") && !text.contains("0ther") && text.contains("input token"), "{text}");
    assert_eq!(show::summary(&plan), "2 to update, 4 unchanged");
}

#[test]
fn every_part_of_an_entity_is_compared() {
    let there = after(MANIFEST, None);
    for (old, new, field) in [
        ("inputs: {a: 1}", "inputs: {a: 1, c: 2}", "input c added"),
        ("inputs: {a: 1}", "inputs: {}", "input a removed"),
        ("about: x", "about: y", "annotation about changed"),
        ("web: true", "web: raw", "annotation raw-http changed"),
        ("web: true", "network: egress", "network none → egress"),
        ("web: true", "main: run", "main run added"),
        ("web: true", "limits: {timeout: 1s}", "timeout 60000 ms → 1000 ms"),
        ("function: hello.js", "code: 'exports.main = () => 1', runtime: nodejs", "code "),
        ("{actions: one}", "{actions: 'one, one'}", "actions /guest/p/one → /guest/p/one, /guest/p/one"),
        ("trigger: t,", "trigger: daily,", "trigger /guest/t → /guest/daily"),
        (
            "feed: /whisk.system/alarms/alarm",
            "feed: /whisk.system/alarms/once",
            "feed /whisk.system/alarms/alarm",
        ),
        ("p:\n    inputs", "p:\n    public: true\n    inputs", "shared false → true"),
    ] {
        let text = match old {
            "web: true" if new.starts_with("limits") => MANIFEST.replace("limits: {memorySize: 512}", new),
            _ => MANIFEST.replacen(old, new, 1),
        };
        let told = show::lines(&verbs(&text, &there), false).join("\n");
        assert!(told.contains(field), "{new}: {told}");
    }
}

#[test]
fn a_manifest_without_a_name_leaves_whose_it_is() {
    let managed = json!({"projectName": "theirs"});
    let there = after(MANIFEST, Some(&managed));
    assert_eq!(there["p"].annotations[MANAGED], managed);
    let entity = fine(MANIFEST).entities.remove(0).of_project(Some("mine"));
    let there = Existing {
        facts: [(super::facts::Field::Own("project"), json!("theirs"))]
            .into_iter()
            .chain(there["p"].facts.clone())
            .collect(),
        ..there["p"].clone()
    };
    let Verb::Update(changes) = step(entity, Some((What::Package, there))).verb else {
        panic!("taken over without a word")
    };
    assert_eq!((changes.len(), changes[0].field.to_string()), (1, "project".to_owned()));
}

prop_compose! {
    fn values()(pairs in prop::collection::btree_map("[a-z]{1,4}", prop_oneof![
        any::<i32>().prop_map(Value::from), "[a-z ]{1,6}".prop_map(Value::from), Just(Value::Null), Just(json!({"a": [1, {"b": false}]}))
    ], 0..5)) -> Map<String, Value> {
        pairs.into_iter().collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_was_deployed_is_unchanged(inputs in values(), annotations in values(), memory in 128..512_u32, shared: bool, other in values()) {
        // The long form makes values unambiguous: a map might look like the long form, and a word like a
        // type.
        let long = |map: &Map<String, Value>| map.iter().map(|(key, value)| (key.clone(), json!({ "value": value, "type": "json" }))).filter(|(_, value)| !value["value"].is_null() && !value["value"].is_string()).collect::<Map<_, _>>();
        let inputs = long(&inputs);
        let text = |inputs: &Map<String, Value>| json!({"packages": {"p": {
            "inputs": inputs, "annotations": annotations, "shared": shared,
            "actions": {"x": {"function": "hello.js", "inputs": inputs, "annotations": annotations, "limits": {"memory": memory}}},
            "sequences": {"y": {"actions": ["x", "x"], "annotations": annotations}},
            "triggers": {"t": {"inputs": inputs, "annotations": annotations}},
            "rules": {"r": {"trigger": "t", "action": "y", "annotations": annotations}},
        }}}).to_string();
        let there = after(&text(&inputs), None);
        let plan = verbs(&text(&inputs), &there);
        prop_assert!(plan.steps.iter().all(|step| step.verb == Verb::Unchanged), "{:?}", show::lines(&plan, true));
        let other = long(&other);
        let plan = verbs(&text(&other), &there);
        prop_assert_eq!(plan.changes() == 0, other == inputs);
        prop_assert_eq!(verbs(&text(&other), &after(&text(&other), None)).changes(), 0);
    }
}
