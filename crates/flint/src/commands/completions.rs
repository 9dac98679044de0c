//! `flint completions`.

use clap::CommandFactory;

use crate::{cli::Cli, failure::Exit, output::print_bytes};

pub(crate) fn run(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    // Whole before it is written: what writes it to a stream gives up with a panic.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "flint", &mut script);
    print_bytes(&script)?;
    Ok(Exit::Ok)
}
