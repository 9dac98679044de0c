//! `flint up`: runs the server.

use std::time::Duration;

use anyhow::Context;
use flint_telemetry::LogFormat;

use crate::{
    allowance,
    cli::UpArgs,
    config::{Config, LogWord, load},
    failure::{Exit, Failure},
    server,
};

/// Threads that a server starts sooner or later beside those of requests and of WebAssembly: the store's, the
/// log's, tickers, and the first ones for file access.
const OTHER_THREADS: usize = 32;
/// How long the exit waits for the last log lines to be read.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How long the exit waits for threads that are ending.
const LINGER: Duration = Duration::from_secs(1);

pub(crate) fn run(args: UpArgs) -> anyhow::Result<Exit> {
    let config = load(&args.data, args.listen.as_deref())?.config;
    config.limits.check(&config.defaults).map_err(|contrary| {
        Failure::usage(format!("{contrary}: no function could be deployed"))
            .hint("a number without a unit is bytes, or milliseconds; `flint config` shows every key")
    })?;
    start_logs(&config)?;
    flint_sandbox::raise_open_files();
    let workers = config.server.threads.max(1);
    allowance::check(workers.saturating_add(config.wasm.threads).saturating_add(OTHER_THREADS))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(workers)
        .thread_name("flint")
        // Blocking work is file access, that of functions too; more threads would only cost memory. The store has
        // threads of its own.
        .max_blocking_threads(64)
        .build()
        .context("starting threads")?;
    let ended = runtime.block_on(server::up(config));
    // Essential work was waited for. A thread that is blocked now, for example by a hanging program on PATH,
    // must not prevent the exit.
    runtime.shutdown_timeout(LINGER);
    flint_telemetry::flush(LAST_LINES);
    ended
}

fn start_logs(config: &Config) -> Result<(), Failure> {
    let format = match config.log.format {
        LogWord::Text => LogFormat::Text,
        LogWord::Json => LogFormat::Json,
    };
    flint_telemetry::init(format, &config.log.filter)
        .map_err(|error| Failure::usage(format!("log.filter: {error}")))
}
