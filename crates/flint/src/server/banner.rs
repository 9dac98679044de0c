//! The banner shown when the server is up.

use std::{io::Write, time::Duration};

use super::parts::Parts;
use crate::{client::GUEST_KEY, config::Config};

pub(super) fn print(parts: &Parts, config: &Config) {
    let (available, missing): (Vec<_>, Vec<_>) =
        parts.controller.kinds().into_iter().partition(|runtime| runtime.state.is_ok());
    let names = |runtimes: &[flint_executor::RuntimeKind]| {
        runtimes.iter().map(|runtime| runtime.kind.to_string()).collect::<Vec<_>>().join(" ")
    };
    let mut lines = vec![
        format!("Flint {} is up at {}", env!("CARGO_PKG_VERSION"), parts.url),
        format!("  data      {}", config.server.data_dir.display()),
        format!(
            "  runtimes  {}",
            if available.is_empty() { "none: run `flint doctor`".to_owned() } else { names(&available) }
        ),
    ];
    if !missing.is_empty() {
        lines.push(format!("  missing   {} (`flint doctor` says how to get them)", names(&missing)));
    }
    lines.push(match parts.guest {
        true => "  key       the guest key, because only this machine can reach the server".to_owned(),
        false => format!(
            "  key       a namespace's; `flint namespace keys NAME --add --data-dir {}` makes a further one",
            config.server.data_dir.display()
        ),
    });
    let url = if parts.url == "http://127.0.0.1:3233" {
        String::new()
    } else {
        format!("export FLINT_URL={} ; ", parts.url)
    };
    let key = if parts.guest { "" } else { "export FLINT_AUTH=KEY ; " };
    lines.push(format!("  try       {url}{key}flint deploy hello.js ; flint invoke hello -p name=you"));
    if parts.guest {
        lines.push(format!("            wsk property set --apihost {} --auth {GUEST_KEY}", parts.url));
    }
    lines.push("  stop      Ctrl-C; twice to stop at once".to_owned());
    // Log lines so far come first.
    flint_telemetry::flush(Duration::from_millis(200));
    // Nobody may be reading.
    let _ = writeln!(std::io::stdout().lock(), "{}", lines.join("\n"));
}
