//! Java, with every JDK of the host.

mod support;

use flint_executor::{Executor, Fault, PrepareError};
use flint_model::{CodeFormat, Contract};
use support::{House, adjusted, function, handler, json, text};

const HELLO: &str = "package demo;
import java.util.Map;
public class Hello {
    private static int calls;
    public static Map<String, Object> main(Map<String, Object> params) throws java.io.IOException {
        System.out.println(\"hi\");
        if (params.get(\"maps\") != null) {
            String maps = java.nio.file.Files.readString(java.nio.file.Path.of(\"/proc/self/maps\"));
            return Map.of(\"archived\", maps.contains(\"/archive/function.\"));
        }
        if (params.get(\"throw\") != null) throw new IllegalStateException(\"asked to\");
        return Map.of(\"greeting\", \"Hello \" + params.get(\"name\"));
    }
}";

/// From this JDK on, the archive of a function's classes is an AOT cache.
const AOT_SINCE: u32 = 25;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_is_compiled_archived_and_called() {
    let house = House::new().await;
    let kinds = house.executor.kinds();
    let java: Vec<_> =
        kinds.iter().filter(|kind| kind.kind.family() == "java" && kind.state.is_ok()).collect();
    assert!(!java.is_empty(), "{kinds:?}");
    let newest = java.iter().filter_map(|kind| kind.kind.version()?.parse::<u32>().ok()).max();
    if newest < Some(AOT_SINCE) {
        println!("not checked: AOT caches, because this host has no JDK {AOT_SINCE} or newer");
    }
    for kind in java {
        let source = handler(kind.kind.as_str(), HELLO);
        let prepared = house.prepare(source.clone()).await;
        eprintln!("{}: {:?} in {:?}", kind.kind, prepared.steps, prepared.took);
        assert!(
            prepared.steps.iter().any(|step| step.starts_with("wrote an archive")),
            "{:?}",
            prepared.steps
        );
        let started = house.started(source).await;
        eprintln!("{}: started {:?}, initialised {:?}", kind.kind, started.started, started.initialised);
        let instance = started.instance;
        for _ in 0..2 {
            assert_eq!(text(instance.invoke(json(r#"{"name":"Ada"}"#)).await), r#"{"greeting":"Hello Ada"}"#);
        }
        // The JVM maps an archive only if it accepts it.
        assert_eq!(text(instance.invoke(json(r#"{"maps":1}"#)).await), r#"{"archived":true}"#);
        let flint_executor::Invoked::Done { result, .. } = instance.invoke(json(r#"{"throw":1}"#)).await
        else {
            panic!()
        };
        assert!(matches!(result.unwrap_err(), Fault::Developer { message } if message.contains("asked to")));
        instance.stop().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_annotate_there_is_no_archive_until_a_deploy_with_it() {
    let house = House::new().await;
    let archived = |steps: &[String]| steps.iter().any(|step| step.starts_with("wrote an archive"));
    let kept = handler("java:default", HELLO);
    let quick = adjusted(kept.clone(), |function| function.snapshot.annotate = false);
    let prepared = house.prepare(quick.clone()).await;
    assert!(!archived(&prepared.steps), "{:?}", prepared.steps);
    let instance = house.start(quick).await;
    assert_eq!(text(instance.invoke(json(r#"{"maps":1}"#)).await), r#"{"archived":false}"#);
    instance.stop().await;
    let prepared = house.prepare(kept).await;
    assert!(archived(&prepared.steps), "{:?}", prepared.steps);
    house.end().await;
}

/// The training run of the archive makes its calls one after the other, and takes of an endless answer what it needs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_answers_with_a_stream_has_an_archive() {
    const SHORT: &str = "new java.io.ByteArrayInputStream(\"bytes\".getBytes())";
    const ENDLESS: &str = "new java.io.InputStream() { public int read() { return 'x'; } }";
    let house = House::new().await;
    for stream in [SHORT, ENDLESS] {
        let source = format!(
            "public class A {{ public static java.io.InputStream main(java.util.Map<String, Object> params) {{ return {stream}; }} }}"
        );
        let prepared = house.prepare(handler("java:default", &source)).await;
        let archived = prepared.steps.iter().any(|step| step.starts_with("wrote an archive"));
        assert!(archived, "{:?}", prepared.steps);
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_compile_says_so() {
    let house = House::new().await;
    let source = handler("java:default", "public class A { int x = \"text\"; }");
    let Err(PrepareError::Code(text)) = house.executor.prepare(source, &|_| {}).await else { panic!() };
    assert!(text.contains("A.java:1") && text.contains("incompatible types"), "{text}");
    let source = function("java:default", Contract::Handler, CodeFormat::Jar, "no jar");
    let Err(PrepareError::Code(text)) = house.executor.prepare(source, &|_| {}).await else { panic!() };
    assert!(text.contains("not a jar"), "{text}");
    let source = adjusted(handler("java:default", HELLO), |function| function.main = Some("Hello".into()));
    let Err(PrepareError::Code(text)) = house.executor.prepare(source, &|_| {}).await else { panic!() };
    assert_eq!(text, "The class Hello is not in the code, which has demo.Hello");
    let source =
        adjusted(handler("java:default", HELLO), |function| function.main = Some("demo.Hello#none".into()));
    let Err(PrepareError::Code(text)) = house.executor.prepare(source, &|_| {}).await else { panic!() };
    let said = "The class demo.Hello has no method public static Map<String, Object> none(";
    assert!(text.starts_with(said), "{text}");
    house.end().await;
}

/// The JVM's own word for it is OutOfMemoryError.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_may_have_no_more_threads_is_told_so() {
    const THREADS: &str = "import java.util.Map;
public class Threads {
    public static Map<String, Object> main(Map<String, Object> params) {
        while (true) {
            Thread thread = new Thread(() -> {
                try { Thread.sleep(600_000); } catch (InterruptedException over) { }
            });
            thread.setDaemon(true);
            thread.start();
        }
    }
}";
    let house = House::new().await;
    let source = adjusted(handler("java:default", THREADS), |function| {
        function.snapshot.annotate = false;
        function.limits.processes = 100;
    });
    let instance = house.start(source).await;
    let flint_executor::Invoked::Done { result, .. } = instance.invoke(json("{}")).await else { panic!() };
    let fault = result.unwrap_err();
    let Fault::Developer { message } = &fault else { panic!("{fault:?}") };
    for limit in ["limits.processes", "limits.memory"] {
        assert!(message.contains(limit), "{message}");
    }
    instance.stop().await;
    house.end().await;
}

/// As OpenWhisk's Java actions are written, without a Gson of their own.
const GSON: &str = "import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
public class Hello {
    public static JsonObject main(JsonObject args) {
        if (args.has(\"throw\")) throw new IllegalArgumentException(\"asked to\");
        if (args.has(\"nothing\")) return null;
        JsonObject result = new JsonObject();
        result.addProperty(\"greeting\", \"Hello \" + args.getAsJsonPrimitive(\"name\").getAsString());
        return result;
    }
    public static JsonArray list(JsonArray args) {
        args.add(args.size());
        return args;
    }
}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_of_gsons_types_run_with_the_hosts_gson() {
    let house = House::new().await;
    let source = handler("java:default", GSON);
    let instance = house.start(source.clone()).await;
    assert_eq!(text(instance.invoke(json(r#"{"name":"Ada"}"#)).await), r#"{"greeting":"Hello Ada"}"#);
    for (arguments, said) in [(r#"{"throw":1}"#, "asked to"), (r#"{"nothing":1}"#, "It returned null.")] {
        let flint_executor::Invoked::Done { result, .. } = instance.invoke(json(arguments)).await else {
            panic!()
        };
        assert!(matches!(result.unwrap_err(), Fault::Developer { message } if message.contains(said)));
    }
    instance.stop().await;
    let list = adjusted(source, |function| function.main = Some("Hello#list".into()));
    let instance = house.start(list).await;
    assert_eq!(text(instance.invoke(json("[7,8]")).await), "[7,8,2]");
    instance.stop().await;
    house.end().await;
}
