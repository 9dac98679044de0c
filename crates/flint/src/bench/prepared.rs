//! Checks a deploy's result: how the server runs the function, and its warm-up. An arm runs as requested, or
//! has no figures.

use std::fmt;

use anyhow::{bail, ensure};
use serde_json::Value;

/// How a snapshot's report describes events that did not warm it up.
const NOT_WARMED: [&str; 3] = ["warm-up event ", "warm-up stopped: ", "not warmed up: "];

/// How the server runs a function.
pub(super) struct Prepared {
    start: String,
    reuse: String,
    /// Why that is not what was requested.
    fallback: Option<String>,
    /// Warm-up calls of its snapshot.
    warmup_calls: u64,
    /// The failed events, in the report's words.
    failed: Vec<String>,
}

impl Prepared {
    /// From the response to a deploy.
    pub(super) fn of(said: &Value) -> Self {
        let prepared =
            said.pointer("/function/prepared").or_else(|| said.get("prepared")).unwrap_or(&Value::Null);
        let strategy = prepared.get("strategy").or_else(|| said.pointer("/function/strategy"));
        let word = |key: &str| {
            strategy.and_then(|strategy| strategy.get(key)).and_then(Value::as_str).unwrap_or("?").to_owned()
        };
        let notes = prepared.pointer("/snapshot/notes").and_then(Value::as_array).into_iter().flatten();
        let failed = notes
            .filter_map(Value::as_str)
            .filter(|note| NOT_WARMED.iter().any(|begin| note.starts_with(begin)))
            .map(str::to_owned)
            .collect();
        Self {
            start: word("start"),
            reuse: word("reuse"),
            fallback: prepared.get("fallback").and_then(Value::as_str).map(str::to_owned),
            warmup_calls: prepared.pointer("/snapshot/warmup_calls").and_then(Value::as_u64).unwrap_or(0),
            failed,
        }
    }

    /// A fall-back's figures would be those of another arm under this one's name.
    pub(super) fn is_run_as(&self, function: &str, start: &str, reuse: &str) -> anyhow::Result<()> {
        let is_it = self.fallback.is_none() && (&*self.start, &*self.reuse) == (start, reuse);
        ensure!(is_it, "{function} is not run as {start}/{reuse} but as {self}");
        Ok(())
    }

    /// Likewise those of a clone whose code was never called before the snapshot.
    pub(super) fn is_warmed_up(&self, function: &str) -> anyhow::Result<()> {
        if self.start != "fork" {
            return Ok(());
        }
        match (self.warmup_calls, self.failed.as_slice()) {
            (1.., []) => Ok(()),
            (_, []) => bail!("the snapshot of {function} was not warmed up"),
            (_, failed) => bail!("the snapshot of {function} was not warmed up: {}", failed.join("; ")),
        }
    }
}

impl fmt::Display for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.start, self.reuse)?;
        self.fallback.as_ref().map_or(Ok(()), |why| write!(f, ", because {why}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn forked(snapshot: Value) -> Prepared {
        let strategy = json!({ "isolation": "process", "start": "fork", "reuse": "never" });
        Prepared::of(&json!({ "function": { "prepared": { "strategy": strategy, "snapshot": snapshot } } }))
    }

    #[test]
    fn an_arm_that_fell_back_is_not_what_was_asked_for() {
        let why = "open Socket: close them in flint.beforeSnapshot";
        let strategy = json!({ "start": "spawn", "reuse": "never" });
        let spawned =
            Prepared::of(&json!({ "function": { "prepared": { "strategy": strategy, "fallback": why } } }));
        let refused = spawned.is_run_as("login", "fork", "never").unwrap_err().to_string();
        assert_eq!(refused, format!("login is not run as fork/never but as spawn/never, because {why}"));
        assert!(forked(Value::Null).is_run_as("login", "fork", "never").is_ok());
        assert_eq!(spawned.to_string(), format!("spawn/never, because {why}"));
        // Without a snapshot there is nothing to warm up.
        assert!(spawned.is_warmed_up("login").is_ok());
    }

    #[test]
    fn a_snapshot_that_no_event_has_warmed_up_is_not_taken_for_one_that_is() {
        let judged = |calls: u64, notes: &[&str]| {
            let report = json!({ "warmup_calls": calls, "notes": notes });
            forked(report).is_warmed_up("front").map_err(|error| error.to_string())
        };
        assert_eq!(judged(2000, &["2 timers were cleared"]), Ok(()));
        assert_eq!(judged(0, &[]), Err("the snapshot of front was not warmed up".to_owned()));
        // The first event's response is an error, but the runtime counts calls all the same.
        let failed = "warm-up event 1 failed: back answered with status 404";
        let said = format!("the snapshot of front was not warmed up: {failed}");
        assert_eq!(judged(1, &["a timer was cleared", failed]), Err(said));
        for note in ["warm-up stopped: warm-up request 0 failed: no", "not warmed up: it ran out of memory"] {
            assert!(judged(3, &[note]).is_err(), "{note}");
        }
    }
}
