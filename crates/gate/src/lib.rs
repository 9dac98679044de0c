//! Gives functions access to the server's own API from inside sandboxes that reach nothing else.
//!
//! A *gate* is a socket that listens on the loopback of one sandbox's network namespace and belongs to the
//! server. Whatever connects to it is in that sandbox, so the gate knows for which namespaces the sandbox
//! works, and admits no other namespace's key. It lives as long as the sandbox.
//!
//! Code that runs in the server's own process has no network namespace to listen in. Its host carries its
//! requests to a [`DirectGate`], an object of that one guest instead of a socket, and otherwise the same.
//!
//! This crate accepts, limits and ends connections; it knows no API. Whoever composes the server provides one
//! ([`Gates::serve`]), which asks the [`Gate`] among a request's extensions for whom it may answer.

#![forbid(unsafe_code)]

mod bound;
mod config;
mod connection;
mod direct;
mod gates;
mod patient;

pub use bound::{Admission, Gate, Running};
pub use config::GateConfig;
pub use direct::DirectGate;
pub use gates::Gates;
