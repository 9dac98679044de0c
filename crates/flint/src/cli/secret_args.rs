//! The options of `flint secret`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use flint_model::SecretName;

use super::DataArgs;

#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    #[command(subcommand)]
    pub(crate) command: SecretCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Create or replace a secret; its value comes from stdin or a file, never from the command line
    Set {
        /// Its name
        name: SecretName,
        /// Read the value from this file instead of stdin
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Keep a line end at the end of the value
        #[arg(long)]
        raw: bool,
    },
    /// List the secrets, without their values
    #[command(visible_alias = "ls")]
    List,
    /// Delete a secret
    Rm {
        /// Its name
        name: SecretName,
    },
    /// Make another key, and encrypt every secret of every namespace with it (operator)
    RotateKey {
        #[command(flatten)]
        data: DataArgs,
    },
}
