//! The OpenWhisk REST API: a translation between its wire format and the controller, with no logic of its own.
//!
//! [`router`] answers every path that no other front claims. [`parse`] has the readers of outside bytes, pure functions that
//! a fuzzer can drive. Packages, triggers, rules, sequences and web actions have their place in [`mod@later`] until a later
//! version brings them.

#![forbid(unsafe_code)]

mod actions;
mod activations;
mod basic_auth;
mod front;
mod info;
mod invoke;
mod later;
pub mod parse;
mod refusal;
mod reply;
mod request;
mod show;
mod transaction;

pub use front::{FrontConfig, router};
