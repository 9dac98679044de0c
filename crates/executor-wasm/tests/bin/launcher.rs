//! What the first lines of `flint`'s `main` do, for this crate's own tests: the launcher of sandboxes, and the workshop that runs in them.

/// What `flint`'s allocator may have reserved by then, of which nothing is used.
const RESERVED: usize = 1 << 30;

fn main() {
    flint_sandbox::launcher_entry();
    std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(RESERVED)));
    flint_executor_wasm::workshop_entry();
    eprintln!("this program is only a test launcher: it is started by flint-sandbox itself");
    std::process::exit(2);
}
