//! The JSON representations of entities and records.

mod action;
mod activation;
mod log_line;
mod package;
mod rule;
mod trigger;

pub(crate) use action::{ActionDetail, ActionSummary, BLACKBOX, contract_of_image, shown_code};
pub(crate) use activation::{Record, ResponseBody, Summary, shown_logs};
use log_line::log_line;
pub(crate) use package::{PackageDetail, PackageSummary};
pub(crate) use rule::{RuleDetail, RuleSummary};
use trigger::fired_lines;
pub(crate) use trigger::{TriggerDetail, TriggerSummary};
