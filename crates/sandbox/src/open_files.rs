//! The limit of open files. A server needs descriptors for every caller and every sandbox, while shells and
//! service managers usually allow 1,024.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that a process with CAP_SYS_RESOURCE sets.
const WANTED: u64 = 1 << 20;

/// Raises this process's limit, which its children inherit: to [`WANTED`] with CAP_SYS_RESOURCE, otherwise to
/// the hard limit. Returns the limit in force.
pub fn raise_open_files() -> u64 {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let most = fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|most| most.trim().parse().ok());
    let wanted = most.map_or(hard, |most: u64| most.min(WANTED)).max(hard);
    for limit in [wanted, hard] {
        if setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum: Some(limit) }).is_ok() {
            return limit;
        }
    }
    limit()
}

/// The limit of this process.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_at_least_the_hard_one_and_is_what_is_said() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let said = raise_open_files();
        assert!(said >= hard, "{said} of {hard}");
        assert_eq!(limit(), said);
    }
}
