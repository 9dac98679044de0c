//! This server's own directory in each hierarchy.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Controller, Layout, Leaf, Version, put};

/// The server's group in each hierarchy in use, and what each is used for.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Where each controller is.
    controllers: Vec<(Controller, Version, PathBuf)>,
    /// The group in v2, used (also without controllers) to freeze, to kill and to measure CPU time.
    unified: Option<PathBuf>,
    /// What this host does not give, for messages.
    pub(crate) missing: Vec<String>,
}

impl Tree {
    /// Creates the groups, named `name`, below this process's own. Where v2 asks for it, `server` and this process are moved into a leaf of
    /// their own; with `None` nothing is moved.
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

    /// Where [`Self::create`] may make a group of that name: known before it makes one, so that no crash leaves a group that nobody knows of.
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
        let mut last = None;
        for parent in [own, root] {
            match unified_group(parent, name, server, &wanted) {
                Ok(directory) => {
                    self.controllers.extend(wanted.iter().map(|c| (*c, Version::V2, directory.clone())));
                    self.unified = Some(directory);
                    return;
                }
                Err(error) => last = Some(error),
            }
        }
        // Without controllers a group can still freeze, kill and count.
        match make(&own.join(name)) {
            Ok(()) => self.unified = Some(own.join(name)),
            Err(error) => self.missing.push(format!("unified cgroup (v2) in {}: {error}", own.display())),
        }
        if let Some(error) = last {
            for controller in wanted {
                self.missing.push(format!(
                    "{} cgroup (v2) is not delegated to this user: {error}",
                    controller.name()
                ));
            }
        }
    }

    /// Where `controller` is.
    pub(crate) fn place(&self, controller: Controller) -> Option<(Version, &Path)> {
        let found = self.controllers.iter().find(|(other, ..)| *other == controller);
        found.map(|(_, version, path)| (*version, path.as_path()))
    }

    pub(crate) fn unified(&self) -> Option<&Path> {
        self.unified.as_deref()
    }

    /// Whether limits can be set at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.controllers.is_empty() && self.unified.is_none()
    }

    /// All directories, each once.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = self.controllers.iter().map(|(.., path)| path.clone()).collect();
        all.extend(self.unified.clone());
        all.sort();
        all.dedup();
        all
    }

    /// As on a host that has v1 only.
    #[cfg(test)]
    pub(super) fn without_v2(mut self) -> Self {
        if let Some(unified) = self.unified.take() {
            let _ = fs::remove_dir(unified);
        }
        self.controllers.retain(|(_, version, _)| *version == Version::V1);
        self
    }

    /// A new leaf for one sandbox.
    pub(crate) fn leaf(&self, name: &str) -> io::Result<Leaf> {
        Leaf::create(self, name)
    }
}

/// Makes a directory unless it is there.
fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Makes the group `name` below `parent` with `wanted` controllers usable in its children.
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
    if let Err(error) = enable(parent) {
        // v2 lets a group have either processes or children with controllers: make room if only the server's own processes are here.
        let Some(server) = server else { return Err(error) };
        if error.raw_os_error() != Some(libc::EBUSY) || !only_ours(parent, server)? {
            return Err(error);
        }
        let supervisor = parent.join("supervisor");
        make(&supervisor)?;
        for pid in processes(parent)? {
            put(&supervisor, "cgroup.procs", pid)?;
        }
        enable(parent)?;
    }
    let directory = parent.join(name);
    make(&directory)?;
    enable(&directory).inspect_err(|_| {
        let _ = fs::remove_dir(&directory);
    })?;
    Ok(directory)
}

pub(super) fn processes(directory: &Path) -> io::Result<Vec<u32>> {
    let text = fs::read_to_string(directory.join("cgroup.procs"))?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn only_ours(directory: &Path, server: u32) -> io::Result<bool> {
    Ok(processes(directory)?.into_iter().all(|pid| pid == server || pid == std::process::id()))
}
