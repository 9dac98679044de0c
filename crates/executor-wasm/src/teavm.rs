//! The mathematics that TeaVM's WASI programs import from their host as module `teavmMath`.

use wasmtime::{Caller, Linker};

use crate::host::AsHost;

pub(crate) const MODULE: &str = "teavmMath";

type OfOne = fn(f64) -> f64;
type OfTwo = fn(f64, f64) -> f64;

/// Adds all functions.
pub(crate) fn add<T: AsHost + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    const OF_ONE: &[(&str, OfOne)] = &[
        ("sin", f64::sin),
        ("cos", f64::cos),
        ("tan", f64::tan),
        ("asin", f64::asin),
        ("acos", f64::acos),
        ("atan", f64::atan),
        ("sinh", f64::sinh),
        ("cosh", f64::cosh),
        ("tanh", f64::tanh),
        ("exp", f64::exp),
        ("log", f64::ln),
        ("log10", f64::log10),
        ("cbrt", f64::cbrt),
        ("sqrt", f64::sqrt),
        ("ceil", f64::ceil),
        ("floor", f64::floor),
    ];
    const OF_TWO: &[(&str, OfTwo)] = &[
        ("pow", f64::powf),
        ("atan2", f64::atan2),
        ("hypot", f64::hypot),
        // Rust's `%` is C's `fmod`.
        ("fmod", |a, b| a % b),
    ];
    for (name, function) in OF_ONE {
        linker.func_wrap(MODULE, name, |x: f64| function(x))?;
    }
    for (name, function) in OF_TWO {
        linker.func_wrap(MODULE, name, |x: f64, y: f64| function(x, y))?;
    }
    linker.func_wrap(MODULE, "random", |mut caller: Caller<'_, T>| {
        caller.data_mut().host().draws();
        random()
    })?;
    Ok(())
}

/// A number in [0, 1), derived from the keys of the standard hasher, which the system's generator seeds. Not
/// for secrets; those use `random_get`.
fn random() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(std::time::Instant::now());
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
