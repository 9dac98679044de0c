//! Language runtimes in sandboxes: found on the host ([`discover`]), given prepared code ([`prepare`]), started with Flint's shim and
//! called over the link ([`handler`]). Executors that run functions of contract `handler` stand on this crate; how an instance comes to
//! be is theirs.
//!
//! [`House`] is what is the same for all functions. What calls use is measured by the rules in [`process::meter`].

#![forbid(unsafe_code)]

mod charge;
mod config;
pub mod discover;
pub mod disk_usage;
mod go;
pub mod handler;
mod held;
mod house;
mod java;
pub mod json;
pub mod outcome;
pub mod prepare;
pub mod process;
mod python;
mod shims;
pub mod stems;

pub use charge::Charge;
pub use config::{HouseConfig, HouseError, UnpackLimits};
pub use house::{House, Nursery, Unpacking};

#[cfg(feature = "fuzzing")]
pub use prepare::fuzz_unpack;
