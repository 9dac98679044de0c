//! The options of `flint sequence`.

use clap::{Args, Subcommand};

use super::{RetryArgs, values};

#[derive(Debug, Args)]
pub(crate) struct SequenceArgs {
    #[command(subcommand)]
    pub(crate) command: SequenceCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SequenceCommand {
    /// Create a sequence; call it with `flint invoke`
    Create {
        /// Name of the sequence
        #[arg(value_parser = values::name)]
        name: String,
        /// Functions and sequences to call in order, separated by commas
        #[arg(value_delimiter = ',', required = true, value_parser = values::name)]
        components: Vec<String>,
        /// Replace an existing sequence
        #[arg(long)]
        update: bool,
        #[command(flatten)]
        retry: RetryArgs,
    },
    /// List sequences
    #[command(visible_alias = "ls")]
    List {
        /// Maximum number of entries [default: all]
        #[arg(short = 'n', long)]
        limit: Option<usize>,
        /// Number of entries to skip
        #[arg(long, default_value_t = 0)]
        skip: usize,
    },
    /// Show a sequence
    Get {
        /// Name of the sequence
        #[arg(value_parser = values::name)]
        name: String,
    },
    /// Delete a sequence; the functions it calls stay
    Rm {
        /// Name of the sequence
        #[arg(value_parser = values::name)]
        name: String,
    },
}
