//! Recorded loads: Microsoft's Azure Functions traces of 2019 and 2021, their use by Photons@Graal, and loads
//! drawn from their distributions.

mod azure2019;
mod azure2021;
mod photons;
mod quantiles;
mod synthetic;
mod table;
mod whole;

pub use azure2019::{Azure2019, DurationRow, FunctionRow, MemoryRow};
pub use azure2021::{Azure2021, CallRow};
pub use photons::{Replay, Wanted, select};
pub use quantiles::Quantiles;
pub use synthetic::{SyntheticApp, SyntheticFunction, Trigger, apps};
pub use whole::{Part, TracedCall, WholeTrace};

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read the trace: {0}")]
    Read(#[from] std::io::Error),
    /// It is not the table it should be.
    #[error("line {line} of the trace: {why}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

impl TraceError {
    /// Adds the name of the table in which the error is.
    fn of_table(self, name: &str) -> Self {
        match self {
            Self::Line { line, why } => Self::Line { line, why: format!("{why}, in the table of {name}") },
            read @ Self::Read(_) => read,
        }
    }
}

/// The excerpts that come with Flint; `crates/lab/data/azure/README.md` describes them and their licence.
pub mod excerpt {
    use super::{Azure2019, Azure2021, TraceError};

    /// An hour of 81 functions of 2019.
    pub fn of_2019() -> Result<Azure2019, TraceError> {
        Azure2019::read(
            &include_bytes!("../../data/azure/invocations.csv")[..],
            Some(&include_bytes!("../../data/azure/durations.csv")[..]),
            Some(&include_bytes!("../../data/azure/memory.csv")[..]),
        )
    }

    /// The first 150 calls of 2021.
    pub fn of_2021() -> Result<Azure2021, TraceError> {
        Azure2021::read(&include_bytes!("../../data/azure/invocations2021.csv")[..])
    }
}
