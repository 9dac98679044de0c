//! The body of a PUT, with the code in it.
#![no_main]

use flint_api_openwhisk::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(body) = parse::put_body(bytes) {
        let _ = body.limits();
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = parse::decode_code(text.to_owned());
    }
});
