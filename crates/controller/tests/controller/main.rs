//! The tests of the use cases, in one program: a file for each would be linked for longer than it runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod asynchronous;
mod bindings;
mod compositions_late;
mod compositions_resume;
mod conductors;
mod dead_letters;
mod deploys;
mod feed_lifecycle;
mod feeds;
mod firings;
mod http_answers;
mod messaging;
mod namespaces;
mod nested;
mod outlived;
mod put_off;
mod retries;
mod rewarm;
mod secrets;
mod sequences;
mod shortages;
mod strategies;
mod told_late;
mod trigger_model;
mod versions;
