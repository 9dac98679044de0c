//! The host's side of WASI: what a guest can see and do.
//!
//! Nothing is granted by default. Without grants a guest has clocks, random numbers, an empty environment but for what the function
//! defines, and streams that end in its activation's log. [`Grants`] say what a function has beyond that; a [`Host`] is what one call has of it.

mod assets;
mod context;
mod error;
mod files;
mod grants;
mod http;
mod key_value;
mod linker;
mod logs;

pub(crate) use self::linker::{add_0_3_to_linker, add_p1_to_linker, add_to_linker};
pub use self::{
    assets::{ASSETS, Disk, PackageArchive, PackageBounds, PackageError},
    context::{AsHost, CallSeed, Host},
    files::OpenFiles,
    grants::{Grants, Services},
    http::{HttpBounds, HttpClient, Reach},
    logs::{LogSink, LoggedStream},
};
