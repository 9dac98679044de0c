//! Tests of reading manifests as people write them.

use std::fs;

use flint_model::Contract;
use serde_json::{Value, json};

use super::*;
use crate::{failure::Failure, manifest::model::Source};

/// Reads a manifest beside a file `hello.js`.
fn read(text: &str) -> (Project, Problems) {
    with(text, Variables::of(&[("USER", "ann"), ("TOKEN", "s3cret"), ("COUNT", "7")]))
}

fn with(text: &str, mut variables: Variables) -> (Project, Problems) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("hello.js"), "exports.main = () => ({})").unwrap();
    let mut reader = Reader::new(&directory.path().join("manifest.yaml"), &mut variables);
    reader.problems.file = "manifest.yaml".to_owned();
    let project = reader.project(text);
    (project, reader.problems)
}

fn fine(text: &str) -> Project {
    let (project, problems) = read(text);
    problems.check().map_err(|failure| failure.message).unwrap();
    assert_eq!(problems.warnings(), Vec::<String>::new());
    project
}

fn refused(text: &str) -> Failure {
    read(text).1.check().unwrap_err()
}

/// An action with these lines below it.
fn with_action(lines: &str) -> String {
    format!("packages:\n  p:\n    actions:\n      a:\n        function: hello.js\n{lines}")
}

fn values(text: &str) -> Vec<(String, Value)> {
    let project = fine(&with_action(&format!("        inputs:\n{text}")));
    let inputs = &project.packages[0].actions[0].inputs;
    inputs.iter().map(|input| (input.name.clone(), input.value.clone().unwrap())).collect()
}

#[test]
fn files_of_other_platforms_are_named_in_one_error() {
    let openfaas = "version: 1.0\nprovider:\n  name: openfaas # the default\nfunctions:\n  f:\n    lang: node20\n    handler: ./f\n";
    let sam =
        "Transform: 'AWS::Serverless-2016-10-31'\nResources:\n  F:\n    Properties:\n      Role: !Ref R\n";
    let list = "Transform:\n- AWS::LanguageExtensions\n- AWS::Serverless-2016-10-31\nResources: {}\n";
    let dated = "AWSTemplateFormatVersion: '2010-09-09'\nResources:\n  F: { Role: !Ref R }\n";
    for (text, line, platform) in
        [(openfaas, 3, "OpenFaaS"), (sam, 1, "AWS SAM"), (list, 3, "AWS SAM"), (dated, 1, "AWS SAM")]
    {
        let (project, problems) = read(text);
        assert!(project.packages.is_empty() && problems.warnings().is_empty(), "{platform}");
        let failure = problems.check().unwrap_err();
        let begin = format!("manifest.yaml:{line}: it is a ");
        assert!(failure.message.starts_with(&begin) && failure.message.contains(platform), "{failure}");
        assert!(failure.hint.is_some_and(|hint| hint.contains("docs/manifests.md")));
    }
    // The same words below an action are its own.
    let inputs = "        inputs:\n          provider: { name: openfaas }\n          name: openfaas\n          Transform: AWS::Serverless\n";
    fine(&with_action(inputs));
}

#[test]
fn the_three_tops_mean_the_same() {
    let package = "demo:\n        actions:\n          hello:\n            function: hello.js\n";
    for text in [
        format!("project:\n    name: one\n    packages:\n      {package}"),
        format!("application:\n    name: one\n    packages:\n      {package}"),
    ] {
        let project = fine(&text);
        assert_eq!(project.name.as_deref(), Some("one"));
        assert_eq!(project.packages[0].name.as_deref(), Some("demo"));
        assert_eq!(project.packages[0].actions[0].name, "hello");
    }
    let project = fine(&format!("packages:\n      {package}"));
    assert_eq!((project.name, project.packages.len()), (None, 1));
    let project = fine(
        "package:\n  name: demo\n  version: 1.0\n  license: Apache-2.0\n  actions:\n    hello:\n      location: hello.js\n",
    );
    assert_eq!(project.packages[0].name.as_deref(), Some("demo"));
    let project = fine("packages:\n  default:\n    actions: {a: {function: hello.js}}\n");
    assert_eq!(project.packages[0].name, None, "in no package");
}

#[test]
fn versions_are_read_over_however_they_are_written() {
    let text = with_action("        version: 1.0\n")
        + "    version: 1.0\n    sequences: {s: {actions: a, version: 2}}\n    triggers: {t: {version: '1.0'}}\n    rules: {r: {trigger: t, action: s, version: 0.1}}\n";
    let project = fine(&text);
    let package = &project.packages[0];
    assert_eq!((package.actions.len(), package.sequences.len()), (1, 1));
    assert_eq!((package.triggers.len(), package.rules.len()), (1, 1));
}

#[test]
fn inputs_have_three_forms() {
    let read = values(
        "          plain: 7\n          text: 'string'\n          zero: integer\n          user: hi ${USER}\n          escaped: $${USER}\n          empty:\n          object: {a: [1, $USER]}\n          long: {type: integer, value: $COUNT, description: how many}\n          fallback: {type: string, default: d}\n          typed: {type: boolean}\n          read: {type: json, value: '{\"x\": 1}'}\n",
    );
    let expected = json!({"plain": 7, "text": "", "zero": 0, "user": "hi ann", "escaped": "${USER}", "empty": "", "object": {"a": [1, "ann"]},
        "long": 7, "fallback": "d", "typed": false, "read": {"x": 1}});
    assert_eq!(Value::Object(read.into_iter().collect()), expected);
}

#[test]
fn limits_runtime_and_strategy_are_read() {
    let text = with_action(
        "        runtime: nodejs@20\n        main: run\n        network: egress\n        limits: {timeout: 90000, memorySize: 512, logSize: 1 MB, cpu: 0.5, concurrency: 2}\n",
    );
    let project = fine(&text);
    let action = &project.packages[0].actions[0];
    let function = &action.function;
    assert_eq!(
        (function.name.as_deref(), function.kind.as_deref(), function.main.as_deref()),
        (Some("p/a"), Some("nodejs:20"), Some("run"))
    );
    assert_eq!(function.timeout, Some(std::time::Duration::from_secs(90)));
    assert_eq!((function.memory, function.logs, function.cpu), (Some(512), Some(1), Some(500)));
    assert!(matches!(&action.source, Source::Path(path) if path.ends_with("hello.js")));
    let project = fine(&with_action("        limits: {timeout: 90s}\n        runtime: language:default\n"));
    let function = &project.packages[0].actions[0].function;
    assert_eq!(
        (function.timeout, function.kind.as_deref()),
        (Some(std::time::Duration::from_secs(90)), None)
    );
    for native in ["native: true", "docker: openwhisk/dockerskeleton:latest"] {
        let project = fine(&with_action(&format!("        {native}\n")));
        let function = &project.packages[0].actions[0].function;
        assert_eq!(
            (function.kind.as_deref(), function.contract),
            (Some("blackbox"), Some(Contract::Skeleton))
        );
    }
    let project =
        fine("packages: {p: {actions: {a: {code: 'const main = () => `${x}`', runtime: 'nodejs:default'}}}}");
    assert_eq!(
        project.packages[0].actions[0].source,
        Source::Inline("const main = () => `${x}`".into()),
        "code is left as it is"
    );
}

#[test]
fn web_actions_have_the_annotations_that_wsk_gives_them() {
    let annotations =
        |lines: &str| Value::Object(fine(&with_action(lines)).packages[0].actions[0].annotations.clone());
    let open = json!({"web-export": true, "raw-http": false, "final": true});
    for lines in [
        "        web: true\n",
        "        web-export: yes\n",
        "        web: 'yes'\n",
        "        annotations: {web-export: true}\n",
    ] {
        assert_eq!(annotations(lines), open, "{lines}");
    }
    let raw = json!({"web-export": true, "raw-http": true, "final": true});
    for lines in [
        "        web: raw\n",
        "        web: true\n        raw-http: true\n",
        "        annotations: {web-export: raw}\n",
    ] {
        assert_eq!(annotations(lines), raw, "{lines}");
    }
    assert_eq!(annotations("        web: true\n        final: false\n")["final"], false);
    assert_eq!(annotations("        web: false\n"), json!({}));
    assert_eq!(
        annotations("        conductor: true\n        annotations: {a: $USER}\n"),
        json!({"conductor": true, "a": "ann"})
    );
}

#[test]
fn what_calls_what_is_read() {
    let project = fine(
        "packages:\n  p:\n    public: true\n    inputs: {a: 1}\n    dependencies:\n      tools: {location: /whisk.system/utils, inputs: {b: 2}}\n    sequences:\n      s: {actions: 'one, two', web: true}\n      l: {actions: [one, /x/y/z]}\n    triggers:\n      t: {inputs: {c: 3}}\n      daily: {feed: /whisk.system/alarms/alarm, inputs: {cron: '0 0 * * *'}}\n    rules:\n      r: {trigger: t, action: s}\n    apis:\n      club:\n        base:\n          books/{id}:\n            one: get\n            two: {method: DELETE, response: json}\n",
    );
    let package = &project.packages[0];
    assert!(package.shared && package.inputs.len() == 1);
    assert_eq!(
        (package.dependencies[0].name.as_str(), package.dependencies[0].provider.as_str()),
        ("tools", "/whisk.system/utils")
    );
    assert_eq!(package.sequences[0].components, ["one", "two"]);
    assert_eq!(package.sequences[0].annotations["web-export"], true);
    assert_eq!(package.sequences[1].components, ["one", "/x/y/z"]);
    assert_eq!(package.triggers[1].feed.as_deref(), Some("/whisk.system/alarms/alarm"));
    assert_eq!((package.rules[0].trigger.as_str(), package.rules[0].action.as_str()), ("t", "s"));
    let apis: Vec<_> = package
        .apis
        .iter()
        .map(|api| format!("{} {} {} {} {}", api.method, api.base_path, api.path, api.action, api.response))
        .collect();
    assert_eq!(apis, ["get /base /books/{id} one http", "delete /base /books/{id} two json"]);
}

#[test]
fn names_may_have_variables() {
    let project = fine(
        "project:\n  name: of_$USER\n  packages:\n    ${USER}_p:\n      actions: {a: {function: hello.js}}\n",
    );
    assert_eq!(
        (project.name.as_deref(), project.packages[0].name.as_deref()),
        (Some("of_ann"), Some("ann_p"))
    );
    let project = fine("project:\n  inputs: {DEEP: 3}\n  packages:\n    p: {inputs: {x: $DEEP}}\n");
    assert_eq!(project.packages[0].inputs[0].value, Some(json!("3")));
}

#[test]
fn unknown_keys_are_warnings_with_a_suggestion() {
    let (_, problems) =
        read(&with_action("        inpts: {a: 1}\n        colour: red\n        limits: {codeSize: 9}\n"));
    assert!(problems.is_fine());
    let warnings = problems.warnings();
    assert_eq!(
        warnings[0],
        "manifest.yaml:6: packages.p.actions.a.inpts: this key is unknown, and nothing is made of it (did you mean 'inputs'?)"
    );
    assert!(warnings[1].starts_with("manifest.yaml:7: packages.p.actions.a.colour"), "{warnings:?}");
    assert!(warnings[2].contains("codeSize"), "{warnings:?}");
    let (project, problems) = read(&with_action("        inputs:\n          a: {tpye: string, value: x}\n"));
    assert_eq!(project.packages[0].actions[0].inputs[0].value, Some(json!({"tpye": "string", "value": "x"})));
    assert!(problems.warnings()[0].contains("did you mean 'type'?"));
    let (_, problems) = read("packages: {p: {credential: x, actions: {a: {function: hello.js}}}}");
    assert!(problems.warnings()[0].contains("--auth"));
}

#[test]
fn errors_name_file_line_key_and_what_to_do() {
    for (text, line, key, what) in [
        ("", 1, "", "it is empty"),
        ("- a", 1, "", "it is a list, not a map"),
        ("packages: [a]", 1, "packages", "it is a list"),
        ("project: {name: x}", 1, "packages", "there are no packages"),
        ("packages:\n  a/b: {}", 2, "packages.a/b", "'a/b' cannot be a name"),
        ("packages:\n  p: {actions: {a: {}}}", 2, "packages.p.actions.a", "it has no code"),
        (
            "packages:\n  p: {actions: {a: {function: none.js}}}",
            2,
            "packages.p.actions.a.function",
            "there is no ",
        ),
        (
            "packages:\n  p: {actions: {a: {function: 'https://x.y/z.js'}}}",
            2,
            "packages.p.actions.a.function",
            "no code from elsewhere",
        ),
        (
            "packages:\n  p: {actions: {a: {function: hello.js, code: x}}}",
            2,
            "packages.p.actions.a",
            "both 'function' and 'code'",
        ),
        (
            "packages:\n  p: {dependencies: {d: {location: github.com/a/b}}}",
            2,
            "packages.p.dependencies.d.location",
            "not a package of this server",
        ),
        (
            "packages:\n  p: {dependencies: {d: {location: x}}}",
            2,
            "packages.p.dependencies.d.location",
            "does not name a package",
        ),
        (
            "packages:\n  p: {inputs: {a: $NOBODY}}",
            2,
            "packages.p.inputs.a",
            "the variable NOBODY is not set",
        ),
        (
            "packages:\n  p: {inputs: {a: {type: colour}}}",
            2,
            "packages.p.inputs.a.type",
            "'colour' is not a type",
        ),
        (
            "packages:\n  p: {inputs: {a: {type: integer, value: $TOKEN}}}",
            2,
            "packages.p.inputs.a.value",
            "its type is integer",
        ),
        (
            "packages:\n  p: {sequences: {s: {actions: 'a,,b'}}}",
            2,
            "packages.p.sequences.s.actions",
            "is empty",
        ),
        ("packages:\n  p: {rules: {r: {trigger: t}}}", 2, "packages.p.rules.r", "it has no action"),
        (
            "packages:\n  p: {apis: {n: {b: {r: {a: fetch}}}}}",
            2,
            "packages.p.apis.n.b.r.a",
            "'fetch' is not a method",
        ),
        ("packages:\n  default: {inputs: {a: 1}}", 2, "packages.default", "stands for no package"),
        (
            "packages:\n  p: {actions: {a: {function: hello.js, docker: me/image}}}",
            2,
            "packages.p.actions.a.docker",
            "container image",
        ),
        (
            "packages:\n  p: {actions: {a: {function: hello.js, include: [x]}}}",
            2,
            "packages.p.actions.a.include",
            "not supported",
        ),
        (
            "packages:\n  p: {actions: {a: {function: hello.js, web: perhaps}}}",
            2,
            "packages.p.actions.a.web",
            "neither",
        ),
        (
            "packages:\n  p: {actions: {a: {function: hello.js, limits: {timeout: soon}}}}",
            2,
            "packages.p.actions.a.limits.timeout",
            "'soon'",
        ),
        ("project: {packages: {p: {}}}\npackages:\n  q: {}", 3, "packages", "beside 'project'"),
        ("packages:\n  p: {}\n  $USER: {}\n  ann: {}", 4, "packages.ann", "there already"),
    ] {
        let failure = refused(text);
        let place = if key.is_empty() {
            format!("manifest.yaml:{line}: ")
        } else {
            format!("manifest.yaml:{line}: {key}: ")
        };
        assert!(
            failure.message.starts_with(&place) && failure.message.contains(what),
            "{text}: {}",
            failure.message
        );
        assert!(!failure.message.contains("s3cret"), "{}", failure.message);
        let is_self_explaining = what.starts_with("it is a list");
        assert!(failure.hint.is_some() || is_self_explaining, "{text}: {}", failure.message);
    }
}

#[test]
fn undeploying_needs_the_variables_in_names_only() {
    let read = |text: &str| {
        let mut variables = Variables::of(&[("app", "other"), ("STAGE", "test")]);
        let mut reader = Reader::new(Path::new("manifest.yaml"), &mut variables);
        reader.needs_content = false;
        let project = reader.project(text);
        (project, reader.problems)
    };
    let text = "project:\n  inputs: {app: $APP, stage: $STAGE}\n  packages:\n    p-${stage}:\n      inputs: {a: $UNSET, b: {type: integer, value: $UNSET}, c: {required: true}}\n      annotations: {n: [x-$UNSET]}\n";
    let (project, problems) = read(text);
    problems.check().map_err(|failure| failure.message).unwrap();
    assert_eq!(project.packages[0].name.as_deref(), Some("p-test"));
    let (_, problems) = read(&text.replace("p-${stage}", "p-${app}"));
    assert!(problems.check().unwrap_err().message.contains("app is not set"));
}

#[test]
fn a_deployment_file_puts_other_values_in_place() {
    let text = "packages:\n  p:\n    inputs: {a: 1, k: {type: integer, required: true}}\n    actions:\n      shorten: {function: hello.js, inputs: {b: 1, c: 2}, annotations: {n: old}}\n    triggers:\n      t: {inputs: {d: 1}}\n";
    let (mut project, problems) = read(text);
    assert!(problems.is_fine());
    assert_eq!(project.packages[0].inputs[1].value, None);
    let deployment = "project:\n  packages:\n    p:\n      inputs: {k: $COUNT}\n      actions:\n        shorten: {inputs: {b: $USER, e: 5}, annotations: {n: new}}\n        shortn: {inputs: {b: 1}}\n      triggers:\n        t: {inputs: {d: 2}}\n    q: {}\n";
    let mut variables = Variables::of(&[("USER", "ann"), ("COUNT", "7")]);
    let mut reader = Reader::new(Path::new("deployment.yaml"), &mut variables);
    let overlay = reader.overlay(deployment);
    let mut problems = reader.problems;
    overlay.apply(&mut project, &mut problems);
    assert!(problems.is_fine());
    let package = &project.packages[0];
    let value = |inputs: &[crate::manifest::inputs::Input], name: &str| {
        inputs.iter().find(|one| one.name == name).and_then(|one| one.value.clone())
    };
    assert_eq!((value(&package.inputs, "a"), value(&package.inputs, "k")), (Some(json!(1)), Some(json!(7))));
    let action = &package.actions[0];
    assert_eq!(
        (value(&action.inputs, "b"), value(&action.inputs, "c"), value(&action.inputs, "e")),
        (Some(json!("ann")), Some(json!(2)), Some(json!(5)))
    );
    assert_eq!(
        (&action.annotations["n"], value(&package.triggers[0].inputs, "d")),
        (&json!("new"), Some(json!(2)))
    );
    let warnings = problems.warnings().join("\n");
    assert!(
        warnings.contains("no such package") && warnings.contains("did you mean 'shorten'?"),
        "{warnings}"
    );
}
