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
    /// Create a namespace and its first key; the key is shown only once
    Create {
        /// Name of the namespace
        #[arg(value_parser = values::name)]
        name: String,
        /// Subject that the key acts for [default: the namespace's name]
        #[arg(long, value_parser = values::name)]
        subject: Option<String>,
        #[command(flatten)]
        limits: NamespaceLimitArgs,
    },
    /// List namespaces
    List,
    /// List, add or remove keys of a namespace
    Keys {
        /// The namespace
        #[arg(value_parser = values::name)]
        name: String,
        /// Add a key; it is shown only once
        #[arg(long)]
        add: bool,
        /// Subject that the added key acts for
        #[arg(long, requires = "add", value_parser = values::name)]
        subject: Option<String>,
        /// Remove the key with this UUID
        #[arg(long, value_name = "UUID", conflicts_with_all = ["add", "subject"], value_parser = values::name)]
        remove: Option<String>,
    },
    /// Show or change the limits that differ from the server's
    Limits {
        /// The namespace
        #[arg(value_parser = values::name)]
        name: String,
        #[command(flatten)]
        limits: NamespaceLimitArgs,
        /// Reset to the server's limits
        #[arg(long)]
        reset: bool,
    },
    /// Disable a namespace's keys
    Block {
        /// The namespace
        #[arg(value_parser = values::name)]
        name: String,
        /// Enable the keys again
        #[arg(long)]
        undo: bool,
    },
    /// Delete a namespace with its keys and functions
    Rm {
        /// The namespace
        #[arg(value_parser = values::name)]
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

/// Limits of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct NamespaceLimitArgs {
    /// Maximum calls per minute
    #[arg(long, value_name = "N")]
    pub(crate) invocations_per_minute: Option<u32>,
    /// Maximum concurrent calls
    #[arg(long, value_name = "N")]
    pub(crate) concurrent_invocations: Option<u32>,
    /// Maximum trigger firings per minute
    #[arg(long, value_name = "N")]
    pub(crate) fires_per_minute: Option<u32>,
    /// Allowed kinds of functions, separated by commas
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub(crate) allowed_kinds: Option<Vec<String>>,
    /// Whether to keep activation records
    #[arg(long, value_name = "BOOL")]
    pub(crate) store_activations: Option<bool>,
    /// Smallest memory limit of a function, in MB
    #[arg(long, value_name = "MB")]
    pub(crate) min_action_memory: Option<u32>,
    /// Largest memory limit of a function, in MB
    #[arg(long, value_name = "MB")]
    pub(crate) max_action_memory: Option<u32>,
    /// Smallest log limit of a function, in MB
    #[arg(long, value_name = "MB")]
    pub(crate) min_action_logs: Option<u32>,
    /// Largest log limit of a function, in MB
    #[arg(long, value_name = "MB")]
    pub(crate) max_action_logs: Option<u32>,
    /// Shortest time limit of a function, in ms
    #[arg(long, value_name = "MS")]
    pub(crate) min_action_timeout: Option<u32>,
    /// Longest time limit of a function, in ms
    #[arg(long, value_name = "MS")]
    pub(crate) max_action_timeout: Option<u32>,
    /// Smallest concurrency per instance that a function may request
    #[arg(long, value_name = "N")]
    pub(crate) min_action_concurrency: Option<u32>,
    /// Largest concurrency per instance that a function may request
    #[arg(long, value_name = "N")]
    pub(crate) max_action_concurrency: Option<u32>,
    /// Largest number of concurrent instances that a function may request
    #[arg(long, value_name = "N")]
    pub(crate) max_action_instances: Option<u32>,
    /// Maximum size of a function's parameters, and of its annotations: 2MB
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_parameter_size: Option<ByteSize>,
    /// Maximum size of a call's JSON body: 2MB
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_payload_size: Option<ByteSize>,
    /// How much of an oversized result its error shows: 1KB
    #[arg(long, value_name = "SIZE")]
    pub(crate) truncation_size: Option<ByteSize>,
    /// Idle instances of each function to keep longer than others; 0 = none
    #[arg(long, value_name = "N")]
    pub(crate) warmed_container_keeping_count: Option<u32>,
    /// How long to keep these idle instances: 20min
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) warmed_container_keeping_timeout: Option<Duration>,
}
