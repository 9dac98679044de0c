//! The Azure trace of 2019: calls per minute and a day's durations for each function, a day's memory for each
//! app.

use std::{collections::HashMap, io::Read};

use super::{
    TraceError,
    table::{Row, Table},
};

/// Functions with their calls, and durations and memory where known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Azure2019 {
    /// In the order of the trace.
    pub functions: Vec<FunctionRow>,
    /// By function.
    durations: HashMap<String, DurationRow>,
    /// By function or, as Microsoft published it, by app.
    memory: HashMap<String, MemoryRow>,
    /// Durations that were negative or invalid, and were taken as 0.
    pub taken_as_zero: usize,
}

/// A function's calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRow {
    /// The app it belongs to.
    pub app: String,
    /// Its own name.
    pub function: String,
    /// What calls it: `http`, `timer`, `queue`, …
    pub trigger: String,
    /// Calls in each minute, from the first minute of the table on.
    pub minutes: Vec<u32>,
}

/// How long a function's calls took, in ms.
#[derive(Clone, Debug, PartialEq)]
pub struct DurationRow {
    /// On average.
    pub average_ms: f64,
    /// Calls of that day.
    pub count: f64,
    /// Percentiles 0, 1, 25, 50, 75, 99, 100.
    pub percentiles_ms: [f64; 7],
}

/// What memory was allocated, in MB.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryRow {
    /// On average.
    pub average_mb: f64,
    /// The 99th percentile.
    pub p99_mb: f64,
}

const DURATIONS: [&str; 7] = [
    "percentile_Average_0",
    "percentile_Average_1",
    "percentile_Average_25",
    "percentile_Average_50",
    "percentile_Average_75",
    "percentile_Average_99",
    "percentile_Average_100",
];

impl Azure2019 {
    /// Reads the three tables of one day.
    pub fn read<R: Read>(
        invocations: R,
        durations: Option<R>,
        memory: Option<R>,
    ) -> Result<Self, TraceError> {
        let mut trace = Self::default();
        let table = Table::open(invocations, &["HashApp", "HashFunction", "Trigger"])?;
        let minutes = minutes(table.columns())?;
        table.rows(|row| {
            let calls = |&at: &usize| {
                let text = row.field(at);
                text.parse().map_err(|_| row.wrong(format!("'{text}' is not a number of calls")))
            };
            trace.functions.push(FunctionRow {
                app: row.text("HashApp").to_owned(),
                function: row.text("HashFunction").to_owned(),
                trigger: row.text("Trigger").to_owned(),
                minutes: minutes.iter().map(calls).collect::<Result<_, _>>()?,
            });
            Ok(())
        })?;
        if let Some(durations) = durations {
            trace.read_durations(durations).map_err(|error| error.of_table("durations"))?;
        }
        if let Some(memory) = memory {
            trace.read_memory(memory).map_err(|error| error.of_table("memory"))?;
        }
        Ok(trace)
    }

    fn read_durations(&mut self, source: impl Read) -> Result<(), TraceError> {
        let needed = [&["HashFunction", "Average", "Count"][..], &DURATIONS].concat();
        Table::open(source, &needed)?.rows(|row| {
            let mut ms = |column: &str| {
                // The published tables have a few negative durations, even averages, because clocks were set
                // back.
                let read = row.number(column);
                self.taken_as_zero += usize::from(read.is_err());
                read.unwrap_or(0.0)
            };
            let read = DurationRow {
                average_ms: ms("Average"),
                percentiles_ms: DURATIONS.map(&mut ms),
                count: row.number("Count")?,
            };
            self.durations.insert(row.text("HashFunction").to_owned(), read);
            Ok(())
        })
    }

    fn read_memory(&mut self, source: impl Read) -> Result<(), TraceError> {
        let needed = ["HashApp", "AverageAllocatedMb", "AverageAllocatedMb_pct99"];
        Table::open(source, &needed)?.rows(|row: &Row<'_>| {
            let read = MemoryRow {
                average_mb: row.number("AverageAllocatedMb")?,
                p99_mb: row.number("AverageAllocatedMb_pct99")?,
            };
            let function = row.text("HashFunction");
            let key = if function.is_empty() { row.text("HashApp") } else { function };
            self.memory.insert(key.to_owned(), read);
            Ok(())
        })
    }

    /// Number of minutes.
    pub fn minutes(&self) -> usize {
        self.functions.first().map_or(0, |function| function.minutes.len())
    }

    /// Whether there is a memory table with rows.
    pub fn has_memory(&self) -> bool {
        !self.memory.is_empty()
    }

    /// The durations of its calls, if known.
    pub fn duration(&self, of: &FunctionRow) -> Option<&DurationRow> {
        self.durations.get(&of.function)
    }

    /// Its memory: its own share if known, otherwise its app's memory.
    pub fn memory(&self, of: &FunctionRow) -> Option<&MemoryRow> {
        self.memory.get(&of.function).or_else(|| self.memory.get(&of.app))
    }
}

/// The columns of the minutes, in order. Columns with a number as name are minutes, whichever the first one
/// is and wherever it stands.
fn minutes(columns: &[String]) -> Result<Vec<usize>, TraceError> {
    let named = columns.iter().enumerate().filter_map(|(at, name)| Some((name.parse::<u32>().ok()?, at)));
    let mut minutes: Vec<(u32, usize)> = named.collect();
    minutes.sort_unstable();
    let wrong = |why: String| Err(TraceError::Line { line: 1, why });
    if minutes.is_empty() {
        return wrong("there is no column of a minute: their names are numbers".into());
    }
    for pair in minutes.windows(2) {
        match pair[1].0 - pair[0].0 {
            0 => return wrong(format!("there are two columns of minute {}", pair[0].0)),
            1 => {}
            _ => return wrong(format!("there is no column of minute {}, but later ones", pair[0].0 + 1)),
        }
    }
    Ok(minutes.into_iter().map(|(_, at)| at).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace::excerpt;

    const CALLS: &str =
        "HashOwner,HashApp,HashFunction,Trigger,1,2,3\no,a,f,http,1,0,22\r\no,a,g,timer,0,1,0\n";

    fn read(calls: &str, durations: &str, memory: &str) -> Result<Azure2019, TraceError> {
        let some = |text: &'static str| (!text.is_empty()).then_some(text.as_bytes());
        // Leaked: a test's few bytes.
        let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        Azure2019::read(leak(calls).as_bytes(), some(leak(durations)), some(leak(memory)))
    }

    #[test]
    fn the_published_format_is_read() {
        let memory = "HashOwner,HashApp,SampleCount,AverageAllocatedMb,AverageAllocatedMb_pct1,AverageAllocatedMb_pct99\no,a,9,120,100,150\n";
        let durations = "HashOwner,HashApp,HashFunction,Average,Count,Minimum,Maximum,percentile_Average_0,percentile_Average_1,percentile_Average_25,percentile_Average_50,percentile_Average_75,percentile_Average_99,percentile_Average_100\no,a,f,-41692,23,-1,99,-1,2,10,20,30,90,99\n";
        let trace = read(CALLS, durations, memory).unwrap();
        assert_eq!(trace.taken_as_zero, 2);
        assert_eq!((trace.minutes(), trace.duration(&trace.functions[0]).unwrap().average_ms), (3, 0.0));
        let f = &trace.functions[0];
        assert_eq!((&*f.trigger, &*f.minutes), ("http", &[1, 0, 22][..]));
        assert_eq!(trace.duration(f).unwrap().percentiles_ms, [0.0, 2.0, 10.0, 20.0, 30.0, 90.0, 99.0]);
        assert_eq!(trace.duration(&trace.functions[1]), None);
        // Memory belongs to the app, so both functions have it.
        assert_eq!(trace.memory(&trace.functions[1]).unwrap().p99_mb, 150.0);
    }

    #[test]
    fn minutes_are_those_that_the_head_names_and_quotes_are_not_part_of_a_field() {
        let text = "\"HashApp\",3,\"HashFunction\",\"2\",Trigger,4\n\"a\",\"33\",\"f,1\",22,\"http\",44\n";
        let trace = read(text, "", "").unwrap();
        let f = &trace.functions[0];
        assert_eq!((&*f.app, &*f.function, &*f.minutes), ("a", "f,1", &[22, 33, 44][..]));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, words) in [
            ("", "there is no column HashApp"),
            ("HashApp,HashFunction,Trigger,1\na,f,http\n", "line 2 of the trace: 3 fields instead of 4"),
            ("HashApp,HashFunction,Trigger,1\na,f,http,-3\n", "'-3' is not a number of calls"),
            ("HashApp,HashFunction,Trigger,1\na,f,http,4294967296\n", "is not a number of calls"),
            ("HashApp,HashFunction,Trigger\na,f,http\n", "there is no column of a minute"),
            ("HashApp,HashFunction,Trigger,1,3\na,f,http,1,1\n", "there is no column of minute 2, but later"),
            ("HashApp,HashFunction,Trigger,1,01\na,f,http,1,1\n", "two columns of minute 1"),
        ] {
            let error = read(text, "", "").unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let endless = format!("HashApp,{}", "x".repeat(1 << 20));
        assert!(read(&endless, "", "").unwrap_err().to_string().contains("longer than any line"));
        let memory = "HashApp,AverageAllocatedMb,AverageAllocatedMb_pct99\na,nan,1\n";
        let error = read(CALLS, "", memory).unwrap_err().to_string();
        assert!(error.ends_with("'nan' instead of a number, in the table of memory"), "{error}");
        let error = read(CALLS, "HashApp\na\n", "").unwrap_err().to_string();
        assert!(error.ends_with("there is no column HashFunction, in the table of durations"), "{error}");
        assert!(Azure2019::read(&b"\xff\xfe\n"[..], None, None).is_err());
    }

    #[test]
    fn the_excerpt_is_whole() {
        let trace = excerpt::of_2019().unwrap();
        assert_eq!(trace.functions.len(), 81);
        for function in &trace.functions {
            assert_eq!(function.minutes.len(), 60);
            assert!((11..100).contains(&function.minutes[..59].iter().sum::<u32>()));
            assert!(trace.duration(function).is_some() && trace.memory(function).is_some());
        }
    }

    proptest! {
        /// For any file: an error or a trace, never a panic.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Azure2019::read(&bytes[..], None, None);
            let head = b"HashApp,HashFunction,Trigger,1,2\n";
            let _ = Azure2019::read(&[&head[..], &bytes].concat()[..], None, None);
            let memory = b"HashApp,AverageAllocatedMb,AverageAllocatedMb_pct99\n";
            let _ = Azure2019::read(&head[..], None, Some(&[&memory[..], &bytes].concat()[..]));
        }

        /// Data written in the format is read back.
        #[test]
        fn a_written_trace_is_read_back(
            rows in prop::collection::vec(("[a-z]{1,8}", "[a-f0-9]{1,8}", prop::collection::vec(any::<u32>(), 5)), 0..20)
        ) {
            let mut text = "HashOwner,HashApp,HashFunction,Trigger,1,2,3,4,5\n".to_owned();
            for (app, function, minutes) in &rows {
                let minutes: Vec<_> = minutes.iter().map(u32::to_string).collect();
                text.push_str(&format!("o,{app},{function},queue,{}\n", minutes.join(",")));
            }
            let trace = Azure2019::read(text.as_bytes(), None, None).unwrap();
            prop_assert_eq!(trace.functions.len(), rows.len());
            for (read, (app, function, minutes)) in trace.functions.iter().zip(&rows) {
                prop_assert_eq!((&read.app, &read.function, &read.minutes), (app, function, minutes));
            }
        }
    }
}
