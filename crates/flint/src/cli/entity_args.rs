//! The options of `flint package`, `flint trigger` and `flint rule`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::values;

/// What packages and triggers have in common.
#[derive(Debug, Args)]
pub(crate) struct EntityOptions {
    /// Default argument; V is JSON or text. Repeatable
    #[arg(short = 'p', long = "param", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) params: Vec<(String, Value)>,
    /// Annotation; V is JSON or text. Repeatable
    #[arg(short = 'a', long = "annotation", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) annotations: Vec<(String, Value)>,
    /// Update an existing entity: if given, arguments replace all old arguments, and annotations all old annotations
    #[arg(long)]
    pub(crate) update: bool,
}

/// Which part of a list.
#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Maximum number of entries
    #[arg(short = 'n', long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) limit: u16,
    /// Number of entries to skip
    #[arg(long, default_value_t = 0)]
    pub(crate) skip: usize,
}

#[derive(Debug, Args)]
pub(crate) struct PackageArgs {
    #[command(subcommand)]
    pub(crate) command: PackageCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PackageCommand {
    /// Create a package
    Create {
        /// Name of the package
        name: String,
        #[command(flatten)]
        options: EntityOptions,
        /// Allow everyone to read the package, bind to it and call its functions; --shared=false revokes this
        #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
        shared: Option<bool>,
    },
    /// Bind another package under a name and with arguments of your own
    Bind {
        /// Package to bind: NAME, or /NAMESPACE/NAME of a shared one
        provider: String,
        /// Name of the binding
        name: String,
        #[command(flatten)]
        options: EntityOptions,
    },
    /// Show a package and its contents
    Get {
        /// The package: NAME, or /NAMESPACE/NAME of a shared one
        name: String,
    },
    /// List packages
    #[command(visible_alias = "ls")]
    List {
        /// Namespace to list; of another one only shared packages are visible [default: your own]
        #[arg(value_parser = values::name)]
        namespace: Option<String>,
        #[command(flatten)]
        page: ListOptions,
    },
    /// Delete a package
    #[command(visible_alias = "rm")]
    Delete {
        /// The package
        name: String,
        /// Delete the package's contents too
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TriggerArgs {
    #[command(subcommand)]
    pub(crate) command: TriggerCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TriggerCommand {
    /// Create a trigger
    Create {
        /// Name of the trigger
        name: String,
        /// Feed that fires the trigger, for example /whisk.system/alarms/alarm; --param then sets the feed's arguments
        #[arg(long, value_name = "ACTION")]
        feed: Option<String>,
        #[command(flatten)]
        options: EntityOptions,
    },
    /// Show a trigger with its feed, next firing and rules
    Get {
        /// The trigger
        name: String,
    },
    /// List triggers
    #[command(visible_alias = "ls")]
    List(ListOptions),
    /// Pause a trigger's feed
    Pause {
        /// The trigger
        name: String,
    },
    /// Resume a trigger's feed, from now on
    Resume {
        /// The trigger
        name: String,
    },
    /// Delete a trigger and its feed; its rules stay, inactive
    #[command(visible_alias = "rm")]
    Delete {
        /// The trigger
        name: String,
    },
    /// Fire a trigger: call the functions of its active rules
    Fire {
        /// The trigger
        name: String,
        /// Argument; V is JSON or text. Repeatable
        #[arg(short = 'p', long = "param", value_name = "K=V", value_parser = values::parameter)]
        params: Vec<(String, Value)>,
        /// File with a JSON object of arguments; `-` is stdin. --param overrides it
        #[arg(short = 'P', long = "param-file", value_name = "FILE")]
        param_file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RuleArgs {
    #[command(subcommand)]
    pub(crate) command: RuleCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RuleCommand {
    /// Create a rule: when TRIGGER fires, call FUNCTION
    Create {
        /// Name of the rule
        name: String,
        /// The trigger
        trigger: String,
        /// The function: NAME, PACKAGE/NAME, or /NAMESPACE/PACKAGE/NAME of a shared one
        #[arg(value_parser = values::name)]
        function: String,
        /// Update an existing rule
        #[arg(long)]
        update: bool,
    },
    /// Show a rule
    Get {
        /// The rule
        name: String,
    },
    /// List rules
    #[command(visible_alias = "ls")]
    List(ListOptions),
    /// Enable a rule
    Enable {
        /// The rule
        name: String,
    },
    /// Disable a rule, so that it no longer calls its function
    Disable {
        /// The rule
        name: String,
    },
    /// Delete a rule
    #[command(visible_alias = "rm")]
    Delete {
        /// The rule
        name: String,
    },
}
