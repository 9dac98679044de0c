//! What all contracts need of a sandboxed process: its command, its output, its time limit and its end.

pub(crate) mod code_images;
pub mod command;
pub mod ending;
pub mod logs;
pub mod meter;
pub mod output;
mod product;
pub mod relay;
pub(crate) mod running;
pub mod starter;
pub mod timer;
pub mod tool;
pub(crate) mod waiting;
