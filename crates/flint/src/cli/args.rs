//! Every command and option. The help texts here are the reference that `docs/cli.md` explains.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::{
    AliasArgs, ApiArgs, BenchArgs, DeadLetterArgs, DeployArgs, DevArgs, InvokeArgs, NamespaceArgs,
    PackageArgs, RollbackArgs, RuleArgs, SecretArgs, SequenceArgs, TriggerArgs, UndeployArgs, UrlArgs,
    VersionsArgs, values,
};
use crate::project::Template;

/// Run functions: deploy code in any language, call it, see what happened.
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
    after_help = "Exit codes: 0 done · 1 the function failed · 2 wrong usage · 3 no server answers · 4 refused by the server · 5 trouble on this machine"
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
    /// The server
    #[arg(
        long,
        global = true,
        env = "FLINT_URL",
        default_value = "http://127.0.0.1:3233",
        help_heading = "Global options"
    )]
    pub(crate) url: String,
    /// The key, `uuid:secret`; otherwise the file ~/.config/flint/auth, and on loopback the guest key
    #[arg(long, global = true, env = "FLINT_AUTH", hide_env_values = true, help_heading = "Global options")]
    pub(crate) auth: Option<String>,
    /// JSON instead of tables
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the server
    Up(UpArgs),
    /// Write a small function to start from
    Init(InitArgs),
    /// Deploy a function: a file, a directory or an archive; or a whole project from its manifest
    Deploy(DeployArgs),
    /// Delete what a manifest names
    Undeploy(UndeployArgs),
    /// Call a function
    Invoke(InvokeArgs),
    /// List the functions
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a function
    Get(GetArgs),
    /// List the versions of a function that can be called, and what names them
    Versions(VersionsArgs),
    /// Make an earlier version of a function what calls get
    Rollback(RollbackArgs),
    /// Manage aliases: names for versions, which spread calls over several
    Alias(AliasArgs),
    /// Print where a function is called over HTTP
    Url(UrlArgs),
    /// Manage APIs: paths and methods in front of web actions
    Api(ApiArgs),
    /// Show what functions logged
    Logs(LogsArgs),
    /// List what ran
    Activations(ActivationsArgs),
    /// Show, redrive and remove non-blocking calls that failed for good
    Dlq(DeadLetterArgs),
    /// Delete functions
    Rm(RmArgs),
    /// Deploy and call on every save
    Dev(DevArgs),
    /// Show what this host can and cannot run, and why
    Doctor(DoctorArgs),
    /// Explain how a function runs and why, or where the time of an activation went
    Explain(ExplainArgs),
    /// List every configuration key, its value and where that comes from
    Config(ConfigArgs),
    /// Run experiments of the laboratory, or put load on a function or a URL
    Bench(BenchArgs),
    /// Copy a server's data, also while it runs
    Backup(BackupArgs),
    /// Put a copy back; the server must be stopped
    Restore(RestoreArgs),
    /// Manage secrets: what functions are given and nobody is shown
    Secret(SecretArgs),
    /// Manage sequences: functions called one after the other
    Sequence(SequenceArgs),
    /// Manage packages: functions that share arguments, and are shared with others
    Package(PackageArgs),
    /// Manage triggers, and fire them
    Trigger(TriggerArgs),
    /// Manage rules: which trigger calls which function
    Rule(RuleArgs),
    /// Manage namespaces and their keys
    Namespace(NamespaceArgs),
    /// Print a script that completes commands in your shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Where the server's data and configuration are.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DataArgs {
    /// Where the server keeps its data [default: /var/lib/flint for root, otherwise ~/.local/share/flint]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// A configuration file (TOML); `flint config` lists its keys
    #[arg(long, value_name = "FILE", env = "FLINT_CONFIG", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Set any configuration key, for example --set limits.invocations_per_minute=600
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
    /// Its language
    #[arg(long)]
    pub(crate) lang: Template,
    /// Where: a directory that is made, or an empty one [default: hello-LANG]
    pub(crate) directory: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// At most this many
    #[arg(short = 'n', long, default_value_t = 200)]
    pub(crate) limit: usize,
    /// Leave out this many
    #[arg(long, default_value_t = 0)]
    pub(crate) skip: usize,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The function
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
    /// Write its code to this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// A function or an activation; absent = all functions
    #[arg(value_name = "FUNCTION|ID", value_parser = values::name)]
    pub(crate) of: Option<String>,
    /// Keep printing as calls end
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,
    /// Of the latest N activations
    #[arg(short = 'n', long, default_value_t = 10)]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ActivationsArgs {
    /// Only of this function
    #[arg(value_parser = values::name)]
    pub(crate) function: Option<String>,
    /// At most this many
    #[arg(short = 'n', long, default_value_t = 30)]
    pub(crate) limit: usize,
    /// Leave out this many
    #[arg(long, default_value_t = 0)]
    pub(crate) skip: usize,
}

#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// The functions
    #[arg(required = true, value_parser = values::name)]
    pub(crate) names: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Ask the server at --url about its host instead of looking at this one
    #[arg(long)]
    pub(crate) remote: bool,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A function's name or an activation's id
    #[arg(value_name = "FUNCTION|ID", value_parser = values::name)]
    pub(crate) what: String,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Only keys that contain this
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// A directory that does not exist yet, or is empty, outside of the data directory
    pub(crate) target: PathBuf,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A directory that `flint backup` made
    pub(crate) source: PathBuf,
    /// Replace data that is there; it is kept beside under another name
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}
