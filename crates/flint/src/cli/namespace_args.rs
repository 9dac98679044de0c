//! The options of `flint namespace`.

use std::time::Duration;

use clap::{Args, Subcommand};
use flint_model::ByteSize;

use super::{DataArgs, values};

#[derive(Debug, Args)]
pub(crate) struct NamespaceArgs {
    #[command(subcommand)]
    pub(crate) command: NamespaceCommand,
    #[command(flatten)]
    pub(crate) data: DataArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Create a namespace and its first key, which is shown once
    Create {
        /// Its name
        #[arg(value_parser = values::name)]
        name: String,
        /// On whose behalf the key calls [default: the namespace's name]
        #[arg(long)]
        subject: Option<String>,
        #[command(flatten)]
        limits: NamespaceLimitArgs,
    },
    /// List the namespaces
    List,
    /// List, add or remove keys of a namespace
    Keys {
        /// The namespace
        #[arg(value_parser = values::name)]
        name: String,
        /// Make a further key; it is shown once
        #[arg(long)]
        add: bool,
        /// On whose behalf a further key calls
        #[arg(long, requires = "add")]
        subject: Option<String>,
        /// Remove the key with this UUID
        #[arg(long, value_name = "UUID", conflicts_with_all = ["add", "subject"], value_parser = values::name)]
        remove: Option<String>,
    },
    /// Show or change what differs from the server's limits
    Limits {
        /// The namespace
        #[arg(value_parser = values::name)]
        name: String,
        #[command(flatten)]
        limits: NamespaceLimitArgs,
        /// Back to the server's limits
        #[arg(long)]
        reset: bool,
    },
    /// Stop a namespace's keys from working
    Block {
        /// The namespace
        #[arg(value_parser = values::name)]
        name: String,
        /// Let them work again
        #[arg(long)]
        undo: bool,
    },
    /// Delete a namespace with its keys and functions
    Rm {
        /// The namespace
        #[arg(value_parser = values::name)]
        name: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

/// Limits of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct NamespaceLimitArgs {
    /// Calls per minute
    #[arg(long, value_name = "N")]
    pub(crate) invocations_per_minute: Option<u32>,
    /// Calls at once
    #[arg(long, value_name = "N")]
    pub(crate) concurrent_invocations: Option<u32>,
    /// Trigger firings per minute
    #[arg(long, value_name = "N")]
    pub(crate) fires_per_minute: Option<u32>,
    /// Kinds of functions that it may have, separated by commas
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub(crate) allowed_kinds: Option<Vec<String>>,
    /// Whether activation records are kept
    #[arg(long, value_name = "BOOL")]
    pub(crate) store_activations: Option<bool>,
    /// Smallest memory limit of a function
    #[arg(long, value_name = "MB")]
    pub(crate) min_action_memory: Option<u32>,
    /// Largest memory limit of a function
    #[arg(long, value_name = "MB")]
    pub(crate) max_action_memory: Option<u32>,
    /// Smallest log limit of a function
    #[arg(long, value_name = "MB")]
    pub(crate) min_action_logs: Option<u32>,
    /// Largest log limit of a function
    #[arg(long, value_name = "MB")]
    pub(crate) max_action_logs: Option<u32>,
    /// Shortest time limit of a function
    #[arg(long, value_name = "MS")]
    pub(crate) min_action_timeout: Option<u32>,
    /// Longest time limit of a function
    #[arg(long, value_name = "MS")]
    pub(crate) max_action_timeout: Option<u32>,
    /// Fewest calls at once in one instance that a function may ask for
    #[arg(long, value_name = "N")]
    pub(crate) min_action_concurrency: Option<u32>,
    /// Most calls at once in one instance
    #[arg(long, value_name = "N")]
    pub(crate) max_action_concurrency: Option<u32>,
    /// Most instances at once that a function may ask for
    #[arg(long, value_name = "N")]
    pub(crate) max_action_instances: Option<u32>,
    /// Largest parameters, and annotations, of a function: 2MB
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_parameter_size: Option<ByteSize>,
    /// Largest JSON body of a call: 2MB
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_payload_size: Option<ByteSize>,
    /// How much of a result that is too large its error shows: 1KB
    #[arg(long, value_name = "SIZE")]
    pub(crate) truncation_size: Option<ByteSize>,
    /// Instances of each function that stay longer than others when nobody calls them; 0 = none
    #[arg(long, value_name = "N")]
    pub(crate) warmed_container_keeping_count: Option<u32>,
    /// How long they stay: 20min
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) warmed_container_keeping_timeout: Option<Duration>,
}
