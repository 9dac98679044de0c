//! The host's side of WASI: what a guest can see and do.
//!
//! Nothing is granted by default. Without grants a guest has clocks, random numbers, an environment with the
//! function's variables only, and streams that end in its activation's log. [`Grants`] add to that for a
//! function; a [`Host`] is the state of one call.

mod assets;
mod context;
mod error;
mod files;
mod grants;
mod http;
mod key_value;
mod linker;
mod lists;
mod logs;
mod no_files;
mod polls;
mod turns;
mod unchanged;

pub(crate) use self::linker::{add_0_3_to_linker, add_p1_to_linker, add_to_linker};
pub use self::{
    assets::{ASSETS, Disk, PackageArchive, PackageBounds, PackageError},
    context::{AsHost, CallSeed, Host},
    files::OpenFiles,
    grants::{Grants, Services},
    http::{HttpBounds, HttpClient, Reach},
    logs::{LogSink, LoggedStream},
    turns::ValueTurns,
};
