//! `flint deploy -f`: a manifest of OpenWhisk's wskdeploy (`wsk project deploy`) as a plan, which is shown or carried out.
//!
//! A manifest is *read* (YAML to a model, with the values of its variables), its code *packed*, *assembled* to the entities that it
//! wants, compared with what the server has (*plan*), shown, and carried out (*apply*). Nothing is written before all of it was
//! checked. Entities are compared as *facts*, so that a deployment that was carried out, or half of it, is found unchanged by the next.

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
