//! A sandboxed process as all contracts need it: its command, its output, its time limit and its end.

pub(crate) mod command;
pub(crate) mod ending;
pub(crate) mod logs;
pub(crate) mod meter;
pub(crate) mod output;
pub(crate) mod relay;
pub(crate) mod timer;
pub(crate) mod tool;
