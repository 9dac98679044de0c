//! `flint completions`: prints a shell's completion script.

use clap::CommandFactory;

use crate::{cli::Cli, failure::Exit, output::print_bytes};

pub(crate) fn run(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    // Into memory first: the generator panics if it cannot write to a stream.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "flint", &mut script);
    print_bytes(&script)?;
    Ok(Exit::Ok)
}
