//! `flint completions`.

use clap::CommandFactory;

use crate::{cli::Cli, failure::Exit};

pub(crate) fn run(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    clap_complete::generate(shell, &mut Cli::command(), "flint", &mut std::io::stdout());
    Ok(Exit::Ok)
}
