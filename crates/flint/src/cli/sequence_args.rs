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
    /// Create a sequence; `flint invoke` calls it
    Create {
        /// Its name
        #[arg(value_parser = values::name)]
        name: String,
        /// What it calls, in order: names of functions and sequences, with commas between them
        #[arg(value_delimiter = ',', required = true, value_parser = values::name)]
        components: Vec<String>,
        /// Replace what has that name
        #[arg(long)]
        update: bool,
        #[command(flatten)]
        retry: RetryArgs,
    },
    /// List the sequences
    #[command(visible_alias = "ls")]
    List {
        /// At most this many; absent = all
        #[arg(short = 'n', long)]
        limit: Option<usize>,
        /// Leave out this many
        #[arg(long, default_value_t = 0)]
        skip: usize,
    },
    /// Show a sequence
    Get {
        /// Its name
        #[arg(value_parser = values::name)]
        name: String,
    },
    /// Delete a sequence; what it calls stays
    Rm {
        /// Its name
        #[arg(value_parser = values::name)]
        name: String,
    },
}
