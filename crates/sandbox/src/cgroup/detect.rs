//! Which cgroup hierarchies this host has, and the cgroup of this process in each.

use std::fs;
use std::path::{Path, PathBuf};

/// The controllers that sandboxes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Controller {
    Memory,
    Pids,
    Cpu,
    Cpuacct,
    Freezer,
}

impl Controller {
    pub(crate) const ALL: [Self; 5] = [Self::Memory, Self::Pids, Self::Cpu, Self::Cpuacct, Self::Freezer];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Freezer => "freezer",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// Directories of this process, one for each hierarchy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// v1 controllers with this process's directory. Co-mounted controllers share one.
    pub(crate) v1: Vec<(Controller, PathBuf)>,
    /// v2: this process's directory and the root of the mount.
    pub(crate) v2: Option<(PathBuf, PathBuf)>,
    /// Controllers of v2 that exist at the root of the mount.
    pub(crate) v2_controllers: Vec<String>,
}

impl Layout {
    /// Reads `/proc/self/cgroup` and the mount table.
    pub(crate) fn of_this_process() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut layout = Self::parse(&mounts, &own, |path| path.is_dir());
        if let Some((_, root)) = &layout.v2 {
            let text = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            layout.v2_controllers = text.split_whitespace().map(str::to_owned).collect();
        }
        layout
    }

    fn parse(mountinfo: &str, own: &str, exists: impl Fn(&Path) -> bool) -> Self {
        let mut layout = Self::default();
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (&[_, _, _, root, point, ..], &[kind, _, options, ..]) = (left.as_slice(), right.as_slice())
            else {
                continue;
            };
            let point = PathBuf::from(point.replace("\\040", " "));
            match kind {
                "cgroup2" if layout.v2.is_none() => {
                    let place = place(own, "", &point, root, &exists);
                    layout.v2 = Some((place, point));
                }
                "cgroup" => {
                    for controller in Controller::ALL {
                        let known = layout.v1.iter().any(|(other, _)| *other == controller);
                        if !known && options.split(',').any(|option| option == controller.name()) {
                            let place = place(own, controller.name(), &point, root, &exists);
                            layout.v1.push((controller, place));
                        }
                    }
                }
                _ => {}
            }
        }
        layout
    }

    /// One word for people: `v1`, `v2`, `hybrid` or `none`.
    pub(crate) fn mode(&self) -> &'static str {
        match (self.v1.is_empty(), &self.v2) {
            (true, None) => "none",
            (true, Some(_)) => "v2",
            (false, None) => "v1",
            (false, Some(_)) => "hybrid",
        }
    }
}

/// The directory of this process in a hierarchy that is mounted at `point` and shows the subtree from `root`
/// on.
fn place(own: &str, controller: &str, point: &Path, root: &str, exists: &impl Fn(&Path) -> bool) -> PathBuf {
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let found = if controller.is_empty() {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|other| other == controller)
        };
        found.then_some(path)
    });
    let below = path.and_then(|path| path.strip_prefix(root.trim_end_matches('/'))).unwrap_or("");
    let place = point.join(below.trim_start_matches('/'));
    // In a container without a cgroup namespace, `/proc/self/cgroup` has the host's path, which the mount
    // does not show.
    if exists(&place) { place } else { point.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_with_nested_memory() {
        let mounts = "\
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/\n";
        let layout = Layout::parse(mounts, own, |_| true);
        assert_eq!(layout.mode(), "hybrid");
        assert!(layout.v1.contains(&(Controller::Memory, "/sys/fs/cgroup/memory/a/b".into())));
        assert!(layout.v1.contains(&(Controller::Cpuacct, "/sys/fs/cgroup/cpu,cpuacct/".into())));
    }

    #[test]
    fn container_that_sees_only_its_own_subtree() {
        let mounts = "33 30 0:29 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n";
        let layout = Layout::parse(mounts, "0::/docker/x/y\n", |_| true);
        assert_eq!(layout.v2, Some(("/sys/fs/cgroup/y".into(), "/sys/fs/cgroup".into())));
        let layout = Layout::parse(mounts, "0::/docker/x/y\n", |path| path == Path::new("/sys/fs/cgroup"));
        assert_eq!(layout.v2, Some(("/sys/fs/cgroup".into(), "/sys/fs/cgroup".into())));
    }
}
