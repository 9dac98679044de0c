//! The way of functions to the server's own API, from inside of sandboxes that reach nothing else.
//!
//! A *gate* is a socket that listens on the loopback of one sandbox's network and is held by the server. What comes in there comes from that sandbox and
//! from nowhere else, so the gate knows on whose account the sandbox works, and lets in nobody else's key. It lives as long as the sandbox.
//!
//! Code that runs in the server's own process has no sandbox, and no network that could be listened in. Its host carries its requests to a [`DirectGate`], which
//! is an object of that one guest instead of a socket, and otherwise the same.
//!
//! This crate accepts, bounds and ends connections; it knows no API. Whoever composes the server says what answers ([`Gates::serve`]), and that asks the
//! [`Gate`], which is among a request's extensions, for whom it may be answered.

#![forbid(unsafe_code)]

mod bound;
mod config;
mod connection;
mod direct;
mod gates;
mod patient;
mod places;

pub use bound::{Admission, Gate, Running};
pub use config::GateConfig;
pub use direct::DirectGate;
pub use gates::Gates;
