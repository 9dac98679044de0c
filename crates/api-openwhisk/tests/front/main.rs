//! The tests of the front, in one program: a file for each would be linked for longer than it runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod actions;
mod activations;
mod conventions;
mod gateway;
mod info;
mod inside;
mod invoke;
mod limits;
mod packages;
mod refused_for_now;
mod sequences;
mod strategies;
mod system;
mod triggers;
mod web;
mod web_messages;
mod wire;
