//! Flint's core ABI: bytes in, bytes out, no WASI needed. Every call has an instance of its own, so nothing is ever freed.

#[link(wasm_import_module = "flint")]
unsafe extern "C" {
    #[link_name = "log"]
    fn host_log(stream: i32, text: *const u8, len: usize);
    #[link_name = "fail"]
    fn host_fail(text: *const u8, len: usize);
}

/// Writes a line to the call's log.
pub fn log(text: &str) {
    // SAFETY: the host reads these bytes, during the call only.
    unsafe { host_log(1, text.as_ptr(), text.len()) }
}

#[unsafe(no_mangle)]
extern "C" fn flint_alloc(len: usize) -> *mut u8 {
    Vec::leak(vec![0; len]).as_mut_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn flint_call(input: *const u8, len: usize) -> u64 {
    // SAFETY: the host wrote `len` bytes where `flint_alloc(len)` said.
    match crate::handle(unsafe { std::slice::from_raw_parts(input, len) }) {
        Ok(answer) => (answer.as_ptr() as u64) << 32 | Vec::leak(answer).len() as u64,
        Err(why) => {
            // SAFETY: as in `log`.
            unsafe { host_fail(why.as_ptr(), why.len()) };
            0
        }
    }
}
