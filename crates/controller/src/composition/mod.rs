//! Sequences and conductor actions: several calls that are one activation.
//!
//! A composition is an accepted call, blocking or not: it is in the durable queue from its admission until its record is written. What
//! it does next is a [`progress::Progress`], a value without I/O that learns how a step ended and says which one comes. The
//! runner ([`run`]) resolves that step and makes it ([`step`]). The value is journalled with every step, so that another
//! life of the server goes on where this one was.

mod conductor;
mod enter;
mod primary;
mod progress;
mod raw_object;
mod resume;
mod run;
mod sequence;
mod step;

pub(crate) use resume::Beginning;
pub(crate) use run::CompositionEnd;
pub use sequence::PutSequence;
