//! Functions as WebAssembly: isolation `wasm`, start `instantiate`, reuse `never`. wasmtime isolates the code
//! within the server's own process; [`host`] decides what an instance can reach.
//!
//! | contract | how a call reaches the code | where |
//! |---|---|---|
//! | `wasm-core` | pointer and length of the body to an exported function | `contracts/core.rs`, docs/wasm-core-abi.md |
//! | `wasi-command` | a program: body on stdin, answer on stdout | `contracts/program.rs` |
//! | `wasi-http` | a component that handles `wasi:http` requests | `contracts/http.rs`, for WASI 0.3 `contracts/http_0_3.rs` |
//!
//! A call makes a store ([`state`]), instantiates the code from the pool, runs it ([`drive`]) and drops it.
//! Code is compiled at deploy ([`compile`]) in separate processes ([`workshop`]), cached ([`cache`]), and loaded
//! when a call needs it ([`loading`], [`shelf`]).

#![deny(unsafe_code)]

mod account;
mod answer;
mod breach;
mod budget;
mod cache;
mod compile;
mod config;
mod contracts;
mod cut;
mod drive;
mod engine;
mod environment;
mod exchange;
mod executor;
mod fault;
mod held;
pub mod host;
mod instance;
mod interrupt;
mod key;
mod lane;
mod limits;
mod link;
mod loading;
mod meter;
mod order;
mod packages;
mod pool;
mod preinit;
mod prepare;
mod purse;
mod running;
mod settled;
mod shelf;
mod state;
mod stdio;
mod streaming;
mod teavm;
mod tenant;
mod ticker;
mod wasi;
mod workshop;

pub use config::WasmConfig;
pub use executor::{KIND, WasmError, WasmExecutor};
pub use pool::{PoolBound, PoolSize, scans_pages};
pub use workshop::{Workshop, workshop_entry};
