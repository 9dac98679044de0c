//! What compiling Python sends out of its sandbox: of any archive, nothing is written outside of the function's folder, nor in it but byte
//! code beside sources.
#![no_main]

use std::{
    fs::{create_dir, create_dir_all, read_dir},
    os::unix::fs::symlink,
    path::Path,
};

use flint_runtimes::fuzz_byte_code;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|tar: &[u8]| {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let (code, outside) = (scratch.path().join("code"), scratch.path().join("outside"));
    create_dir_all(code.join("pkg")).expect("a folder with sources");
    create_dir(&outside).expect("a folder elsewhere");
    symlink(&outside, code.join("link")).expect("a link that leads there");
    fuzz_byte_code(tar, &code);
    let names = |folder: &Path| {
        let entries = read_dir(folder).expect("the folder is readable").flatten();
        entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    assert!(names(&outside).is_empty(), "something was written elsewhere");
    assert_eq!(names(scratch.path()).len(), 2, "something was written beside the function");
    for name in names(&code) {
        assert!(name == "pkg" || name == "link" || name == "__pycache__", "{name:?} was written");
    }
});
