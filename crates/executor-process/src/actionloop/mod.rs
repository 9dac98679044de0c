//! Contract `actionloop`: a resident program that for each call reads one JSON line from stdin and writes one
//! to descriptor 3; its stdout and stderr are its log. With `__OW_WAIT_FOR_ACK` in its environment it writes
//! `{"ok":true}` to descriptor 3 once it is ready.

mod instance;
mod line;
mod wire;

pub(crate) use instance::Start;
#[cfg(feature = "fuzzing")]
pub use line::fuzz_lines;
