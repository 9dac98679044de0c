//! The server's own cgroup in each hierarchy, below which every sandbox has a leaf.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Controller, Layout, Leaf, Version, put, read};

/// How often [`make_room`] tries again while new processes appear.
const MOVES: u32 = 10;

/// The server's cgroup in each hierarchy in use, and the controllers that each provides.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The directory that provides each controller.
    controllers: Vec<(Controller, Version, PathBuf)>,
    /// The v2 cgroup. Even without controllers it can freeze, kill and account for CPU time.
    unified: Option<PathBuf>,
    /// What this host does not provide, for messages.
    pub(crate) missing: Vec<String>,
}

impl Tree {
    /// Creates cgroups called `name` below this process's own. v2 allows no processes beside children with
    /// controllers, so `server`, this process and their children are moved into a leaf of their own where
    /// necessary. With `None` nothing is moved, and cgroups that would need it are named but not created.
    pub(crate) fn create(name: &str, server: Option<u32>) -> Self {
        let layout = Layout::of_this_process();
        let mut tree = Self { controllers: Vec::new(), unified: None, missing: Vec::new() };
        for (controller, place) in &layout.v1 {
            let directory = place.join(name);
            match make(&directory) {
                Ok(()) => tree.controllers.push((*controller, Version::V1, directory)),
                Err(error) => tree.missing.push(format!("{} cgroup (v1): {error}", controller.name())),
            }
        }
        if let Some((own, root)) = &layout.v2 {
            tree.create_unified(name, server, own, root, &layout.v2_controllers);
        }
        for controller in [Controller::Memory, Controller::Pids, Controller::Cpu] {
            let known = tree.missing.iter().any(|text| text.starts_with(controller.name()));
            if tree.place(controller).is_none() && !known {
                tree.missing
                    .push(format!("{} cgroup: no hierarchy of this host offers it", controller.name()));
            }
        }
        tree
    }

    /// Where [`Self::create`] may create a cgroup of that name. The launcher writes these paths to its state
    /// file first, so that a crash leaves no cgroup that a sweep does not know of.
    pub(crate) fn places(name: &str) -> Vec<PathBuf> {
        let layout = Layout::of_this_process();
        let unified = layout.v2.iter().flat_map(|(own, root)| [own.clone(), root.clone()]);
        let mut all: Vec<PathBuf> = layout.v1.iter().map(|(_, place)| place.clone()).chain(unified).collect();
        all.sort();
        all.dedup();
        all.into_iter().map(|place| place.join(name)).collect()
    }

    fn create_unified(
        &mut self,
        name: &str,
        server: Option<u32>,
        own: &Path,
        root: &Path,
        controllers: &[String],
    ) {
        let wanted: Vec<Controller> = [Controller::Memory, Controller::Pids, Controller::Cpu]
            .into_iter()
            .filter(|controller| controllers.iter().any(|name| name == controller.name()))
            .filter(|controller| self.place(*controller).is_none())
            .collect();
        let given = read(own, "cgroup.controllers").unwrap_or_default();
        let of_own: Vec<Controller> = wanted
            .iter()
            .copied()
            .filter(|controller| given.split_whitespace().any(|name| name == controller.name()))
            .collect();
        // All controllers where that is possible, otherwise those that this process's own cgroup was given.
        let has_all = of_own.len() == wanted.len();
        let attempts = [(own, &wanted, has_all), (root, &wanted, true), (own, &of_own, !has_all)];
        let not_given = |controller: &Controller| {
            format!(
                "{} cgroup (v2) is not delegated to this user: {} was not given it",
                controller.name(),
                own.display()
            )
        };
        let mut why = None;
        for (parent, part, _) in attempts.into_iter().filter(|(_, _, sensible)| *sensible) {
            if part.is_empty() && !wanted.is_empty() {
                continue;
            }
            match unified_group(parent, name, server, part) {
                Ok(directory) => {
                    self.adopt(directory, part);
                    self.missing.extend(wanted.iter().filter(|one| !part.contains(one)).map(not_given));
                    return;
                }
                // The first failure, that in our own cgroup, says most about the cause.
                Err(error) => why = why.or(Some(error)),
            }
        }
        // The kernel may refuse only one, as it refuses cpu where real-time tasks run (CONFIG_RT_GROUP_SCHED).
        for (parent, part) in [(own, &of_own), (root, &wanted)] {
            let (enabled, refused) = separately(part, |one| unified_group(parent, name, server, &[one]));
            if enabled.is_empty() {
                continue;
            }
            if let Ok(directory) = unified_group(parent, name, server, &enabled) {
                self.adopt(directory, &enabled);
                for (controller, error) in refused {
                    self.missing
                        .push(format!("{} cgroup (v2) cannot be enabled: {error}", controller.name()));
                }
                self.missing.extend(wanted.iter().filter(|one| !part.contains(one)).map(not_given));
                return;
            }
        }
        // A cgroup without controllers can still freeze, kill and count CPU time.
        match make(&own.join(name)) {
            Ok(()) => self.unified = Some(own.join(name)),
            Err(error) => self.missing.push(format!("unified cgroup (v2) in {}: {error}", own.display())),
        }
        if let Some(error) = why {
            for controller in wanted {
                self.missing.push(format!(
                    "{} cgroup (v2) is not delegated to this user: {error}",
                    controller.name()
                ));
            }
        }
    }

    /// Uses a v2 cgroup in which these controllers are enabled.
    fn adopt(&mut self, directory: PathBuf, enabled: &[Controller]) {
        self.controllers.extend(enabled.iter().map(|one| (*one, Version::V2, directory.clone())));
        self.unified = Some(directory);
    }

    /// The version and directory that provide `controller`.
    pub(crate) fn place(&self, controller: Controller) -> Option<(Version, &Path)> {
        let found = self.controllers.iter().find(|(other, ..)| *other == controller);
        found.map(|(_, version, path)| (*version, path.as_path()))
    }

    pub(crate) fn unified(&self) -> Option<&Path> {
        self.unified.as_deref()
    }

    /// Whether there is no cgroup to put sandboxes into.
    pub(crate) fn is_empty(&self) -> bool {
        self.controllers.is_empty() && self.unified.is_none()
    }

    /// Every directory once.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = self.controllers.iter().map(|(.., path)| path.clone()).collect();
        all.extend(self.unified.clone());
        all.sort();
        all.dedup();
        all
    }

    /// Simulates a host that has v1 only.
    #[cfg(test)]
    pub(super) fn without_v2(mut self) -> Self {
        if let Some(unified) = self.unified.take() {
            let _ = fs::remove_dir(unified);
        }
        self.controllers.retain(|(_, version, _)| *version == Version::V1);
        self
    }

    /// A tree of v2 in a directory that stands for a cgroup with these controllers.
    #[cfg(test)]
    pub(super) fn pretended(place: &Path, controllers: &[Controller]) -> Self {
        let controllers = controllers.iter().map(|one| (*one, Version::V2, place.to_owned())).collect();
        Self { controllers, unified: Some(place.to_owned()), missing: Vec::new() }
    }

    /// A new leaf for one sandbox.
    pub(crate) fn leaf(&self, name: &str) -> io::Result<Leaf> {
        Leaf::create(self, name)
    }
}

/// Creates a directory unless it exists.
fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Those of `controllers` that can be enabled, each by itself, and why the others cannot.
fn separately(
    controllers: &[Controller],
    enable: impl Fn(Controller) -> io::Result<PathBuf>,
) -> (Vec<Controller>, Vec<(Controller, io::Error)>) {
    let (mut enabled, mut refused) = (Vec::new(), Vec::new());
    for controller in controllers {
        match enable(*controller) {
            Ok(_) => enabled.push(*controller),
            Err(error) => refused.push((*controller, error)),
        }
    }
    (enabled, refused)
}

/// Creates the cgroup `name` below `parent`, with the `wanted` controllers enabled for its children.
fn unified_group(
    parent: &Path,
    name: &str,
    server: Option<u32>,
    wanted: &[Controller],
) -> io::Result<PathBuf> {
    let enable = |directory: &Path| -> io::Result<()> {
        for controller in wanted {
            put(directory, "cgroup.subtree_control", format_args!("+{}", controller.name()))?;
        }
        Ok(())
    };
    // The rule of v2 that a cgroup has either processes or children with controllers does not apply to the
    // root, the only cgroup without a `cgroup.type`. Threaded controllers could be enabled beside processes,
    // but their children would then accept threads only.
    let is_root = !parent.join("cgroup.type").exists();
    if !wanted.is_empty() && !is_root && !processes(parent)?.is_empty() {
        if !only_ours(parent, server)? {
            let text = format!(
                "there are other processes in {}: start flint in a group of its own",
                parent.display()
            );
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        if server.is_none() {
            return Ok(parent.join(name));
        }
        make_room(parent)?;
    }
    enable(parent)?;
    let directory = parent.join(name);
    make(&directory)?;
    enable(&directory).inspect_err(|_| {
        let _ = fs::remove_dir(&directory);
    })?;
    Ok(directory)
}

/// Moves all processes of a cgroup into a leaf beside the sandboxes'.
fn make_room(parent: &Path) -> io::Result<()> {
    let supervisor = parent.join("supervisor");
    make(&supervisor)?;
    // The server may start short-lived programs meanwhile, or they may end.
    for _ in 0..MOVES {
        let here = processes(parent)?;
        if here.is_empty() {
            break;
        }
        for pid in here {
            match put(&supervisor, "cgroup.procs", pid) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

pub(super) fn processes(directory: &Path) -> io::Result<Vec<u32>> {
    let text = fs::read_to_string(directory.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Whether the cgroup holds only this process, the server and their children.
fn only_ours(directory: &Path, server: Option<u32>) -> io::Result<bool> {
    let own = [Some(std::process::id()), server];
    let is_own = |pid| own.contains(&Some(pid));
    // Processes of other pid namespaces are listed as 0.
    let is_ours = |pid| pid != 0 && (is_own(pid) || parent_of(pid).is_none_or(is_own));
    Ok(processes(directory)?.into_iter().all(is_ours))
}

/// The parent of a process; `None` when it has ended.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name, in parentheses, may contain any character; state and parent follow it.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A v2 cgroup with these controllers delegated.
    fn group(directory: &Path, controllers: &str) {
        fs::create_dir_all(directory).unwrap();
        for (file, text) in [("cgroup.controllers", controllers), ("cgroup.subtree_control", "")] {
            fs::write(directory.join(file), text).unwrap();
        }
    }

    /// systemd delegates memory and pids to a user's services, and cpu only where it is configured.
    #[test]
    fn what_was_delegated_is_used_though_it_is_not_all() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, own) = (scratch.path().join("root"), scratch.path().join("root/own"));
        group(&own, "memory pids");
        group(&own.join("name"), "memory pids");
        let mut tree = Tree { controllers: Vec::new(), unified: None, missing: Vec::new() };
        // The root is not writable for this user.
        tree.create_unified("name", None, &own, &root, &["memory", "pids", "cpu"].map(str::to_owned));
        let place = own.join("name");
        for controller in [Controller::Memory, Controller::Pids] {
            assert_eq!(tree.place(controller), Some((Version::V2, place.as_path())), "{tree:?}");
        }
        assert_eq!((tree.place(Controller::Cpu), tree.unified()), (None, Some(place.as_path())));
        assert!(tree.missing.len() == 1 && tree.missing[0].starts_with("cpu cgroup"), "{:?}", tree.missing);
    }

    /// Plain files refuse no single controller, as the kernel does.
    #[test]
    fn one_controller_that_is_refused_costs_only_itself() {
        let all = [Controller::Memory, Controller::Pids, Controller::Cpu];
        let (enabled, refused) = separately(&all, |controller| match controller {
            Controller::Cpu => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            _ => Ok(PathBuf::new()),
        });
        assert_eq!(enabled, [Controller::Memory, Controller::Pids]);
        assert!(
            matches!(&refused[..], [(Controller::Cpu, error)] if error.raw_os_error() == Some(libc::EINVAL))
        );
    }

    /// Below the root, a cgroup of v2 has processes or children with controllers, not both.
    #[test]
    fn processes_make_room_before_controllers_are_enabled() {
        let scratch = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let text = |file: PathBuf| fs::read_to_string(file).unwrap();
        for is_root in [false, true] {
            let parent = scratch.path().join(if is_root { "root" } else { "below" });
            let (place, supervisor) = (parent.join("name"), parent.join("supervisor"));
            for directory in [&parent, &place, &supervisor] {
                group(directory, "pids");
            }
            fs::write(parent.join("cgroup.procs"), format!("{own}\n")).unwrap();
            fs::write(supervisor.join("cgroup.procs"), "").unwrap();
            if !is_root {
                fs::write(parent.join("cgroup.type"), "domain\n").unwrap();
            }
            assert_eq!(unified_group(&parent, "name", Some(own), &[Controller::Pids]).unwrap(), place);
            let moved = if is_root { String::new() } else { own.to_string() };
            assert_eq!(text(supervisor.join("cgroup.procs")), moved);
            // A controller reaches the leaves only if each cgroup above them enables it for its children.
            for directory in [&parent, &place] {
                assert_eq!(text(directory.join("cgroup.subtree_control")), "+pids");
            }
        }
    }

    #[test]
    fn a_cgroup_that_cannot_enable_its_controllers_is_not_left_behind() {
        let scratch = tempfile::tempdir().unwrap();
        group(scratch.path(), "pids");
        // What is made in this directory has no control files.
        let refused = unified_group(scratch.path(), "name", None, &[Controller::Pids]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        assert!(!scratch.path().join("name").exists());
        // Without controllers there is nothing to enable.
        let place = unified_group(scratch.path(), "name", None, &[]).unwrap();
        assert!(place.is_dir());
    }

    #[test]
    fn what_was_started_from_here_is_no_stranger() {
        let scratch = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let own = std::process::id();
        group(scratch.path(), "pids");
        fs::write(scratch.path().join("cgroup.type"), "domain\n").unwrap();
        // Whether the cgroup could be used once its processes were moved away.
        let here = |pids: &[u32]| {
            let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
            fs::write(scratch.path().join("cgroup.procs"), text).unwrap();
            match unified_group(scratch.path(), "name", None, &[Controller::Pids]) {
                Ok(place) => place == scratch.path().join("name") && !place.exists(),
                Err(error) => {
                    assert!(error.to_string().contains("other processes"), "{error}");
                    false
                }
            }
        };
        assert!(here(&[own, child.id()]) && !here(&[own, 0]));
        let stranger = parent_of(own).filter(|pid| *pid != 0);
        assert!(stranger.is_none_or(|pid| !here(&[own, pid])));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
