//! `flint up`.

use std::time::Duration;

use anyhow::Context;
use flint_telemetry::LogFormat;

use crate::{
    cli::UpArgs,
    config::{Config, LogWord, load},
    failure::{Exit, Failure},
    server,
};

/// How long the end waits for somebody to read the last lines of the log.
const LAST_LINES: Duration = Duration::from_secs(1);
/// For what is about to end anyway.
const LINGER: Duration = Duration::from_secs(1);

pub(crate) fn run(args: UpArgs) -> anyhow::Result<Exit> {
    let config = load(&args.data, args.listen.as_deref())?.config;
    config.limits.check(&config.defaults).map_err(|contrary| {
        Failure::usage(format!("{contrary}: no function could be deployed"))
            .hint("a number without a unit is bytes, or milliseconds; `flint config` shows every key")
    })?;
    start_logs(&config)?;
    flint_sandbox::raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(config.server.threads.max(1))
        .thread_name("flint")
        // Blocking work is files and the store's reads; more threads than this only cost memory.
        .max_blocking_threads(64)
        .build()
        .context("starting threads")?;
    let ended = runtime.block_on(server::up(config));
    // What has to be finished was waited for. What blocks a thread now, as a program on PATH may that hangs, keeps nobody from stopping.
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
