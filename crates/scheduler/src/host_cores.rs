//! How many cores of the host are idle, whoever uses the others: functions, Flint itself or other programs.

use std::{
    fs,
    time::{Duration, Instant},
};

/// How long the host is looked at.
const WINDOW: Duration = Duration::from_millis(100);
/// A longer time than this says little about now.
const STALE: Duration = Duration::from_millis(500);

/// The idle time of all cores, from /proc/uptime.
#[derive(Debug, Default)]
pub(crate) struct HostCores {
    /// Seconds of idle time, and when they were read.
    last: Option<(Instant, f64)>,
    idle: f64,
}

impl HostCores {
    /// How many cores were idle in the last [`WINDOW`]; none while that is not known. Asked again and again.
    pub(crate) fn idle(&mut self) -> f64 {
        self.idle_at(Instant::now(), || fs::read_to_string("/proc/uptime").ok())
    }

    fn idle_at(&mut self, now: Instant, read: impl FnOnce() -> Option<String>) -> f64 {
        let took = self.last.map(|(then, _)| now.saturating_duration_since(then));
        if took.is_some_and(|took| took < WINDOW) {
            return self.idle;
        }
        let before = self.last;
        self.last = read().and_then(|text| Some((now, seconds(&text)?)));
        self.idle = match (before, self.last, took) {
            (Some((_, before)), Some((_, after)), Some(took)) if took <= STALE => {
                (after - before) / took.as_secs_f64()
            }
            _ => 0.0,
        };
        self.idle
    }
}

/// The second field: the idle time of all cores together, in seconds.
fn seconds(uptime: &str) -> Option<f64> {
    uptime.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cores_are_those_of_the_last_window() {
        let (mut cores, began) = (HostCores::default(), Instant::now());
        let mut at = |ms: u64, uptime: Option<&str>| {
            let idle = cores.idle_at(began + Duration::from_millis(ms), || uptime.map(str::to_owned));
            (idle * 100.0).round() / 100.0
        };
        assert_eq!(at(0, Some("350735.47 234388.90\n")), 0.0, "one reading says nothing");
        assert_eq!(at(50, None), 0.0, "it is not read again so soon");
        assert_eq!(at(100, Some("350735.57 234389.05\n")), 1.5);
        assert_eq!(at(150, None), 1.5);
        assert_eq!(at(300, Some("350735.77 234389.05\n")), 0.0);
        assert_eq!(at(2000, Some("350737.47 234392.45\n")), 0.0, "too long ago");
        assert_eq!(at(2100, Some("350737.57 234392.65\n")), 2.0);
        assert_eq!(at(2200, None), 0.0, "it cannot be read");
        assert_eq!(at(2300, Some("nonsense")), 0.0);
    }
}
