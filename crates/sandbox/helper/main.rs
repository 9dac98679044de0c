//! What this crate's tests need as a program of its own: the launcher (as in `flint`'s `main`), a server to be killed, and an
//! intruder that tries, inside a sandbox, what must not work.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod intruder;
mod server;
mod zygote;

fn main() {
    flint_sandbox::launcher_entry();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["intrude", rest @ ..] => intruder::run(rest),
        ["daemonise"] => server::daemonise(),
        ["bomb", kind] => intruder::bomb(kind),
        ["zygote", mode] => zygote::run(mode),
        ["serve", directory, id] => server::serve(directory, id),
        ["one-shot", directory, network, program @ ..] => server::one_shot(directory, network, program),
        other => {
            eprintln!("unknown arguments {other:?}");
            std::process::exit(2);
        }
    }
}
