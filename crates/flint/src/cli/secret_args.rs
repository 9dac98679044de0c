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
    /// Create or replace a secret; its value is read from stdin or a file, never from the command line
    Set {
        /// Name of the secret
        name: SecretName,
        /// Read the value from this file instead of stdin
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Keep a trailing newline in the value
        #[arg(long)]
        raw: bool,
    },
    /// List secrets, without their values
    #[command(visible_alias = "ls")]
    List,
    /// Delete a secret
    Rm {
        /// Name of the secret
        name: SecretName,
    },
    /// Create a new key and re-encrypt the secrets of all namespaces with it (operator)
    RotateKey {
        #[command(flatten)]
        data: DataArgs,
    },
}
