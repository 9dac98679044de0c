//! The Azure trace of 2021: every single call with its end and duration.

use std::{collections::HashMap, io::Read, time::Duration};

use super::{TraceError, table::Table};

/// Calls in order of their start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Azure2021 {
    /// The functions, each `app/function`.
    pub functions: Vec<String>,
    /// All calls.
    pub calls: Vec<CallRow>,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRow {
    /// Its start, relative to the first one.
    pub start: Duration,
    /// How long it took.
    pub took: Duration,
    /// Index of its function.
    pub function: usize,
}

/// Two weeks are the whole trace; times beyond a century are invalid.
const LATEST_S: f64 = 3.2e9;

impl Azure2021 {
    /// Reads the table.
    pub fn read(source: impl Read) -> Result<Self, TraceError> {
        let mut trace = Self::default();
        let mut names = HashMap::new();
        let mut starts = Vec::new();
        Table::open(source, &["app", "func", "end_timestamp", "duration"])?.rows(|row| {
            let (end, took) = (row.number("end_timestamp")?, row.number("duration")?);
            if end > LATEST_S || took > LATEST_S {
                return Err(row.wrong("a time beyond a century"));
            }
            let name = format!("{}/{}", row.text("app"), row.text("func"));
            let function = *names.entry(name.clone()).or_insert_with(|| {
                trace.functions.push(name);
                trace.functions.len() - 1
            });
            starts.push((end - took, Duration::from_secs_f64(took), function));
            Ok(())
        })?;
        // A call may have started before the trace.
        let first = starts.iter().map(|call| call.0).fold(f64::INFINITY, f64::min);
        trace.calls = starts
            .into_iter()
            .map(|(start, took, function)| CallRow {
                start: Duration::from_secs_f64((start - first).max(0.0)),
                took,
                function,
            })
            .collect();
        trace.calls.sort_by_key(|call| call.start);
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace::excerpt;

    #[test]
    fn calls_start_their_duration_before_they_end() {
        let text = "app,func,end_timestamp,duration\na,f,10.5,0.5\na,g,9,2\nb,f,12,0\na,f,0.25,1.25\n";
        let trace = Azure2021::read(text.as_bytes()).unwrap();
        assert_eq!(trace.functions, ["a/f", "a/g", "b/f"]);
        let starts: Vec<_> =
            trace.calls.iter().map(|call| (call.start.as_secs_f64(), call.function)).collect();
        // The last row started first, one second before the trace.
        assert_eq!(starts, [(0.0, 0), (8.0, 1), (11.0, 0), (13.0, 2)]);
        for text in [
            "app,func\n",
            "app,func,end_timestamp,duration\na,f,1,-1\n",
            "app,func,end_timestamp,duration\na,f,1e300,1\n",
        ] {
            assert!(Azure2021::read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_excerpt_is_whole_and_sorted() {
        let trace = excerpt::of_2021().unwrap();
        assert_eq!(trace.calls.len(), 150);
        assert!(trace.calls.is_sorted_by_key(|call| call.start) && trace.functions.len() > 10);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), end in any::<f64>(), took in any::<f64>()) {
            let _ = Azure2021::read(&bytes[..]);
            let text = format!("app,func,end_timestamp,duration\na,f,{end},{took}\na,f,{took},{end}\n");
            let _ = Azure2021::read(text.as_bytes());
        }
    }
}
