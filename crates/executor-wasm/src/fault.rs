//! Translates errors of a guest into Flint's faults.

use std::fmt::Write;

use flint_executor::Fault;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::{
    cut::{cut, up_to},
    interrupt::DeadlinePassed,
    limits::Starved,
    link::Failed,
};

/// The longest function name that is shown, since the code's author chose it.
const LONGEST_NAME: usize = 500;
const NAMESPACE_IS_FULL: &str = "the namespace's Wasm functions have three quarters of the memory that all of them may have together (pool.memory), and others get the rest";
const SERVER_IS_FULL: &str =
    "the server's Wasm functions have all the memory that they may have together (pool.memory)";

/// The fault of a guest that failed. `starved`: whether it was refused memory.
pub(crate) fn of(error: &wasmtime::Error, starved: Starved, last_words: Option<String>) -> Fault {
    if error.downcast_ref::<DeadlinePassed>().is_some() {
        return Fault::Deadline;
    }
    if let Some(Failed(message)) = error.downcast_ref() {
        return Fault::Developer { message: cut(message) };
    }
    if let Some(limit) = error.downcast_ref::<PoolConcurrencyLimitError>() {
        let cause = format!("{limit}: raise wasm.instances (`flint doctor` says what bounds it)");
        return Fault::Platform { cause };
    }
    match starved {
        Starved::Not => {}
        Starved::InItself => return Fault::OutOfMemory,
        Starved::InItsNamespace => return Fault::Platform { cause: NAMESPACE_IS_FULL.to_owned() },
        Starved::InTheServer => return Fault::Platform { cause: SERVER_IS_FULL.to_owned() },
    }
    let said = last_words.map(|words| format!(": {}", cut(words))).unwrap_or_default();
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return Fault::Developer { message: format!("the program ended with exit code {code}{said}") };
    }
    let trap = error.downcast_ref::<Trap>();
    let mut message = match trap {
        Some(Trap::StackOverflow) => "the function's stack overflowed: it calls itself too deeply".to_owned(),
        Some(Trap::OutOfFuel) => "the function used up its fuel (wasm.fuel)".to_owned(),
        Some(Trap::UnreachableCodeReached) => {
            format!("the function gave up (wasm `unreachable`: a panic or abort){said}")
        }
        Some(trap) => format!("{trap}{said}"),
        None => cut(error.root_cause()) + &said,
    };
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        append(&mut message, backtrace);
    }
    Fault::Developer { message }
}

/// Appends a line per function, the innermost first.
fn append(message: &mut String, backtrace: &WasmBacktrace) {
    for frame in backtrace.frames() {
        let name = frame.func_name().map(demangled);
        let _ = match name {
            Some(name) => write!(message, "\n    at {name}"),
            None => write!(message, "\n    at function {}", frame.func_index()),
        };
    }
}

/// Removes Rust's mangling and hash.
fn demangled(name: &str) -> String {
    up_to(LONGEST_NAME, format_args!("{:#}", rustc_demangle::demangle(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_up_to_a_length() {
        assert_eq!(demangled("_ZN3app4main17h0123456789abcdefE"), "app::main");
        assert_eq!(demangled("main"), "main");
        let long = demangled(&"é".repeat(LONGEST_NAME));
        assert_eq!(long, format!("{}…", "é".repeat(LONGEST_NAME / 2)));
    }
}
