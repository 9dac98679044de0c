//! Compositions: sequences and conductor actions, several calls that form one activation.
//!
//! A composition, blocking or not, is an accepted call: it is in the durable queue from its admission until
//! its record is written. Its state is a [`progress::Progress`], a state machine without I/O, which is told
//! how a step ended and returns the next one. The runner ([`run`]) resolves that step and executes it
//! ([`step`]). The state is journalled with every step, so that a restarted server resumes there.

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
pub(crate) use run::Paused;
pub use sequence::PutSequence;
