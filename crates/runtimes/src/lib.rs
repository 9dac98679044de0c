//! Language runtimes in sandboxes: found on the host ([`discover`]), given prepared code ([`prepare`]),
//! started with Flint's shim and called over the link ([`handler`]). The executors that run contract
//! `handler` build on this crate; how an instance is made is up to them.
//!
//! [`House`] is what all functions share. [`process::meter`] says how the usage of calls is measured.

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
pub use java::fuzz_java;
#[cfg(feature = "fuzzing")]
pub use prepare::fuzz_unpack;
#[cfg(feature = "fuzzing")]
pub use python::fuzz_byte_code;
