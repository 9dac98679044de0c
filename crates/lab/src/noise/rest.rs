//! Measures how much longer a process takes to start after a rest: on some virtual machines several times as
//! long, without any account showing it. It is a lasting property of the host, so it is reported but does not
//! spoil a comparison.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::median;

/// The idle time of a function that is called now and then.
const REST: Duration = Duration::from_secs(1);
/// Number of starts, of which the median is taken.
const STARTS: usize = 3;

/// The ratio of the time of starting and ending a process after a second's rest to that right after another
/// one; takes some three seconds; `None` if no process can be started.
pub async fn start_after_rest() -> Option<f64> {
    after(REST).await
}

async fn after(rest: Duration) -> Option<f64> {
    let (mut rested, mut at_once) = (Vec::new(), Vec::new());
    // The first one loads the program.
    start("true")?;
    for _ in 0..STARTS {
        tokio::time::sleep(rest).await;
        rested.push(start("true")?);
        at_once.push(start("true")?);
    }
    Some(median(&rested)? / median(&at_once)?)
}

/// Seconds that a process takes.
fn start(program: &str) -> Option<f64> {
    let begin = Instant::now();
    let ended = Command::new(program).stdin(Stdio::null()).status().ok()?;
    ended.success().then(|| begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn processes_are_started_and_what_cannot_be_started_took_no_time() {
        let times = after(Duration::ZERO).await.unwrap();
        assert!(times > 0.0 && times.is_finite(), "{times}");
        assert_eq!((start("false"), start("/no/such/program")), (None, None));
    }
}
