//! Arguments of the feeds in `/whisk.system`: cron patterns, time zones and dates above all. What is accepted fires.
#![no_main]

use flint_controller::fuzz_feed_arguments;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(given) = serde_json::from_slice(bytes) {
        fuzz_feed_arguments(&given);
    }
});
