//! How much longer a process takes to start after a rest: on some virtual machines several times as long, while no account shows it. That is a
//! property of the host and not of a moment, so it is said and spoils nothing.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::median;

/// As long as a function rests that is called now and then.
const REST: Duration = Duration::from_secs(1);
/// Of each kind the median of so many is taken.
const STARTS: usize = 3;

/// How many times as long a process takes to start and end after a rest of a second as straight after another one, in some three seconds;
/// nothing where none can be started.
pub async fn start_after_rest() -> Option<f64> {
    after(REST).await
}

async fn after(rest: Duration) -> Option<f64> {
    let (mut rested, mut at_once) = (Vec::new(), Vec::new());
    // The first one reads the program.
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
