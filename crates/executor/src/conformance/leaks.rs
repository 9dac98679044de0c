//! Rule 3, continued: nothing is left of instances that have ended.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    Subject,
    subject::{AMPLE, PATIENCE, context},
};

/// How many instances start at the same time.
const AT_ONCE: usize = 4;
/// The pause between two measurements.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After so many equal measurements the figures are taken as settled.
const STILL: u32 = 10;

/// The resources of this process and its descendants.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    descriptors: usize,
    processes: usize,
    mounts: usize,
    groups: usize,
    files: usize,
}

impl Held {
    /// Whether no more is held than before, apart from what is kept for the next start.
    fn is_within(&self, before: &Self) -> bool {
        let slack = AT_ONCE;
        self.descriptors <= before.descriptors + slack
            && self.processes <= before.processes
            && self.mounts <= before.mounts + slack
            && self.groups <= before.groups + slack * 3
            && self.files <= before.files + slack
    }
}

/// Starts and stops this many instances, some of them by force in the middle of a call, and compares the
/// resources held before and after. Must be the only test in its process.
pub async fn nothing_is_left(subject: &Subject, starts: usize) {
    let prepared = subject.executor.prepare(subject.laboratory(), &|_| {}).await.expect("it can be prepared");
    let round = async |at_once: usize| {
        let mut tasks = Vec::new();
        for n in 0..at_once {
            let (executor, prepared) =
                (std::sync::Arc::clone(&subject.executor), std::sync::Arc::clone(&prepared));
            tasks.push(tokio::spawn(async move {
                let instance = executor.start(&prepared, context(AMPLE)).await.expect("it starts").instance;
                let op = ["echo", "exit", "loop", "crash"][n % 4];
                let call = super::subject::request(op, json!({ "text": 1 }), Duration::from_millis(50));
                drop(instance.invoke(call).await);
                if n % 2 == 0 {
                    instance.stop().await;
                } else {
                    // Dropping an instance ends it too.
                    let ended = instance.ended();
                    ended.await;
                }
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
    };
    // Networks and cgroups are kept for later starts, as many as were ever in use at once. Some rounds bring
    // that number to its maximum.
    round(AT_ONCE * 4).await;
    for _ in 0..5 {
        round(AT_ONCE).await;
    }
    let before = settled(subject).await;
    for _ in 0..starts.div_ceil(AT_ONCE) {
        round(AT_ONCE).await;
    }
    // The last instances may still be ending, and spare resources are being replaced.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let after = held(subject);
        if after.is_within(&before) {
            return;
        }
        assert!(Instant::now() < deadline, "before {before:?}, after {after:?}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The resources held once they have not changed for a while: on a busy machine work in progress may stand
/// still for some time.
async fn settled(subject: &Subject) -> Held {
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut same) = (held(subject), 0);
    while same < STILL && Instant::now() < deadline {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = held(subject);
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

fn held(subject: &Subject) -> Held {
    let family = descendants();
    let lines = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/mountinfo")).map_or(0, |text| text.lines().count())
    };
    Held {
        descriptors: count(Path::new("/proc/self/fd"))
            + family.iter().map(|pid| count(Path::new(&format!("/proc/{pid}/fd")))).sum::<usize>(),
        processes: family.len(),
        mounts: lines(&std::process::id()) + family.iter().map(lines).sum::<usize>(),
        groups: groups(Path::new("/sys/fs/cgroup"), &subject.mark, 0),
        files: subject.folders.iter().map(|folder| below(folder)).sum(),
    }
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

fn below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            1 + if entry.file_type().is_ok_and(|kind| kind.is_dir()) { below(&entry.path()) } else { 0 }
        })
        .sum()
}

/// Counts the cgroups whose path contains the mark.
fn groups(folder: &Path, mark: &str, depth: usize) -> usize {
    const DEEPEST: usize = 8;
    if depth > DEEPEST {
        return 0;
    }
    let folders: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    let own = folders.iter().filter(|folder| folder.to_string_lossy().contains(mark)).count();
    own + folders.iter().map(|folder| groups(folder, mark, depth + 1)).sum::<usize>()
}

/// Processes whose chain of parents leads to this process.
fn descendants() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: HashMap<u32, u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The fields are: pid (name) state parent …; the name may contain any character.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let here = std::process::id();
    let leads_here = |pid: &u32| {
        let mut at = *pid;
        for _ in 0..64 {
            match parents.get(&at) {
                Some(parent) if *parent == here => return true,
                Some(parent) => at = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(leads_here).collect()
}
