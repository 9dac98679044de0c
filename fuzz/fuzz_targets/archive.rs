//! Code archives: whatever is in them, nothing is written outside of the folder they are unpacked to.
#![no_main]

use flint_runtimes::fuzz_unpack;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let outer = tempfile::tempdir().expect("a scratch folder");
    let inner = outer.path().join("inner");
    std::fs::create_dir(&inner).expect("a folder to unpack to");
    fuzz_unpack(bytes, &inner);
    let outside = std::fs::read_dir(outer.path()).expect("the scratch folder is readable").count();
    assert_eq!(outside, 1, "something was written outside of the folder");
});
