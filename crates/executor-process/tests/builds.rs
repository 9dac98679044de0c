//! Builds at deploy: how many at once, how much they write, and what becomes of those that fail.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use flint_executor::{Executor, FunctionSource, PrepareError, Prepared};
use flint_model::{ByteSize, CodeFormat, Contract};
use support::{House, function, handler, json, text, zipped};

const JAVA: &str = "import java.util.*;
public class Main { public static Map<String, Object> main(Map<String, Object> args) { return Map.of(\"n\", 1); } }";

/// The outcome of a deploy, and what was said meanwhile.
async fn prepare(
    house: &House,
    source: FunctionSource,
) -> (Result<Arc<Prepared>, PrepareError>, Vec<String>) {
    let said = Mutex::new(Vec::new());
    let result = house.executor.prepare(source, &|step| said.lock().unwrap().push(step.to_owned())).await;
    (result, said.into_inner().unwrap())
}

fn refusal(result: Result<Arc<Prepared>, PrepareError>) -> String {
    match result {
        Err(PrepareError::Code(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_failed_a_moment_ago_is_not_built_again() {
    let house = House::new().await;
    let broken = handler("java:default", &JAVA.replace("return Map", "return Mop"));
    let (first, said) = prepare(&house, broken.clone()).await;
    assert!(refusal(first).contains("Mop") && said.iter().any(|step| step == "compiling"), "{said:?}");
    let (again, said) = prepare(&house, broken).await;
    let why = refusal(again);
    assert!(why.contains("Mop") && why.contains("was not built again"), "{why}");
    assert_eq!(said, Vec::<String>::new());
    let (other, _) = prepare(&house, handler("java:default", JAVA)).await;
    assert!(other.is_ok(), "other code is built: {other:?}");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_build_writes_is_bounded() {
    let house = House::with(|config| config.build_size = ByteSize::kib(64)).await;
    let many: String = (0..400).map(|n| format!("class C{n} {{ String s = \"{n}\"; }}\n")).collect();
    let (java, _) = prepare(&house, handler("java:default", &format!("{JAVA}\n{many}"))).await;
    let why = refusal(java);
    assert!(why.contains("more than 64 KB") && why.contains("prepare.build_size"), "{why}");
    // Python does without its byte code.
    let long: String = (0..4000).map(|n| format!("a{n} = 'value {n}'\n")).collect();
    let files = [("__main__.py", format!("{long}def main(args): return {{'n': a7}}"))];
    let zip = zipped(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let (python, _) =
        prepare(&house, function("python:default", Contract::Handler, CodeFormat::Zip, zip.clone())).await;
    let steps = python.unwrap().steps.clone();
    assert!(steps.iter().any(|step| step.contains("without byte code")), "{steps:?}");
    let instance = house.start(function("python:default", Contract::Handler, CodeFormat::Zip, zip)).await;
    assert_eq!(text(instance.invoke(json("{}")).await).replace(' ', ""), r#"{"n":"value7"}"#);
    instance.stop().await;
    house.end().await;
}

/// With the paths that sandboxes see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_shim_is_compiled_with_the_first_function() {
    const WHERE: &[u8] = b"/runtime/python/flint_shim/";
    let house = House::new().await;
    house.prepare(handler("python:default", "def main(args): return {}")).await;
    let files = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let laid_out = files(&house.folder.path().join("runtimes"));
    let shim = laid_out.iter().map(|folder| folder.join("python/flint_shim")).find(|shim| shim.is_dir());
    let shim = shim.unwrap();
    for folder in [shim.join("snapshot"), shim] {
        let sources =
            files(&folder).iter().filter(|file| file.extension().is_some_and(|end| end == "py")).count();
        let compiled = files(&folder.join("__pycache__"));
        assert_eq!(compiled.len(), sources, "{compiled:?}");
        for file in compiled {
            let code = std::fs::read(&file).unwrap();
            assert!(code.windows(WHERE.len()).any(|part| part == WHERE), "{}", file.display());
        }
    }
    house.end().await;
}

/// The training run of an archive of classes calls the function, whose code may be anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_runs_in_a_build_writes_nothing_but_its_product() {
    const HOSTILE: &str = r#"
import java.io.*;
import java.util.*;
public class Main {
    public static Map<String, Object> main(Map<String, Object> args) {
        for (String place : new String[] {"/out", "/function", "/dev/fd", "/proc/self/fd/3", "/runtime/java", "/tmp/x"}) {
            try (OutputStream out = new FileOutputStream(new File(place).isDirectory() ? place + "/x" : place)) {
                while (true) out.write(new byte[1 << 20]);
            } catch (IOException full) {
            }
        }
        new File("/tmp/x").delete();
        return Map.of("n", 1);
    }
}"#;
    let house = House::with(|config| config.build_size = ByteSize::mib(64)).await;
    let instance = house.start(handler("java:default", HOSTILE)).await;
    instance.stop().await;
    let mut folders = vec![house.artefacts()];
    let mut written = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                folders.push(entry.path());
            }
            written += meta.len();
        }
    }
    assert!(written < ByteSize::mib(66).as_u64(), "{written} bytes");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn builds_wait_for_their_turn() {
    let house = House::with(|config| config.concurrent_builds = 1).await;
    let source = |n: u32| handler("java:default", &JAVA.replace("\"n\", 1", &format!("\"n\", {n}")));
    let plain = handler("nodejs:default", "exports.main = () => ({});");
    let (one, two, three, node) = tokio::join!(
        prepare(&house, source(1)),
        prepare(&house, source(2)),
        // The same as the first: it is built once.
        prepare(&house, source(1)),
        prepare(&house, plain),
    );
    let waited = |said: &[String]| said.iter().any(|step| step == "waiting for other builds");
    assert!(!waited(&one.1) && waited(&two.1) && waited(&three.1) && !waited(&node.1));
    assert!(three.1.iter().all(|step| step != "compiling"), "{:?}", three.1);
    for (result, n) in [(one.0, 1), (two.0, 2), (three.0, 1)] {
        let started = house.executor.start(&result.unwrap(), support::context()).await.unwrap();
        let answer = text(started.instance.invoke(json("{}")).await);
        assert_eq!(answer, format!("{{\"n\":{n}}}"));
        started.instance.stop().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_that_takes_too_long_is_the_codes_fault() {
    let house = House::with(|config| config.build_timeout = std::time::Duration::from_millis(1)).await;
    let source = handler("java:default", JAVA);
    let (late, _) = prepare(&house, source.clone()).await;
    let why = refusal(late);
    assert!(why.contains("took longer than") && why.contains("prepare.build_timeout"), "{why}");
    assert!(refusal(prepare(&house, source).await.0).contains("was not built again"));
    house.end().await;
}
