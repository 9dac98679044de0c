//! Limits: what a function may use, what the operator allows it to ask for, and what differs for one namespace.

mod bounds;
mod function;
mod namespace;
mod text;

pub use bounds::{LimitBounds, LimitError};
pub use function::{FunctionLimits, ImpossibleLimits};
pub use namespace::{KeepWarm, NamespaceLimits, NamespaceLimitsError};
