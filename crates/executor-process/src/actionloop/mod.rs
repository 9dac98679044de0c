//! Contract `actionloop`: a resident program that reads one JSON line a call on stdin and writes one JSON line on descriptor 3; what it writes to
//! stdout and stderr is its log. With `__OW_WAIT_FOR_ACK` in its environment it says `{"ok":true}` on descriptor 3 once it is ready.

mod instance;
mod wire;

pub(crate) use instance::Start;
