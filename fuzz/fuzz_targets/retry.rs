//! The annotation `flint-retry`: what is accepted reads back the same, and no delay is longer than it says.
#![no_main]

use flint_model::{ActivationId, RetryOptions, RetryPolicy};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    let Ok(Some(options)) = RetryOptions::of_annotation(&value) else { return };
    let policy = options.over(&RetryPolicy::default());
    assert_eq!(RetryOptions::of_annotation(&options.to_annotation()), Ok(Some(options)));
    assert!(policy.max_attempts > 0 && policy.backoff <= policy.max_backoff, "{policy:?}");
    for failed in [1, 2, 40, u32::MAX] {
        assert!(policy.delay(ActivationId::from_u128(7), failed) <= policy.max_backoff, "{policy:?}");
    }
});
