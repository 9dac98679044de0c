//! The launcher process for this crate's own tests: what the first line of `flint`'s `main` does.

fn main() {
    flint_sandbox::launcher_entry();
    eprintln!("this program is only a test launcher: it is started by flint-sandbox itself");
    std::process::exit(2);
}
