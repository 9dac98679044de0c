//! The OpenWhisk REST API: a translation between its wire format and the controller, with no logic of its own.
//!
//! [`router`] answers every path that no other front claims, [`router_inside`] what functions ask for from their sandboxes. [`parse`] has the readers of outside bytes, pure functions that
//! a fuzzer can drive. Web actions are in [`mod@web`]. What a fired trigger
//! does is in the controller, as everything else is.

#![forbid(unsafe_code)]

mod actions;
mod activations;
mod basic_auth;
mod description;
mod front;
mod gateway;
mod info;
mod inside;
mod invoke;
mod packages;
pub mod parse;
mod refusal;
mod reply;
mod request;
mod rules;
mod show;
mod transaction;
mod triggers;
mod vanity;
mod web;

pub use front::{Front, FrontConfig, router};
pub use inside::router_inside;
pub use vanity::web_path;
