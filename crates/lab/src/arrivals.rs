//! Schedules of calls, determined before anything is sent.

use std::{sync::Arc, time::Duration};

use crate::Random;

/// A scheduled call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Since the load began.
    pub at: Duration,
    /// Selects the call; the arm interprets it.
    pub which: usize,
}

/// A schedule. It is iterated lazily, so that only a trace takes memory.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// Evenly spaced.
    Constant {
        /// Calls a second.
        rate: f64,
    },
    /// Independent callers: exponential gaps.
    Poisson {
        /// Calls a second, on average.
        rate: f64,
        /// The same seed makes the same schedule.
        seed: u64,
    },
    /// As recorded, in ascending order of time.
    Trace(Arc<[Arrival]>),
}

impl Arrivals {
    /// The arrivals before `end`.
    pub fn until(&self, end: Duration) -> impl Iterator<Item = Arrival> + Send + use<> {
        let mut random = match self {
            Self::Poisson { seed, .. } => Random::new(*seed),
            Self::Constant { .. } | Self::Trace(_) => Random::new(0),
        };
        let (arrivals, mut n, mut now) = (self.clone(), 0_usize, 0.0);
        std::iter::from_fn(move || {
            let arrival = match &arrivals {
                // Multiplied, not accumulated: a million additions drift.
                Self::Constant { rate } => {
                    Arrival { at: Duration::try_from_secs_f64(n as f64 / rate).ok()?, which: 0 }
                }
                Self::Poisson { rate, .. } => {
                    now += random.exponential(1.0 / rate);
                    Arrival { at: Duration::try_from_secs_f64(now).ok()?, which: 0 }
                }
                Self::Trace(trace) => *trace.get(n)?,
            };
            n += 1;
            Some(arrival)
        })
        .take_while(move |arrival| arrival.at < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn constant_arrivals_are_even_and_do_not_drift() {
        let at: Vec<_> = Arrivals::Constant { rate: 4.0 }.until(SECOND).map(|a| a.at.as_millis()).collect();
        assert_eq!(at, [0, 250, 500, 750]);
        assert_eq!(Arrivals::Constant { rate: 3.0 }.until(100_000 * SECOND).count(), 300_000);
        // An invalid rate makes no calls, rather than endless ones at once.
        assert_eq!(Arrivals::Constant { rate: 0.0 }.until(SECOND).count(), 0);
        assert_eq!(Arrivals::Constant { rate: -1.0 }.until(SECOND).count(), 1);
    }

    #[test]
    fn poisson_arrivals_repeat_with_their_seed_and_vary_as_they_should() {
        let of = |seed| Arrivals::Poisson { rate: 100.0, seed }.until(100 * SECOND).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let counts: Vec<f64> = (0..100)
            .map(|second| of(3).iter().filter(|arrival| arrival.at.as_secs() == second).count() as f64)
            .collect();
        let mean = counts.iter().sum::<f64>() / 100.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 100.0;
        // Mean and variance of a Poisson distribution are the same.
        assert!((90.0..110.0).contains(&mean) && (60.0..150.0).contains(&variance), "{mean} {variance}");
    }

    #[test]
    fn a_trace_ends_where_the_load_does() {
        let trace = [0, 10, 20].map(|ms| Arrival { at: Duration::from_millis(ms), which: ms as usize });
        let arrivals = Arrivals::Trace(trace.into());
        assert_eq!(arrivals.until(Duration::from_millis(20)).map(|a| a.which).collect::<Vec<_>>(), [0, 10]);
    }
}
