//! The OpenWhisk REST API: translates between its wire format and the controller, without logic of its own.
//!
//! [`router`] serves every path that no other front claims, [`router_inside`] the requests of functions from
//! their sandboxes. [`parse`] contains the parsers of untrusted bytes, pure functions that a fuzzer can
//! drive. Web actions are in [`mod@web`]. Everything else, such as firing triggers, is in the controller.

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

pub use flint_request_body::{Arriving, Uploads};
pub use front::{Front, FrontConfig, router};
pub use inside::router_inside;
pub use vanity::web_path;
