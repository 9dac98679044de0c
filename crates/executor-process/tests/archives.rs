//! Functions in archives: entry points, virtual environments, what is refused, what is kept.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
    mpsc::channel,
};

use flint_executor::{Executor, FunctionSource, PrepareError, conformance::marked};
use flint_model::{ByteSize, CodeFormat, Contract};
use support::{House, adjusted, entries, function, handler, json, text, zipped};

fn zip(kind: &str, files: &[(&str, &str)]) -> FunctionSource {
    function(kind, Contract::Handler, CodeFormat::Zip, zipped(files))
}

async fn refusal(house: &House, source: FunctionSource) -> String {
    match house.executor.prepare(source, &|_| {}).await {
        Err(PrepareError::Code(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packages_are_found_and_called() {
    let house = House::new().await;
    let node = [
        ("package.json", r#"{"main": "lib/start.js"}"#),
        ("lib/start.js", "exports.main = () => ({ a: require('dep').a })"),
        ("node_modules/dep/index.js", "exports.a = 1"),
    ];
    let python = [
        ("__main__.py", "from lib import a\ndef main(p):\n    return {'a': a}\n"),
        ("lib/__init__.py", "a = 1\n"),
    ];
    for source in [zip("nodejs:default", &node), zip("python:default", &python)] {
        let kind = source.function.kind.clone();
        let prepared = house.prepare(source.clone()).await;
        assert_eq!(
            prepared.steps.len(),
            if kind.family() == "python" { 2 } else { 1 },
            "{:?}",
            prepared.steps
        );
        let instance = house.start(source).await;
        assert_eq!(text(instance.invoke(json("{}")).await).replace(' ', ""), r#"{"a":1}"#);
        instance.stop().await;
    }
    assert_eq!(entries(&house.artefacts()), 2);
    house.executor.collect(&[]).await;
    assert_eq!(entries(&house.artefacts()), 0);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_virtual_environment_decides_between_versions() {
    let house = House::new().await;
    let kinds = house.executor.kinds();
    let python: Vec<_> =
        kinds.iter().filter(|kind| kind.kind.family() == "python" && kind.state.is_ok()).collect();
    let line = python.last().and_then(|kind| kind.kind.version()).unwrap();
    let module = format!("virtualenv/lib/python{line}/site-packages/dep.py");
    let main =
        "import dep, sys\ndef main(p):\n    return {'dep': dep.a, 'line': '%d.%d' % sys.version_info[:2]}\n";
    let files = [("__main__.py", main), (module.as_str(), "a = 1\n")];
    for kind in ["python:default", "python:3"] {
        let instance = house.start(zip(kind, &files)).await;
        let answer: serde_json::Value =
            serde_json::from_str(&text(instance.invoke(json("{}")).await)).unwrap();
        assert_eq!(answer, serde_json::json!({ "dep": 1, "line": line }));
        instance.stop().await;
    }
    if python.len() > 1 {
        let text = refusal(&house, zip(python[0].kind.as_str(), &files)).await;
        assert!(text.contains(&format!("choose the kind python:{line}")), "{text}");
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_work_is_refused_with_the_reason() {
    let house = House::new().await;
    let native = |code: &[u8]| function("native", Contract::Stdio, CodeFormat::Executable, code.to_vec());
    let cases = [
        (zip("nodejs:default", &[("inner/index.js", "")]), "inside the folder 'inner'"),
        (zip("python:default", &[("other.py", "")]), "no __main__.py or main.py"),
        // A file that the host has.
        (
            adjusted(zip("python:default", &[("other.py", "")]), |function| {
                function.main = Some("/etc/passwd.main".into());
            }),
            "no __main__.py or main.py",
        ),
        (zip("native", &[("exec", "#!/bin/sh\n")]), "choose the contract actionloop, stdio"),
        (native(b"MZ windows"), "neither a Linux program"),
        (native(b"#!/bin/sh\r\necho\r\n"), "Windows line ends"),
        (native(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x08\0"), "another processor"),
    ];
    for (source, reason) in cases {
        let text = refusal(&house, source).await;
        assert!(text.contains(reason), "{text}");
    }
    assert_eq!(entries(&house.artefacts()), 0, "nothing is left of what was refused");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_code_is_found_at_deploy_when_that_is_wanted() {
    let house = House::with(|config| config.validate = true).await;
    for code in ["function main( {", "exports.x = 1", "throw new Error('at load')"] {
        let text = refusal(&house, handler("nodejs:default", code)).await;
        assert!(text.contains("Initialization has failed"), "{text}");
        // Also when it is tried again.
        refusal(&house, handler("nodejs:default", code)).await;
    }
    let endless = adjusted(handler("nodejs:default", "for (;;) {}"), |function| {
        function.limits.timeout = std::time::Duration::from_secs(1);
    });
    let text = refusal(&house, endless).await;
    assert!(text.contains("time limit"), "{text}");
    let (source, mark) = marked(handler("nodejs:default", "function main() { return {} }"));
    let gone = AtomicBool::new(false);
    let progress = |step: &str| {
        if step == "loading it once" {
            gone.store(Arc::strong_count(&mark) == 1, Ordering::Relaxed);
        }
    };
    house.executor.prepare(source, &progress).await.unwrap();
    assert!(gone.into_inner(), "its code is in memory while it is loaded");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_with_the_longest_name_runs() {
    let house = House::new().await;
    let source = zip("nodejs:default", &[("index.js", "exports.main = () => ({ a: 1 })")]);
    let longest = format!("guest/{}", "n".repeat(256));
    let instance = house.start(adjusted(source, |function| function.path = longest.parse().unwrap())).await;
    assert_eq!(text(instance.invoke(json("{}")).await), r#"{"a":1}"#);
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn archives_wait_for_their_turn() {
    let house = House::with(|config| config.concurrent_unpacks = 1).await;
    // What is said by a deploy, which goes on when it is told to.
    let deploy = |source: FunctionSource| {
        let (executor, (say, said), (go_on, wait)) = (house.executor.clone(), channel(), channel());
        let wait = Mutex::new(wait);
        let deploy = tokio::spawn(async move {
            let progress = |step: &str| {
                say.send(step.to_owned()).unwrap();
                let _ = wait.lock().unwrap().recv();
            };
            executor.prepare(source, &progress).await.unwrap();
        });
        (deploy, said, go_on)
    };
    let archive =
        |n: u32| zip("nodejs:default", &[("index.js", &format!("exports.main = () => ({{ n: {n} }})"))]);
    let (first, said, go_on) = deploy(archive(1));
    assert_eq!(said.recv().unwrap(), "unpacking");
    let (second, says, goes_on) = deploy(archive(2));
    assert_eq!(says.recv().unwrap(), "waiting for other archives");
    // A file is not unpacked.
    house.prepare(handler("nodejs:default", "exports.main = () => ({})")).await;
    goes_on.send(()).unwrap();
    go_on.send(()).unwrap();
    first.await.unwrap();
    assert_eq!(says.recv().unwrap(), "unpacking");
    drop(goes_on);
    second.await.unwrap();
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_fill_the_disk_is_refused_and_what_is_there_runs_on() {
    let source = zip("nodejs:default", &[("index.js", "exports.main = () => ({ a: 1 })")]);
    let folder = tempfile::tempdir().unwrap();
    let artefacts = folder.path().join("artefacts");
    let house = House::with(|config| config.artefacts_dir = artefacts.clone()).await;
    house.executor.admits(&source.function).unwrap();
    house.prepare(source.clone()).await;
    house.end().await;

    // Another life of the server, whose disk has become too small.
    let house = House::with(|config| {
        config.artefacts_dir = artefacts.clone();
        config.min_free = Some(ByteSize::bytes(u64::MAX));
    })
    .await;
    let other = zip("nodejs:default", &[("index.js", "exports.main = () => ({ a: 2 })")]);
    for refused in [
        house.executor.admits(&other.function).unwrap_err(),
        house.executor.prepare(other, &|_| {}).await.unwrap_err(),
    ] {
        assert!(matches!(refused, PrepareError::NoRoom(_)), "{refused:?}");
        assert!(refused.to_string().contains("prepare.min_free"), "{refused}");
    }
    house.executor.admits(&source.function).unwrap();
    let instance = house.start(source).await;
    assert_eq!(text(instance.invoke(json("{}")).await), r#"{"a":1}"#);
    instance.stop().await;
    assert_eq!(entries(&artefacts), 1);
    house.end().await;
}

/// What the record of every artefact says of its size, which it does, is taken out, as there was none in earlier versions.
fn forget_sizes(artefacts: &std::path::Path) {
    for artefact in std::fs::read_dir(artefacts).unwrap() {
        let file = artefact.unwrap().path().join("artefact.json");
        let mut record: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        record.as_object_mut().unwrap().remove("size").unwrap();
        std::fs::write(&file, record.to_string()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_has_as_much_as_it_may_is_refused_and_others_deploy() {
    let of = |namespace: &str, n: u32| {
        let source = zip("nodejs:default", &[("index.js", &format!("exports.main = () => ({{ n: {n} }})"))]);
        adjusted(source, |function| function.path = format!("{namespace}/f{n}").parse().unwrap())
    };
    let refused = async |house: &House, namespace: &str, n: u32| {
        let prepared = house.executor.prepare(of(namespace, n), &|_| {}).await;
        let Err(PrepareError::OverQuota(said)) = prepared else {
            panic!("{namespace}/f{n} was not refused");
        };
        assert!(said.contains(&format!("namespace {namespace} takes 32 KB")), "{said}");
        assert!(said.contains("more than the 40 KB") && said.contains("prepare.per_namespace"), "{said}");
    };
    let folder = tempfile::tempdir().unwrap();
    let artefacts = folder.path().join("artefacts");
    // Room for two: each has two folders and two files, its record among them.
    let small = |config: &mut flint_runtimes::HouseConfig| {
        config.artefacts_dir = artefacts.clone();
        config.per_namespace = ByteSize::kib(40);
    };
    let house = House::with(small).await;
    // As a server does when it starts.
    house.executor.collect(&[]).await;
    for n in [1, 2] {
        house.executor.admits(&of("guest", n).function).unwrap();
        house.prepare(of("guest", n)).await;
    }
    refused(&house, "guest", 3).await;
    // It is not even unpacked again.
    let again = house.executor.prepare(of("guest", 3), &|step| panic!("{step}")).await;
    assert!(matches!(again, Err(PrepareError::OverQuota(_))), "{again:?}");
    assert_eq!(entries(&artefacts), 2, "nothing is left of what was refused");
    // What is there already is another's too, and counts for each.
    house.prepare(of("other", 3)).await;
    house.prepare(of("other", 1)).await;
    assert_eq!(entries(&artefacts), 3);
    refused(&house, "other", 2).await;
    refused(&house, "guest", 3).await;
    house.prepare(of("guest", 1)).await;
    let large = adjusted(of("guest", 4), |function| function.code.size = ByteSize::kib(9));
    assert!(matches!(house.executor.admits(&large.function), Err(PrepareError::OverQuota(_))));
    house.end().await;

    // Another life of the server.
    forget_sizes(&artefacts);
    let house = House::with(small).await;
    // They are measured before a collection, or by it.
    house.executor.measure().await;
    forget_sizes(&artefacts);
    let deployed = [of("guest", 1), of("guest", 2), of("other", 3)].map(|source| source.function);
    house.executor.collect(&deployed).await;
    refused(&house, "guest", 3).await;
    house.prepare(of("other", 1)).await;
    // What is deleted is given back.
    house.executor.collect(&deployed[1..]).await;
    house.prepare(of("guest", 3)).await;
    let instance = house.start(of("guest", 2)).await;
    assert_eq!(text(instance.invoke(json("{}")).await), r#"{"n":2}"#);
    instance.stop().await;
    house.end().await;
}
