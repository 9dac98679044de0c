//! The memory budget of the pool when none is configured, from the memory of the host and of Flint's cgroups.

use std::{fs, path::Path};

use flint_model::ByteSize;

/// The pool's default share of it, in percent.
const POOL_PERCENT: u64 = 60;

/// The budget when the host's memory cannot be determined.
const FALLBACK: ByteSize = ByteSize::mib(1024);

/// What `pool.memory` is when it is not set.
pub fn default_budget() -> ByteSize {
    let host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = limits(&cgroups, |path| fs::read_to_string(path).ok());
    host.into_iter().chain(limit).min().map_or(FALLBACK, |bytes| ByteSize::bytes(bytes / 100 * POOL_PERCENT))
}

/// `MemTotal` of /proc/meminfo, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The smallest memory limit of the cgroups named in /proc/self/cgroup and their ancestors.
fn limits(cgroups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut found = Vec::new();
    for line in cgroups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let root = Path::new(root);
        let own = root.join(path.trim_start_matches('/'));
        for group in own.ancestors().take_while(|group| group.starts_with(root)) {
            // `max`, or a number near 2^63 in cgroup v1, means no limit; the minimum with the host's memory
            // covers both.
            found.extend(read(&group.join(file)).and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    found.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_enclosing_limit_counts() {
        let files = |path: &Path| match path.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("1048576\n".to_owned()),
            "/sys/fs/cgroup/memory/x/memory.limit_in_bytes" => Some("2097152\n".to_owned()),
            _ => None,
        };
        assert_eq!(limits("0::/a/b\n", files), Some(1 << 20));
        assert_eq!(limits("9:cpu,cpuacct:/x\n4:memory:/x\n", files), Some(2 << 20));
        assert_eq!(limits("0::/other\n", files), None);
        assert_eq!(total("MemTotal:       2048 kB\nMemFree: 1 kB\n"), Some(2 << 20));
    }
}
