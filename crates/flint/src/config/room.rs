//! Limits the number of connections by the limit of open files.

use super::Config;

/// Descriptors reserved for other uses: enough for some two thousand sandboxes, for each of which the server
/// holds about four.
const RESERVE: u64 = 8192;

/// Maximum numbers of connections, from outside and from sandboxes. Each is a descriptor, and starting a
/// sandbox needs some too: if connections, which need no key, took all of them, no function could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// The limit of open files.
    open_files: u64,
    /// As configured: from outside, and from sandboxes.
    wanted: [usize; 2],
    pub(crate) server: usize,
    pub(crate) gate: usize,
}

impl Room {
    /// For this process, which raises its limit of open files as far as permitted.
    pub(crate) fn of(config: &Config) -> Self {
        let gate = if config.gate.enabled { config.gate.max_connections } else { 0 };
        Self::below(flint_sandbox::raise_open_files(), [config.server.max_connections, gate])
    }

    /// As configured. If that would leave less than [`RESERVE`], or than half of a low limit, both get a
    /// proportional share of the rest.
    fn below(open_files: u64, wanted: [usize; 2]) -> Self {
        let room = open_files - RESERVE.min(open_files / 2);
        let all: u128 = wanted.iter().map(|wanted| *wanted as u128).sum();
        let [server, gate] = wanted.map(|wanted| match wanted as u128 * u128::from(room) {
            _ if all <= u128::from(room) => wanted,
            // At most the configured number, which fits.
            share => ((share / all) as usize).max(1).min(wanted),
        });
        Self { open_files, wanted, server, gate }
    }

    /// A description of the shortage, if any.
    pub(crate) fn lacking(&self) -> Option<String> {
        let keys = [("server.max_connections", self.server), ("gate.max_connections", self.gate)];
        let fewer: Vec<_> = std::iter::zip(keys, self.wanted)
            .filter(|((_, have), wanted)| have < wanted)
            .map(|((key, have), wanted)| format!("{have} instead of {wanted} ({key})"))
            .collect();
        (!fewer.is_empty()).then(|| {
            let fewer = fewer.join(" and ");
            format!("{fewer}: at most {} files may be open, and functions need some of them", self.open_files)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(open_files: u64, wanted: [usize; 2]) -> [usize; 2] {
        let room = Room::below(open_files, wanted);
        assert_eq!(room.lacking().is_some(), [room.server, room.gate] != wanted);
        [room.server, room.gate]
    }

    #[test]
    fn connections_leave_half_of_few_files_and_a_fixed_number_of_many() {
        let usual = [8192, 4096];
        for open_files in [1 << 20, 65_536, 20_480] {
            assert_eq!(below(open_files, usual), usual, "{open_files}");
        }
        assert_eq!(below(16_384, usual), [5461, 2730]);
        assert_eq!(below(600, usual), [200, 100]);
        assert_eq!(below(600, [200, 100]), [200, 100]);
        assert_eq!(below(600, [8192, 0]), [300, 0]);
        assert_eq!(below(600, [usize::MAX, usize::MAX]), [150, 150]);
        assert_eq!(below(u64::MAX, [usize::MAX, 1]), [(u64::MAX - RESERVE - 1) as usize, 1]);
        assert_eq!(below(1, usual), [1, 1]);
        let lacking = Room::below(1024, [8192, 0]).lacking().unwrap();
        assert!(
            lacking.starts_with("512 instead of 8192 (server.max_connections): at most 1024"),
            "{lacking}"
        );
    }
}
