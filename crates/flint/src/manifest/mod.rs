//! `flint deploy -f`: deploys a manifest of OpenWhisk's wskdeploy (`wsk project deploy`), by a plan that is
//! shown or executed.
//!
//! A manifest is *read* (YAML to a model, with interpolated variables), its code *packed*, and the desired
//! entities *assembled* and compared with those on the server (*plan*); the plan is shown or executed
//! (*apply*). Nothing is written before everything is checked. Entities are compared by their *facts*, so
//! that the next deployment finds what a completed, or half completed, one has done.

mod apply;
mod assemble;
mod entity;
mod facts;
mod function;
mod inputs;
mod interpolate;
mod kinds;
mod model;
mod plan;
mod problems;
mod read;
mod run;
mod scalar;
mod server;
mod show;
mod target;
mod yaml;

#[cfg(test)]
mod tests;

pub(crate) use run::{deploy, undeploy};
