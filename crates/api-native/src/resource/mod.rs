//! The API's wire types: every request and response, shared with clients written in Rust (the `flint` command
//! line).

mod activation;
mod call;
mod dead_letter;
mod deploy;
mod error;
mod explain;
mod function;
mod limits;
mod namespace;
mod retry;
mod secret;
mod sequence;
mod server;
mod snapshot;
mod version;
mod wasm;

pub use activation::{ActivationList, ActivationResource, AttemptResource, StatusWord, UsageResource};
pub use call::{CallResource, CallStateWord};
pub use dead_letter::{
    DeadLetterList, DeadLetterResource, RedriveRequest, RedriveResult, RedrivenResource, RemovedLetters,
};
pub use deploy::{CodeUpload, DeployRequest, DeployResult, ParameterResource, ProgressLine};
pub use error::{ErrorBody, ErrorDetail};
pub use explain::{FunctionExplanation, StrategyVerdict};
pub use function::{AskedResource, CodeResource, FunctionList, FunctionResource, StrategyResource};
pub use limits::{LimitsPatch, LimitsResource};
pub use namespace::{KeyCreated, KeyResource, NamespaceCreate, NamespacePatch, NamespaceResource};
pub use retry::RetryResource;
pub use secret::{RotatedKey, SecretList, SecretResource};
pub use sequence::{SequenceList, SequenceRequest, SequenceResource};
pub use server::{AbilityResource, AbilityState, DoctorReport, Health, RuntimeResource};
pub use snapshot::{
    PreparedResource, SnapshotReportResource, SnapshotRequest, SnapshotResource, WarmedFunctionResource,
    WarmupEventResource,
};
pub use version::{
    AliasRequest, AliasResource, AliasTargetResource, RollbackRequest, VersionList, VersionResource,
};
pub use wasm::WasmResource;
