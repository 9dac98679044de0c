//! What a deploy asks for.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use flint_executor::Prepared;
use flint_model::{
    Annotations, ByteSize, CodeFormat, Function, Network, Parameters, SnapshotOptions, StrategyRequest,
    Version, WasmOptions,
};

/// A deploy. What is absent keeps its old value, or gets its default when the function is new.
#[derive(Clone, Debug, Default)]
pub struct PutFunction {
    /// Replace what is there; without it, a function that is there is refused ([`crate::ControllerError::Exists`]).
    pub overwrite: bool,
    /// The code and how it is entered.
    pub code: Option<PutCode>,
    /// How it is run.
    pub strategy: StrategyRequest,
    /// And how in those respects that this does not name.
    pub unnamed: Unnamed,
    /// Clones of a snapshot stay after a call unless the user says otherwise: code that was written for platforms which keep
    /// instances counts on its connections.
    pub keep_clones: bool,
    /// How it is warmed up and frozen; replaces what was said before.
    pub snapshot: Option<SnapshotOptions>,
    /// What it is granted as WebAssembly; replaces what was said before.
    pub wasm: Option<WasmOptions>,
    /// What it may connect to.
    pub network: Option<Network>,
    /// What it may use; each absent one keeps its old value.
    pub limits: LimitsWish,
    /// Default arguments; replace all old ones.
    pub parameters: Option<Parameters>,
    /// Merged key by key into the old ones.
    pub annotations: Annotations,
    /// Keys removed before that.
    pub remove_annotations: Vec<String>,
    /// No old one stays, of whatever is there when the deploy replaces it.
    pub forget_annotations: bool,
    /// Absent: the old one with its last number counted up.
    pub version: Option<Version>,
    /// Kept because clients set it.
    pub publish: Option<bool>,
    /// When the function is made ready to start.
    pub prepare: PrepareWhen,
}

/// Code and how it is entered.
#[derive(Clone, Debug)]
pub struct PutCode {
    /// The runtime as the user wrote it: `nodejs:20`, `nodejs:default`, `nodejs`, `python:3`.
    pub kind: String,
    /// The code itself.
    pub content: Bytes,
    /// What `content` is; absent: recognised from its first bytes and the kind.
    pub format: Option<CodeFormat>,
    /// The entry point.
    pub main: Option<String>,
}

/// What becomes of those parts of contract and strategy that a deploy does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unnamed {
    /// They are chosen by Flint, as if nobody had ever said them.
    #[default]
    Default,
    /// What was asked for before still counts, unless the runtime or the contract changes.
    Kept,
}

/// What a function asks to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsWish {
    /// How long initialisation, and each call, may take.
    pub timeout: Option<Duration>,
    /// Memory of one instance.
    pub memory: Option<ByteSize>,
    /// How much one activation may log.
    pub logs: Option<ByteSize>,
    /// Calls at once in one instance.
    pub concurrency: Option<u32>,
    /// Instances at once; `Some(None)`: as many as there is memory for.
    pub instances: Option<Option<u32>>,
    /// Thousandths of a core.
    pub cpu_millis: Option<u32>,
    /// Processes and threads at once.
    pub processes: Option<u32>,
    /// Size of `/tmp`.
    pub tmp: Option<ByteSize>,
}

/// When a function is made ready to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrepareWhen {
    /// Before the deploy is answered: code that cannot be prepared is refused and nothing is written.
    #[default]
    Now,
    /// After the deploy is answered: broken code is accepted and fails when it is called, as OpenWhisk's clients expect.
    Background,
}

/// What a deploy did.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// The function as it is now.
    pub function: Arc<Function>,
    /// It was not there before.
    pub created: bool,
    /// What preparing did, for people; empty when it goes on behind.
    pub steps: Vec<String>,
    /// How long that took; zero when it was found ready.
    pub took: Duration,
    /// The function as it was made ready; absent when that goes on behind.
    pub prepared: Option<Arc<Prepared>>,
}
