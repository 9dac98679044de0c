//! Linux isolation primitives: namespaces, cgroups v1 and v2, seccomp, Landlock, a minimal root file system
//! and per-sandbox networks. It knows nothing about functions.
//!
//! The server talks to a **launcher**: its own executable, started again as a small single-threaded process that makes every
//! sandbox. A program that uses this crate calls [`launcher_entry`] as the first line of `main`, then [`Launcher::spawn`],
//! [`Launcher::start`], and holds [`Sandbox`]es.

mod announcements;
mod cell;
mod cgroup;
mod code_image;
mod connection;
mod descriptors;
mod error;
mod fence;
mod fresh;
mod handle;
mod inside;
mod inspect;
mod launcher;
mod net;
mod open_files;
mod outcome;
mod probe;
mod root;
mod sandbox;
mod seal;
mod seccomp;
mod spawner;
mod spec;
mod state;
mod sweep;
mod sys;
mod text;
mod wire;

pub use cell::{Cell, CellSpec, TMP_FD};
pub use code_image::CodeImage;
pub use error::{Error, Result};
pub use handle::Launcher;
pub use open_files::raise_open_files;
pub use outcome::{Exit, ExitStatus, Usage};
pub use probe::{Probe, ProbeState, probe};
pub use sandbox::Sandbox;
pub use seal::{SealSpec, Sealed};
pub use spawner::{Ended, Program, Spawner};
pub use spec::{LauncherConfig, Mount, Network, ResourceLimits, SandboxIo, SandboxSpec};
pub use sweep::{SweepReport, sweep};
pub use text::check_text;

/// Reads any bytes as the reports of a sandbox's pid 1 and as the messages on a spawner's link; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_messages(bytes: &[u8]) {
    let _ = inside::report::parse(bytes);
    let _ = spawner::Answer::parse(bytes).map(Ended::from);
    let Some(request) = spawner::Request::parse(bytes) else { return };
    for at in request.arguments.into_iter().chain(request.env) {
        let string = bytes.get(at..).map(std::ffi::CStr::from_bytes_until_nul);
        assert!(matches!(string, Some(Ok(_))), "no string that ends at {at}");
    }
}

/// Turns this process into the launcher if it was started as one, and then does not return; otherwise does
/// nothing. Must be the first line of `main`, before any thread exists.
pub fn launcher_entry() {
    launcher::entry();
}
