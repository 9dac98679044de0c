//! Entities and records as the API writes them.

mod action;
mod activation;
mod log_line;

pub(crate) use action::{ActionDetail, ActionSummary, shown_code};
pub(crate) use activation::{Record, ResponseBody, Summary};
pub(crate) use log_line::log_line;
