//! The options of `flint dlq`.

use clap::{Args, Subcommand};
use flint_model::ActivationId;

use super::values;

#[derive(Debug, Args)]
pub(crate) struct DeadLetterArgs {
    #[command(subcommand)]
    pub(crate) command: DeadLetterCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetterCommand {
    /// List dead letters, the latest first
    #[command(visible_alias = "ls")]
    List {
        /// Only calls of this function
        #[arg(long, value_name = "NAME", value_parser = values::name)]
        function: Option<String>,
        /// Maximum number of entries
        #[arg(short = 'n', long, default_value_t = 100)]
        limit: usize,
        /// Number of entries to skip
        #[arg(long, default_value_t = 0)]
        skip: usize,
    },
    /// Show a dead letter with its arguments and attempts
    Get {
        /// ID of the dead letter: that of its activation
        id: ActivationId,
    },
    /// Call dead letters again; each new call is durable once reported
    Redrive {
        #[command(flatten)]
        which: WhichLetters,
    },
    /// Delete dead letters
    Rm {
        #[command(flatten)]
        which: WhichLetters,
    },
}

/// Some dead letters.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct WhichLetters {
    /// IDs of the dead letters
    #[arg(conflicts_with_all = ["all", "function"])]
    pub(crate) ids: Vec<ActivationId>,
    /// All dead letters
    #[arg(long, conflicts_with = "function")]
    pub(crate) all: bool,
    /// All dead letters of this function
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub(crate) function: Option<String>,
}
