//! One file a command.

pub(crate) mod activations;
pub(crate) mod api;
pub(crate) mod backup;
pub(crate) mod bench;
mod call;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead_letters;
pub(crate) mod deploy;
pub(crate) mod dev;
pub(crate) mod doctor;
mod entity;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod init;
pub(crate) mod invoke;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod logs;
pub(crate) mod namespace;
pub(crate) mod package;
pub(crate) mod remove;
pub(crate) mod rule;
pub(crate) mod sequence;
pub(crate) mod trigger;
pub(crate) mod up;
pub(crate) mod url;
