//! What the first lines of `flint`'s `main` do, for this crate's own tests: the launcher of sandboxes, and the workshop that runs in them.

fn main() {
    flint_sandbox::launcher_entry();
    flint_executor_wasm::workshop_entry();
    eprintln!("this program is only a test launcher: it is started by flint-sandbox itself");
    std::process::exit(2);
}
