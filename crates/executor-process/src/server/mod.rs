//! Contracts `http` and `openwhisk`: the function is a server inside its sandbox.

mod body;
mod connection;
mod exchange;
mod http_contract;
mod instance;
mod opening;
mod openwhisk;
mod state;

pub(crate) use instance::Start;
