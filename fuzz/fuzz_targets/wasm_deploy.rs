//! Deploying any bytes as WebAssembly: they become compiled code, or are refused with a reason, and the server goes on.
//!
//! The first byte says by which contract, the rest is the code. Initialisers are looked for and not run: that is a guest at work.
#![no_main]

use std::sync::{Arc, OnceLock};

use flint_executor::{Executor, FunctionSource, PrepareError};
use flint_executor_wasm::{WasmConfig, WasmExecutor, Workshop, host::Services};
use flint_model::{ByteSize, Contract, Digest, Function, FunctionLimits};
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

struct Lab {
    runtime: Runtime,
    executor: WasmExecutor,
    _folder: tempfile::TempDir,
}

fn lab() -> &'static Lab {
    static LAB: OnceLock<Lab> = OnceLock::new();
    LAB.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let config = WasmConfig { instances: Some(2), max_module: ByteSize::mib(1), ..WasmConfig::default() };
        let services = Arc::new(Services::new(None).expect("TLS"));
        let executor = WasmExecutor::new(config, folder.path(), services, Workshop::Here);
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Lab { runtime, executor, _folder: folder }
    })
}

fn function(code: &[u8], contract: Contract) -> Function {
    serde_json::from_value(json!({
        "path": "guest/f", "version": "0.0.1", "revision": 1, "kind": "wasm",
        "code": {"digest": Digest::from_bytes([7; 32]), "size": code.len(), "format": "executable"},
        "contract": contract.as_str(), "network": "none", "updated": 1, "wasm": {"preinit": false},
        "strategy": {"isolation": "wasm", "start": "instantiate", "reuse": "never", "concurrency": 1},
        "limits": FunctionLimits::default(),
    }))
    .expect("a function")
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((selector, code)) = data.split_first() else { return Corpus::Reject };
    let contract = [Contract::WasmCore, Contract::WasiCommand, Contract::WasiHttp][usize::from(selector % 3)];
    let Lab { runtime, executor, .. } = lab();
    runtime.block_on(async {
        let source =
            FunctionSource { function: Arc::new(function(code, contract)), code: code.to_vec().into() };
        match executor.prepare(source, &|_| {}).await {
            Ok(_) => {}
            Err(PrepareError::Code(why)) => assert!(!why.is_empty()),
            Err(other) => panic!("a fault of the platform: {other}"),
        }
        // All inputs have the same address: what was made of this one must not be found by the next.
        executor.collect(&[]).await;
    });
    Corpus::Keep
});
