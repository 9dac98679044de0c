//! What guests are granted, and what they are not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    collections::BTreeMap,
    io::{Cursor, Write},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use flint_executor::{CallHead, Executor};
use flint_executor_wasm::{
    WasmConfig,
    host::{HttpBounds, HttpClient, OpenFiles, Reach, Services},
};
use flint_model::{ByteSize, Contract, Function, FunctionLimits, NamespaceName};
use flint_store::{
    BucketPath, Change, KeyValue, KeyValueError, KeyValueQuota, KeyValueUsage, Page, StoreError,
};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use support::{AMPLE, Done, House, context, done, function, json_call, wat, with_config, with_services};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Values in memory, by namespace, bucket and key.
#[derive(Default)]
struct Memory(Mutex<BTreeMap<(String, String, String), Vec<u8>>>);

impl Memory {
    fn number(&self, namespace: &str, bucket: &str, key: &str) -> Option<String> {
        let place = (namespace.to_owned(), bucket.to_owned(), key.to_owned());
        self.0.lock().unwrap().get(&place).map(|value| String::from_utf8(value.clone()).unwrap())
    }
}

fn place(at: &BucketPath, key: &str) -> (String, String, String) {
    (at.namespace.to_string(), at.bucket.clone(), key.to_owned())
}

#[async_trait]
impl KeyValue for Memory {
    async fn read(&self, at: &BucketPath, keys: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let values = self.0.lock().unwrap();
        Ok(keys.iter().map(|key| values.get(&place(at, key)).cloned()).collect())
    }

    async fn write(
        &self,
        at: &BucketPath,
        changes: Vec<Change>,
        _: KeyValueQuota,
    ) -> Result<(), KeyValueError> {
        let mut values = self.0.lock().unwrap();
        for Change { key, value } in changes {
            match value {
                Some(value) => values.insert(place(at, &key), value),
                None => values.remove(&place(at, &key)),
            };
        }
        Ok(())
    }

    async fn increment(
        &self,
        at: &BucketPath,
        key: &str,
        delta: u64,
        _: KeyValueQuota,
    ) -> Result<u64, KeyValueError> {
        let mut values = self.0.lock().unwrap();
        let value = values.entry(place(at, key)).or_insert_with(|| b"0".to_vec());
        let sum = std::str::from_utf8(value).unwrap().parse::<u64>().unwrap() + delta;
        *value = sum.to_string().into_bytes();
        Ok(sum)
    }

    async fn keys(&self, at: &BucketPath, page: Page) -> Result<Vec<String>, StoreError> {
        let values = self.0.lock().unwrap();
        let own = values.keys().filter(|(namespace, bucket, _)| {
            (namespace.as_str(), bucket) == (at.namespace.as_str(), &at.bucket)
        });
        Ok(own.map(|(_, _, key)| key.clone()).skip(page.skip).take(page.limit).collect())
    }

    async fn usage(&self, _: &NamespaceName) -> Result<KeyValueUsage, StoreError> {
        Ok(KeyValueUsage::default())
    }
}

fn house(values: Option<Arc<dyn KeyValue>>) -> House {
    with_services(Services::new(values).unwrap())
}

/// Deploys and calls once, with a request of this body.
async fn call(
    house: &House,
    contract: Contract,
    code: &[u8],
    body: &str,
    adjust: impl FnOnce(&mut Function),
) -> Done {
    let mut source = function(contract, code, FunctionLimits::default());
    adjust(Arc::get_mut(&mut source.function).unwrap());
    let prepared = house.prepare(source).await.unwrap();
    let started = house.executor.start(&prepared, context()).await.unwrap();
    let mut call = json_call(body.to_owned(), AMPLE);
    if contract == Contract::WasiCommand {
        // Its answer is empty, which no JSON is.
        let head = CallHead {
            method: Method::POST,
            path: "/".into(),
            query: String::new(),
            headers: HeaderMap::new(),
        };
        call.head = Some(Box::new(head));
    }
    let done = done(started.instance.invoke(call).await);
    started.instance.stop().await;
    done
}

const COUNTER: &str = include_str!("modules/counter.wat");
const OUTBOUND: &str = include_str!("modules/outbound.wat");
const READER: &str = include_str!("modules/reader.wat");

fn granted(namespace: &str, sum: &str) -> impl FnOnce(&mut Function) {
    let (path, sum) = (format!("{namespace}/counter").parse().unwrap(), sum.to_owned());
    move |function| {
        function.path = path;
        function.wasm.keyvalue = true;
        function.wasm.config.insert("sum".to_owned(), sum);
    }
}

#[tokio::test]
async fn buckets_belong_to_the_namespace_and_configuration_to_the_function() {
    let values = Arc::new(Memory::default());
    let house = house(Some(Arc::clone(&values) as Arc<dyn KeyValue>));
    let counter = wat(COUNTER);
    for (namespace, sum) in [("a", "2"), ("a", "4"), ("b", "2"), ("a", "6")] {
        let counted = call(&house, Contract::WasiCommand, &counter, "", granted(namespace, sum)).await;
        assert!(counted.result.is_ok(), "{namespace} {sum}: {:?}", counted.result);
    }
    assert_eq!(values.number("a", "b", "n").as_deref(), Some("6"));
    assert_eq!(values.number("b", "b", "n").as_deref(), Some("2"));
    // The sum is another than what it is told: the command sees the values, and says so.
    let wrong = call(&house, Contract::WasiCommand, &counter, "", granted("a", "1")).await;
    assert!(wrong.told().contains("exit code 1"), "{}", wrong.told());
}

#[tokio::test]
async fn without_the_grant_or_a_store_there_are_no_buckets() {
    let values = Arc::new(Memory::default());
    let counter = wat(COUNTER);
    let with_store = house(Some(Arc::clone(&values) as Arc<dyn KeyValue>));
    let denied = call(&with_store, Contract::WasiCommand, &counter, "", |_| {}).await;
    assert!(denied.told().contains("refused"), "{}", denied.told());
    assert_eq!(values.0.lock().unwrap().len(), 0);
    let without = house(None);
    let nowhere = call(&without, Contract::WasiCommand, &counter, "", granted("a", "2")).await;
    assert!(nowhere.told().contains("exit code 1"), "{}", nowhere.told());
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[tokio::test]
async fn assets_can_be_read_and_nothing_else() {
    let house = house(None);
    let reader = wat(READER);
    let files: [(&str, &[u8]); 4] = [
        ("f.wasm", &reader),
        ("assets/a.json", br#"{"a":1}"#),
        ("assets/in/b.json", br#"{"b":2}"#),
        ("c", b"{}"),
    ];
    let code = archive(&files);
    let read = async |path: &str| -> Value {
        let body = format!("\"{path}\"");
        call(&house, Contract::WasmCore, &code, &body, |_| {}).await.json()
    };
    assert_eq!(read("a.json").await, json!({"a": 1}));
    assert_eq!(read("in/b.json").await, json!({"b": 2}));
    assert_eq!(read("in/../a.json").await, json!({"a": 1}));
    const NOENT: u64 = 44;
    assert_eq!(read("c").await["errno"], NOENT, "outside of assets/");
    for outside in ["../f.wasm", "/etc/passwd", "in/../../x", "!new.json", "!a.json"] {
        let errno = read(outside).await["errno"].as_u64();
        assert!(errno.is_some_and(|errno| errno != NOENT), "{outside}: {errno:?}");
    }
    let kept = house.folder.path().join("assets");
    let unpacked: Vec<_> = std::fs::read_dir(&kept).unwrap().collect();
    assert_eq!(unpacked.len(), 1, "unpacked once for all calls");
    house.executor.collect(&[]).await;
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0, "and removed with the function");
}

#[tokio::test]
async fn files_that_are_left_open_are_bounded() {
    let house = house(None);
    let opener = wat(r#"(module
        (import "wasi_snapshot_preview1" "path_open"
            (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 16) "a")
        (func (export "_start") (local $n i32)
            (loop $more
                (if (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 0)
                        (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 8))
                    (then (return)))
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (br_if $more (i32.lt_u (local.get $n) (i32.const 5000))))))"#);
    let files: [(&str, &[u8]); 2] = [("f.wasm", &opener), ("assets/a", b"{}")];
    let ended = call(&house, Contract::WasiCommand, &archive(&files), "", |_| {}).await;
    assert!(ended.told().contains("table"), "{}", ended.told());
}

#[tokio::test]
async fn files_of_all_calls_together_are_bounded_and_come_back() {
    /// Opens so many files, and keeps them.
    fn opener(files: u32) -> Vec<u8> {
        let opener = wat(&format!(
            r#"(module
            (import "wasi_snapshot_preview1" "path_open"
                (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 16) "a")
            (func (export "_start") (local $n i32)
                (loop $more
                    (if (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 1) (i32.const 0)
                            (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 8))
                        (then unreachable))
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $more (i32.lt_u (local.get $n) (i32.const {files}))))))"#
        ));
        archive(&[("f.wasm", &opener), ("assets/a", b"{}")])
    }
    let house =
        |files| with_services(Services { files: OpenFiles::at_most(files), ..Services::new(None).unwrap() });
    let open =
        async |house: &House, files| call(house, Contract::WasiCommand, &opener(files), "", |_| {}).await;
    let told =
        |ended: &Done| ended.end.logs.iter().any(|line| line.text.contains("all functions may have open"));
    // Of which a namespace alone has two thirds.
    let few = house(48);
    let refused = open(&few, 40).await;
    assert!(refused.told().contains("table") && told(&refused), "{refused:?}");
    // What a call had is there for others, however it ended.
    for _ in 0..3 {
        let ended = open(&few, 20).await;
        assert!(ended.result.is_ok(), "{ended:?}");
    }
    // Where there is none left at all, there are no assets.
    let none = open(&house(0), 1).await;
    assert!(none.result.is_err() && told(&none), "{none:?}");
}

#[tokio::test]
async fn what_is_only_read_is_not_made_durable_and_not_removed() {
    // A file that is not open, and a path that is not in its memory: neither is looked at.
    let program = wat(r#"(module
        (import "wasi_snapshot_preview1" "fd_sync" (func $sync (param i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_datasync" (func $datasync (param i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_advise" (func $advise (param i32 i64 i64 i32) (result i32)))
        (import "wasi_snapshot_preview1" "path_unlink_file" (func $unlink (param i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "_start")
            (if (call $sync (i32.const 99)) (then unreachable))
            (if (call $datasync (i32.const 99)) (then unreachable))
            (if (call $advise (i32.const 99) (i64.const 0) (i64.const 0) (i32.const 4)) (then unreachable))
            (if (i32.ne (i32.const 63) (call $unlink (i32.const 3) (i32.const 0) (i32.const -1)))
                (then unreachable))))"#);
    let ended = call(&house(None), Contract::WasiCommand, &program, "", |_| {}).await;
    assert!(ended.result.is_ok(), "{ended:?}");
}

const FOLDERS: &str = include_str!("modules/folders.wat");

#[tokio::test]
async fn what_components_open_is_bounded() {
    let files = OpenFiles::at_most(64);
    let house = with_services(Services { files, ..Services::new(None).unwrap() });
    let code = archive(&[("f.wasm", &wat(FOLDERS)), ("assets/a", b"{}")]);
    for _ in 0..3 {
        let ended = call(&house, Contract::WasiCommand, &code, "", |_| {}).await;
        assert!(ended.result.is_ok(), "{ended:?}");
        assert!(ended.end.logs.iter().any(|line| line.text.contains("all functions may have open")));
    }
}

#[tokio::test]
async fn what_a_component_lists_counts_as_its_memory() {
    let names: Vec<_> = (0..1000).map(|number| format!("assets/{number:0>250}")).collect();
    let folders = wat(FOLDERS);
    let mut files = vec![("f.wasm", &folders[..]), ("assets/a", &b"{}"[..])];
    files.extend(names.iter().map(|name| (name.as_str(), &b""[..])));
    let code = archive(&files);
    let house = |memory| {
        let services = Services { files: OpenFiles::at_most(64), ..Services::new(None).unwrap() };
        with_config(WasmConfig { memory: Some(memory), ..WasmConfig::default() }, services)
    };
    let ended = call(&house(ByteSize::mib(64)), Contract::WasiCommand, &code, "", |_| {}).await;
    assert!(ended.result.is_ok(), "{ended:?}");
    // A namespace has three quarters of it: those that are not kept, and then some five.
    let ended = call(&house(ByteSize::mib(2)), Contract::WasiCommand, &code, "", |_| {}).await;
    assert!(ended.told().contains("unbounded"), "{ended:?}");
}

const POLL: &str = include_str!("modules/poll.wat");

#[tokio::test]
async fn what_a_component_waits_for_is_bounded() {
    let house = house(None);
    let poll = async |count: &str| {
        call(&house, Contract::WasiCommand, &wat(&POLL.replace("COUNT", count)), "", |_| {}).await
    };
    let most = poll("2000").await;
    assert!(most.result.is_ok(), "{most:?}");
    let more = poll("2001").await;
    assert!(more.told().contains("2001 handles, more than the 2000"), "{more:?}");
}

const HEADS: &str = include_str!("modules/heads.wat");

#[tokio::test]
async fn heads_are_bounded() {
    let ended = call(&house(None), Contract::WasiCommand, &wat(HEADS), "", |_| {}).await;
    assert!(ended.result.is_ok(), "{ended:?}");
}

#[tokio::test]
async fn what_is_handed_to_the_host_at_once_is_bounded() {
    let house = house(None);
    // A path of 20 MB is too much for the host's memory (errno 48) before it is too long.
    let opener = wat(r#"(module
        (import "wasi_snapshot_preview1" "path_open"
            (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
        (memory (export "memory") 400)
        (func (export "_start")
            (if (i32.ne (i32.const 48) (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 20000000)
                    (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 8)))
                (then unreachable))))"#);
    let files: [(&str, &[u8]); 2] = [("f.wasm", &opener), ("assets/a", b"{}")];
    let ended = call(&house, Contract::WasiCommand, &archive(&files), "", |_| {}).await;
    assert!(ended.result.is_ok(), "{ended:?}");
}

#[tokio::test]
async fn without_assets_there_are_no_files() {
    let house = house(None);
    const BADF: u64 = 8;
    for path in ["a", "/etc/passwd", "../../etc/passwd", "!x"] {
        let body = format!("\"{path}\"");
        let answer = call(&house, Contract::WasmCore, &wat(READER), &body, |_| {}).await.json();
        assert_eq!(answer, json!({ "errno": BADF }), "{path}");
    }
}

/// A server that answers everything with 200, until it is dropped.
async fn web_server() -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    (to, serving)
}

#[tokio::test]
async fn requests_go_where_they_may_and_never_inside() {
    let (to, serving) = web_server().await;
    let component = wat(OUTBOUND);
    let send = async |house: &House, allow: &[&str], to: &str| {
        let adjust = |function: &mut Function| {
            function.wasm.config.insert("to".to_owned(), to.to_owned());
            function.wasm.allow_hosts = allow.iter().map(|host| host.parse().unwrap()).collect();
        };
        call(house, Contract::WasiCommand, &component, "", adjust).await
    };
    let everywhere = Services {
        http: Arc::new(HttpClient::new(HttpBounds::default(), Reach::Everything).unwrap()),
        ..Services::new(None).unwrap()
    };
    let trusting = with_services(everywhere);
    let answered = send(&trusting, &[&format!("http://{to}")], &to).await;
    assert!(answered.result.is_ok(), "{:?}", answered.result);
    for allow in [&[][..], &["https://*"], &["example.com"], &["http://127.0.0.1"]] {
        let denied = send(&trusting, allow, &to).await;
        assert!(denied.told().contains("denied"), "{allow:?}: {}", denied.told());
    }

    // The same, allowed by the function's owner, on a server as it is: its own addresses are out of reach.
    let house = house(None);
    let port = to.rsplit(':').next().unwrap();
    for inside in
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1"]
    {
        let inside = format!("{inside}:{port}");
        let refused = send(&house, &[&format!("*:{port}")], &inside).await;
        assert!(refused.told().contains("prohibited"), "{inside}: {}", refused.told());
    }
    serving.abort();
}
