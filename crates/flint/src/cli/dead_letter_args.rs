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
    /// List the calls that failed for good, the latest first
    #[command(visible_alias = "ls")]
    List {
        /// Only calls of this function
        #[arg(long, value_name = "NAME", value_parser = values::name)]
        function: Option<String>,
        /// At most this many
        #[arg(short = 'n', long, default_value_t = 100)]
        limit: usize,
        /// Leave out this many
        #[arg(long, default_value_t = 0)]
        skip: usize,
    },
    /// Show one with its arguments and attempts
    Get {
        /// Its id: the activation that it was
        id: ActivationId,
    },
    /// Call again what failed; each is durable when it is said to be redriven
    Redrive {
        #[command(flatten)]
        which: WhichLetters,
    },
    /// Forget what failed
    Rm {
        #[command(flatten)]
        which: WhichLetters,
    },
}

/// Some dead letters.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct WhichLetters {
    /// Their ids
    #[arg(conflicts_with_all = ["all", "function"])]
    pub(crate) ids: Vec<ActivationId>,
    /// All of them
    #[arg(long, conflicts_with = "function")]
    pub(crate) all: bool,
    /// Those that call this function
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    pub(crate) function: Option<String>,
}
