//! Contract `wasm-core`.

mod support;

use flint_executor::{Call, CallHead, Fault, Invoked, ReplyHead};
use flint_model::{ByteSize, Contract, FunctionLimits};
use http::{HeaderMap, Method};
use serde_json::json;
use support::{AMPLE, House, SHORT, call, core, done, json_call, limits, wat};

const CORE: &str = include_str!("modules/core.wat");

#[tokio::test]
async fn json_in_json_out_in_an_instance_of_its_own() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let echoed = call(&instance, "echo").await;
    assert_eq!(echoed.json(), json!({ "op": "echo" }));
    assert!(matches!(echoed.result.as_ref().unwrap().head, ReplyHead::Json));
    assert_eq!(echoed.end.usage.memory_peak, Some(ByteSize::kib(128)));
    for _ in 0..3 {
        assert_eq!(call(&instance, "count").await.json(), json!({ "calls": 1 }), "a global was kept");
    }
}

#[tokio::test]
async fn functions_with_the_same_code_have_it_once_and_everything_else_for_themselves() {
    let house = House::new();
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let folder = house.folder.path().to_str().unwrap();
        maps.lines().filter(|line| line.contains(folder)).count()
    };
    let first = house.start(Contract::WasmCore, &wat(CORE)).await;
    let once = mapped();
    assert!(once > 0);
    let second = house.start(Contract::WasmCore, &wat(CORE)).await;
    assert_eq!(mapped(), once);
    for instance in [&first, &second, &first] {
        assert_eq!(call(instance, "count").await.json(), json!({ "calls": 1 }));
    }
    drop(first);
    assert_eq!(call(&second, "count").await.json(), json!({ "calls": 1 }));
}

#[tokio::test]
async fn log_lines_belong_to_the_call() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    assert_eq!(call(&instance, "log").await.lines(), ["Stdout first line", "Stderr an error line"]);
    assert!(call(&instance, "echo").await.lines().is_empty());
    let mut flood = json_call(r#"{"op":"Flood"}"#, AMPLE);
    flood.max_logs = ByteSize::bytes(110);
    let flood = done(instance.invoke(flood).await);
    assert!(flood.end.logs_truncated && flood.end.logs.len() == 10, "{:?}", flood.lines());
}

#[tokio::test]
async fn what_goes_wrong_is_told_to_the_developer() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    assert_eq!(call(&instance, "fail").await.told(), "it went wrong");
    let trap = call(&instance, "trap").await;
    assert!(trap.told().contains("unreachable"), "{}", trap.told());
    let inner = trap.told().find("panicking_function").expect("the inner function's name");
    assert!(trap.told()[inner..].contains("flint_call"), "{}", trap.told());
    assert!(call(&instance, "deep").await.told().contains("stack overflowed"));
    assert!(call(&instance, "outside").await.told().contains("outside the memory"));
    assert_eq!(call(&instance, "number").await.fault(), &Fault::InvalidAnswer { text: "7".into() });
    assert_eq!(call(&instance, "echo").await.json(), json!({ "op": "echo" }), "others go on");
}

#[tokio::test]
async fn a_result_that_is_too_large_is_said() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let mut big = json_call(r#"{"op":"big"}"#, AMPLE);
    big.max_result = ByteSize::bytes(1000);
    let big = done(instance.invoke(big).await);
    let Fault::ResultTooLarge { size: 100_010, allowed: 1000, beginning } = big.fault() else {
        panic!("{:?}", big.fault())
    };
    assert!(beginning.len() == 1000 && beginning.starts_with(b"{\"big\":\"xxx"));
    assert_eq!(call(&instance, "big").await.json()["big"].as_str().map(str::len), Some(100_000));
}

#[tokio::test]
async fn a_long_answer_to_a_request_stays_in_the_instance_until_it_is_taken() {
    const LENGTH: usize = 4 << 20;
    let house = House::new();
    let fill =
        "(drop (memory.grow (i32.const 63))) (memory.fill (i32.const 0) (i32.const 120) (i32.const 4194304))";
    let long = core("", &format!("{fill} (return (i64.const 0x400000))"));
    let instance = house.start_with(Contract::WasmCore, &long, limits()).await;
    let request = |limit| {
        let (path, query) = ("/".to_owned(), String::new());
        let head = CallHead { method: Method::GET, path, query, headers: HeaderMap::new() };
        Call { head: Some(Box::new(head)), ..json_call("", limit) }
    };
    let invoked = instance.invoke(request(AMPLE)).await;
    let Invoked::Streaming { mut body, end, .. } = invoked else { panic!("no stream: {invoked:?}") };
    assert_eq!(house.executor.live(), 1, "the memory is still charged");
    let mut length = 0;
    while let Some(piece) = body.recv().await {
        let piece = piece.expect("it goes well");
        assert!(piece.iter().all(|byte| *byte == b'x'));
        length += piece.len();
    }
    assert_eq!(length, LENGTH);
    let end = end.await.unwrap();
    assert_eq!((end.fault, end.usage.memory_peak), (None, Some(ByteSize::mib(4))));
    house.until_no_guest().await;

    // Who does not take it loses it at the deadline.
    let mut invoked = instance.invoke(request(SHORT)).await;
    if !matches!(invoked, Invoked::Streaming { .. }) {
        // The machine was too busy for it to begin by then.
        invoked = instance.invoke(request(30 * SHORT)).await;
    }
    let Invoked::Streaming { body, end, .. } = invoked else { panic!("no stream: {invoked:?}") };
    assert_eq!(end.await.unwrap().fault, Some(Fault::Deadline));
    drop(body);
    house.until_no_guest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_loop_ends_at_the_deadline_and_others_go_on_beside_it() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let looping = async { done(instance.invoke(json_call(r#"{"op":"while"}"#, SHORT)).await) };
    let others = async {
        for _ in 0..20 {
            assert_eq!(call(&instance, "echo").await.json(), json!({ "op": "echo" }));
            tokio::time::sleep(SHORT / 20).await;
        }
    };
    let (looped, ()) = tokio::join!(looping, others);
    assert_eq!(looped.fault(), &Fault::Deadline);
}

#[tokio::test]
async fn memory_is_bounded_by_the_functions_limit() {
    let house = House::new();
    let limits = FunctionLimits { memory: ByteSize::mib(16), ..FunctionLimits::default() };
    let instance = house.start_with(Contract::WasmCore, &wat(CORE), limits).await;
    let bomb = call(&instance, "memory").await;
    assert_eq!(bomb.fault(), &Fault::OutOfMemory);
    assert!(bomb.end.usage.memory_peak.unwrap() <= ByteSize::mib(16));
    assert_eq!(call(&instance, "echo").await.json(), json!({ "op": "echo" }));
}
