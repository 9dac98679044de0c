//! Stored entities: a damaged one is an error, not a panic, and what is read writes the same.
#![no_main]

use flint_model::{Activation, Function, KeyRecord, Namespace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(function) = serde_json::from_slice::<Function>(bytes) {
        let written = serde_json::to_vec(&function).expect("a function that was read can be written");
        assert_eq!(serde_json::from_slice::<Function>(&written).expect("and read again"), function);
    }
    let _ = serde_json::from_slice::<Activation>(bytes);
    let _ = serde_json::from_slice::<Namespace>(bytes);
    let _ = serde_json::from_slice::<KeyRecord>(bytes);
});
