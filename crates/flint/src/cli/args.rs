//! Every command and option. The help texts here are the reference that `docs/cli.md` explains.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::{
    AliasArgs, ApiArgs, BenchArgs, DeadLetterArgs, DeployArgs, DevArgs, InvokeArgs, NamespaceArgs,
    PackageArgs, RollbackArgs, RuleArgs, SecretArgs, SequenceArgs, TriggerArgs, UndeployArgs, UrlArgs,
    VersionsArgs, values,
};
use crate::project::Template;

/// Deploy functions in any language, call them and inspect what happened.
#[derive(Debug, Parser)]
#[command(
    name = "flint",
    // What is hinted at is told by the usage, however the program is called.
    bin_name = "flint",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 110
)]
#[command(
    after_help = "Exit codes: 0 done · 1 the function failed · 2 wrong usage · 3 no server answers · 4 refused by the server · 5 a problem on this machine"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// URL of the server
    #[arg(
        long,
        global = true,
        env = "FLINT_URL",
        default_value = "http://127.0.0.1:3233",
        help_heading = "Global options"
    )]
    pub(crate) url: String,
    /// API key, `uuid:secret` [default: the file ~/.config/flint/auth, else on loopback the guest key]
    #[arg(long, global = true, env = "FLINT_AUTH", hide_env_values = true, help_heading = "Global options")]
    pub(crate) auth: Option<String>,
    /// Print JSON instead of tables
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    Up(UpArgs),
    /// Create a small function to start from
    Init(InitArgs),
    /// Deploy a function (a file, directory or archive), or a whole project from its manifest
    Deploy(DeployArgs),
    /// Delete the entities that a manifest names
    Undeploy(UndeployArgs),
    /// Call a function
    Invoke(InvokeArgs),
    /// List functions
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a function
    Get(GetArgs),
    /// List the callable versions of a function and their aliases
    Versions(VersionsArgs),
    /// Roll a function back to an earlier version
    Rollback(RollbackArgs),
    /// Manage aliases: names for versions, with calls split between several by weight
    Alias(AliasArgs),
    /// Print the HTTP address of a function
    Url(UrlArgs),
    /// Manage APIs: paths and methods in front of web actions
    Api(ApiArgs),
    /// Show the logs of functions
    Logs(LogsArgs),
    /// List activations
    Activations(ActivationsArgs),
    /// Show, redrive and delete dead letters: asynchronous calls that failed permanently
    Dlq(DeadLetterArgs),
    /// Delete functions
    Rm(RmArgs),
    /// Deploy and call a function on every save
    Dev(DevArgs),
    /// Show what this host can and cannot run, and why
    Doctor(DoctorArgs),
    /// Explain how a function runs and why, or where an activation's time went
    Explain(ExplainArgs),
    /// List every configuration key with its value and origin
    Config(ConfigArgs),
    /// Run benchmark experiments, or load-test a function or URL
    Bench(BenchArgs),
    /// Back up a server's data, even while it runs
    Backup(BackupArgs),
    /// Restore a backup; the server must be stopped
    Restore(RestoreArgs),
    /// Manage secrets: values that functions receive and that are never shown
    Secret(SecretArgs),
    /// Manage sequences of functions, called one after the other
    Sequence(SequenceArgs),
    /// Manage packages: functions with common arguments, which can be shared
    Package(PackageArgs),
    /// Manage and fire triggers
    Trigger(TriggerArgs),
    /// Manage rules: which trigger calls which function
    Rule(RuleArgs),
    /// Manage namespaces and their keys
    Namespace(NamespaceArgs),
    /// Print a completion script for your shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Where the server's data and configuration are.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DataArgs {
    /// The server's data directory [default: /var/lib/flint for root, otherwise ~/.local/share/flint]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// Configuration file (TOML); `flint config` lists its keys
    #[arg(long, value_name = "FILE", env = "FLINT_CONFIG", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Set any configuration key, for example --set limits.invocations_per_minute=600. Repeatable
    #[arg(long, value_name = "KEY=VALUE", global = true)]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Address and port to listen on [default: 127.0.0.1:3233]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Language of the function
    #[arg(long)]
    pub(crate) lang: Template,
    /// Directory to create, or an empty one [default: hello-LANG]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Maximum number of entries
    #[arg(short = 'n', long, default_value_t = 200)]
    pub(crate) limit: usize,
    /// Number of entries to skip
    #[arg(long, default_value_t = 0)]
    pub(crate) skip: usize,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The function
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
    /// Write the function's code to this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// A function or an activation [default: all functions]
    #[arg(value_name = "FUNCTION|ID", value_parser = values::name)]
    pub(crate) of: Option<String>,
    /// Keep printing logs as calls end
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,
    /// Show the logs of the latest N activations
    #[arg(short = 'n', long, default_value_t = 10)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ActivationsArgs {
    /// Only activations of this function
    #[arg(value_parser = values::name)]
    pub(crate) function: Option<String>,
    /// Maximum number of entries
    #[arg(short = 'n', long, default_value_t = 30)]
    pub(crate) limit: usize,
    /// Number of entries to skip
    #[arg(long, default_value_t = 0)]
    pub(crate) skip: usize,
}

#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// Functions to delete
    #[arg(required = true, value_parser = values::name)]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Ask the server at --url about its host instead of checking this one
    #[arg(long)]
    pub(crate) remote: bool,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A function name or an activation ID
    #[arg(value_name = "FUNCTION|ID", value_parser = values::name)]
    pub(crate) what: String,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Only keys that contain this text
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// New or empty directory for the backup, outside the data directory
    pub(crate) target: PathBuf,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Directory created by `flint backup`
    pub(crate) source: PathBuf,
    /// Replace existing data; the old data is kept beside it under another name
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}
