//! Use cases, independent of wire protocols: authentication ([`Controller::authenticate`]), functions
//! ([`Controller::put_function`]), calls ([`Controller::invoke`]) and their records. Fronts translate to and
//! from it and have no logic of their own.
//!
//! The path of a call: `invoke.rs` (admission) → `call.rs` (one attempt) → `outcome.rs` (its meaning) →
//! `record.rs` (the activation record). Accepted calls go through `asynchronous/`.

#![forbid(unsafe_code)]

mod account;
mod actions;
mod address;
mod arguments;
mod aside;
mod asynchronous;
mod background;
mod behalf;
mod built_in;
mod call;
mod callable;
mod composition;
mod config;
mod controller;
mod credentials;
mod dead_letters;
mod deploy;
mod deploying;
mod detached;
mod entities;
mod error;
mod exported;
mod feeds;
mod function_cache;
mod functions;
mod gateway;
mod in_flight;
mod info;
mod invocation;
mod invoke;
mod json_body;
mod json_text;
mod kinds;
mod lists;
mod maintenance;
mod merge;
mod namespaces;
mod nested;
mod outcome;
mod outlived;
mod packages;
mod put;
mod record;
mod records;
mod remembered;
mod resolve;
mod rewarm;
mod rules;
mod secrets;
mod strategy;
mod system;
mod triggers;
mod turns;
mod versioned;
mod versions;
mod wasm;
mod weight;

pub use composition::PutSequence;
pub use config::{AsyncConfig, ControllerConfig, DeadLettersConfig, LimitsConfig};
pub use controller::{Controller, Stores};
pub use credentials::Caller;
pub use dead_letters::{Redriven, RedrivenAll};
pub use error::{ControllerError, ErrorKind};
pub use exported::Exported;
#[cfg(feature = "fuzzing")]
pub use feeds::fuzz_feed_arguments;
pub use feeds::{FeedsConfig, Missed};
pub use gateway::{DeleteApi, PutApi, Routed, Routing};
pub use info::{EffectiveLimits, HostState};
pub use invocation::{Accepts, Answer, HttpAnswer, Invocation, Mode};
pub use json_text::{allowed_around_code, check_json_text, largest_deploy};
pub use lists::{LARGEST_LIST, SMALL_LIST};
pub use namespaces::{GUEST_KEY, check_new_namespace};
pub use packages::{PackageContents, PutPackage};
pub use put::{Deployed, LimitsWish, PrepareWhen, PutCode, PutFunction, Unnamed};
pub use rules::PutRule;
pub use secrets::{NoSecretKeys, Rotated, SecretKey, SecretKeys, SecretsConfig};
pub use triggers::{Firing, PutTrigger, TriggerWithRules};
pub use versions::{History, VersionsConfig};
