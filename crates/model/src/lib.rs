//! The vocabulary of Flint: names, functions, limits, activations and outcomes.
//!
//! Nothing here does I/O. An invalid name, version or limit cannot be constructed: every type that comes from
//! outside has a `parse` that says what is wrong.

#![forbid(unsafe_code)]

mod activation;
mod byte_size;
mod digest;
mod function;
mod id;
mod limits;
mod log_line;
mod name;
mod namespace;
mod parameters;
mod snapshot;
mod snapshot_report;
mod strategy;
mod time;
mod timeline;
mod version;
mod wasm;

pub use activation::{Activation, Attempt, Response, Status, Usage};
pub use byte_size::{ByteSize, ByteSizeError};
pub use digest::{Digest, DigestError};
pub use function::{Code, CodeFormat, Function, Kind, KindError, Network};
pub use id::{ActivationId, ActivationIdError, InstanceId};
pub use limits::{FunctionLimits, LimitBounds, LimitError, NamespaceLimits};
pub use log_line::{LogLine, LogStream};
pub use name::{EntityName, FunctionPath, NameError, NamespaceName};
pub use namespace::{ApiKey, Identity, KeyId, KeyRecord, Namespace, SecretHash};
pub use parameters::{Annotations, Parameter, Parameters};
pub use snapshot::{Jit, SnapshotOptions, SnapshotOptionsError, WarmupEvent};
pub use snapshot_report::{SnapshotReport, WarmedFunction};
pub use strategy::{Contract, Isolation, Reuse, Start, Strategy, StrategyError, StrategyRequest};
pub use time::Timestamp;
pub use timeline::Timeline;
pub use version::{Version, VersionError};
pub use wasm::{HostPattern, HostPatternError, HttpScheme, WasmOptions, WasmOptionsError};
