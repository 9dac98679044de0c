//! What can go wrong in a store.

use std::path::PathBuf;

use flint_model::ByteSize;

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else wrote first, or what had to be absent is there.
    #[error("the entity was changed by another request; read it again and repeat")]
    Conflict,
    /// There are as many already as there may be.
    #[error("there are {allowed} already, and more are not allowed")]
    TooMany {
        /// How many there may be.
        allowed: usize,
    },
    /// What was to be listed is larger than whoever asked has room for.
    #[error("the list takes more than {allowed}: ask for fewer of its entities at once")]
    ListTooLarge {
        /// How large it may be.
        allowed: ByteSize,
    },
    /// What was to be written belongs to a namespace that is not there. Nothing was written.
    #[error("the namespace '{0}' does not exist; it may have been deleted meanwhile")]
    NoNamespace(String),
    /// The disk, or the quota, is full. Nothing was written.
    #[error("no space left for {what}: free space on the volume of the data directory, or lower retention")]
    Full {
        /// What was being written.
        what: String,
    },
    /// What is stored cannot be read back.
    #[error("{path} is damaged: {detail}. Stop Flint, then restore the last backup with `flint restore`")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// Another server uses the same data directory.
    #[error(
        "{path} is in use by another Flint server (pid {pid}): stop it, or give this one its own --data-dir"
    )]
    InUse {
        /// The data directory.
        path: PathBuf,
        /// The other server's process id; 0 when unknown.
        pid: u32,
    },
    /// Written by a newer Flint.
    #[error(
        "the data is in format {found}, this Flint reads up to {known}: run the newer Flint, or restore a backup"
    )]
    TooNew {
        /// The format found.
        found: u32,
        /// The newest format this build knows.
        known: u32,
    },
    /// Anything else: the operation and what the driver said.
    #[error("{operation} failed: {detail}")]
    Failed {
        /// What was being done.
        operation: &'static str,
        /// What the driver said.
        detail: String,
    },
}
