//! Sequences and conductor actions: several calls that are one activation.
//!
//! A composition is an accepted call, blocking or not: it is in the durable queue from its admission until its record is written. Its state is a
//! [`progress::Progress`], a state machine without I/O: it is told how a step ended, and says which one comes next. The runner ([`run`]) resolves
//! that step and makes it ([`step`]). The state is journalled with every step, so that a restarted server continues there.

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
