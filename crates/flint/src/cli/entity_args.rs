//! The options of `flint package`, `flint trigger` and `flint rule`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::values;

/// What packages and triggers have in common.
#[derive(Debug, Args)]
pub(crate) struct EntityOptions {
    /// A default argument, repeatable; V is JSON or text
    #[arg(short = 'p', long = "param", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) params: Vec<(String, Value)>,
    /// An annotation, repeatable; V is JSON or text
    #[arg(short = 'a', long = "annotation", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) annotations: Vec<(String, Value)>,
    /// Change what is there: arguments and annotations that are given replace all old ones, the others stay
    #[arg(long)]
    pub(crate) update: bool,
}

/// Which part of a list.
#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// At most this many
    #[arg(short = 'n', long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) limit: u16,
    /// Leave out this many
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
        /// Its name
        name: String,
        #[command(flatten)]
        options: EntityOptions,
        /// Let everybody read it, bind to it and call what is in it; --shared=false takes that back
        #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
        shared: Option<bool>,
    },
    /// Give another package a name and arguments of your own
    Bind {
        /// The other package: NAME, or /NAMESPACE/NAME of a shared one
        provider: String,
        /// The name here
        name: String,
        #[command(flatten)]
        options: EntityOptions,
    },
    /// Show a package and what is in it
    Get {
        /// NAME, or /NAMESPACE/NAME of a shared one
        name: String,
    },
    /// List the packages
    #[command(visible_alias = "ls")]
    List {
        /// Of this namespace, where only shared ones are seen [default: your own]
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
        /// With everything that is in it
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
        /// Its name
        name: String,
        /// What fires it: the feed's action, for example /whisk.system/alarms/alarm; then --param is for the feed
        #[arg(long, value_name = "ACTION")]
        feed: Option<String>,
        #[command(flatten)]
        options: EntityOptions,
    },
    /// Show a trigger, what fires it and when next, and its rules
    Get {
        /// The trigger
        name: String,
    },
    /// List the triggers
    #[command(visible_alias = "ls")]
    List(ListOptions),
    /// Keep a trigger's feed from firing it
    Pause {
        /// The trigger
        name: String,
    },
    /// Let a trigger's feed fire it again, from now on
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
    /// Fire a trigger: its active rules' functions are called
    Fire {
        /// The trigger
        name: String,
        /// An argument, repeatable; V is JSON or text
        #[arg(short = 'p', long = "param", value_name = "K=V", value_parser = values::parameter)]
        params: Vec<(String, Value)>,
        /// A file with a JSON object of arguments, `-` is stdin; those of --param come over it
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
        /// Its name
        name: String,
        /// The trigger
        trigger: String,
        /// The function: NAME, PACKAGE/NAME, or /NAMESPACE/PACKAGE/NAME of a shared one
        function: String,
        /// Change what is there
        #[arg(long)]
        update: bool,
    },
    /// Show a rule
    Get {
        /// The rule
        name: String,
    },
    /// List the rules
    #[command(visible_alias = "ls")]
    List(ListOptions),
    /// Let a rule call its function
    Enable {
        /// The rule
        name: String,
    },
    /// Keep a rule from calling its function
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
