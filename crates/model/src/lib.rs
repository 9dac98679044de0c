//! The vocabulary of Flint: names, functions, limits, activations and outcomes.
//!
//! Nothing here does I/O. An invalid name, version or limit cannot be constructed: every type that comes from
//! outside has a `parse` that says what is wrong.

#![forbid(unsafe_code)]

mod activation;
mod address;
mod alias;
mod api;
mod byte_size;
mod digest;
mod duration;
mod entity;
mod feed;
mod fired_rule;
mod function;
mod id;
mod keyed;
mod lenient;
mod limits;
mod log_line;
mod name;
mod namespace;
mod nats;
mod package;
mod parameters;
mod retry;
mod rule;
mod secret;
mod sequence;
mod snapshot;
mod snapshot_report;
mod splitmix;
mod strategy;
mod time;
mod timeline;
mod trigger;
mod version;
mod wasm;

pub use activation::{Activation, Attempt, Response, Status, Usage};
pub use address::is_public_address;
pub use alias::{Alias, AliasError, AliasName, AliasTarget, Qualifier, drawn};
pub use api::{Api, Operation};
pub use byte_size::{ByteSize, ByteSizeError};
pub use digest::{Digest, DigestError};
pub use duration::{parse_duration, show_duration};
pub use entity::{Collection, Entity};
pub use feed::{Date, Feed, FeedPayload, FeedSource, FeedState, ThenDelete};
pub use fired_rule::{FiredRule, RuleOutcome};
pub use function::{Code, CodeFormat, Function, Kind, KindError, Network};
pub use id::{ActivationId, ActivationIdError, InstanceId, hex};
pub use keyed::{KeySet, last_wins};
pub use lenient::lenient_text;
pub use limits::{
    FunctionLimits, ImpossibleLimits, KeepWarm, LimitBounds, LimitError, NamespaceLimits,
    NamespaceLimitsError,
};
pub use log_line::{LogLine, LogStream};
pub use name::{EntityName, EntityPath, FunctionPath, NameError, NamespaceName};
pub use namespace::{ApiKey, Identity, KeyId, KeyRecord, Namespace, SecretHash};
pub use nats::{Deliver, NatsLogin, NatsServer, NatsServerError, NatsSource, StreamPosition};
pub use package::Package;
pub use parameters::{Annotations, Parameter, Parameters};
pub use retry::{DeadLetterReason, FailureKind, FailureKinds, RetryError, RetryOptions, RetryPolicy};
pub use rule::{Rule, RuleStatus, RuleStatusError};
pub use secret::{SealedSecret, SecretBinding, SecretError, SecretName};
pub use sequence::Sequence;
pub use snapshot::{Jit, SnapshotOptions, SnapshotOptionsError, WarmupEvent};
pub use snapshot_report::{SnapshotReport, WarmedFunction};
pub use strategy::{Contract, Isolation, Reuse, Start, Strategy, StrategyError, StrategyRequest};
pub use time::{Timestamp, now_us};
pub use timeline::Timeline;
pub use trigger::Trigger;
pub use version::{Version, VersionError};
pub use wasm::{HostPattern, HostPatternError, HttpScheme, WasmOptions, WasmOptionsError};
