//! Searches for executables and asks them for their version.

use std::{
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use flint_sandbox::Mount;

use super::{
    Family, Runtime,
    question::{self, Unanswered},
    trust,
};

/// Parts of the host that every sandbox sees.
const SEEN_ANYWAY: [&str; 9] = [
    "/usr/bin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/share",
    "/bin",
    "/lib",
    "/lib64",
];

/// How long programs may take to print their versions; reading a runtime from a cold disk takes a second or
/// two.
const PATIENCE: Patience =
    Patience { first: Duration::from_secs(5), alone: Duration::from_secs(10), all: Duration::from_secs(60) };

/// How long to wait for answers.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// For a program that is asked while others are.
    first: Duration,
    /// For one that did not answer then, and is asked again while no other is: a busy host is slow.
    alone: Duration,
    /// From the search's start on, nothing is asked after this time, so that many programs that hang do not
    /// keep the server from starting.
    all: Duration,
}

/// Where to search, and what was found there but is not used.
#[derive(Debug)]
pub(super) struct Search {
    folders: Vec<PathBuf>,
    began: Instant,
    patience: Patience,
    turns: Turns,
    not_used: Mutex<Vec<NotUsed>>,
}

/// Bounds how many programs run at once.
#[derive(Debug)]
struct Turns {
    most: usize,
    taken: Mutex<usize>,
    returned: Condvar,
}

impl Turns {
    fn new(most: usize) -> Self {
        Self { most, taken: Mutex::default(), returned: Condvar::new() }
    }

    /// Waits until so many are free, and takes them; who has all of them is alone.
    fn take(&self, many: usize) -> Taken<'_> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.returned.wait_while(taken, |taken| *taken + many > self.most);
        *free.unwrap_or_else(PoisonError::into_inner) += many;
        Taken { turns: self, many }
    }
}

/// Turns, until it is dropped.
struct Taken<'a> {
    turns: &'a Turns,
    many: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.turns.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.many;
        self.turns.returned.notify_all();
    }
}

/// A runtime that was found but is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotUsed {
    /// Its language.
    pub family: Family,
    /// Its path and the reason.
    pub why: String,
    /// The kind of reason.
    pub because: Because,
}

/// Why a program is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// The server is root, and another user could replace it.
    Replaceable,
    /// It did not print its version in time, or others did not and no time was left to ask it.
    Hangs,
}

impl Search {
    /// Searches PATH and `folders`: each a directory with programs, an installation (with `bin`), or a
    /// directory of installations, as version managers keep them.
    pub(super) fn new(folders: &[PathBuf]) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            folders: folders.to_vec(),
            began: Instant::now(),
            patience: PATIENCE,
            turns: Turns::new(cores),
            not_used: Mutex::default(),
        }
    }

    /// Executables whose name satisfies `wanted`: those on PATH in its order, then those in the directories;
    /// each file once.
    pub(super) fn programs(&self, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        let path = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
        let on_path: Vec<PathBuf> = path;
        let homes = self.homes();
        // fnm keeps each version below a directory `installation`.
        let bins = homes.iter().flat_map(|home| [home.join("bin"), home.join("installation/bin")]);
        let places = on_path.into_iter().chain(self.folders.iter().cloned()).chain(bins);
        unique(places.filter(|place| place.is_absolute()).flat_map(|place| named(&place, &wanted)).collect())
    }

    /// The directories and their entries.
    pub(super) fn homes(&self) -> Vec<PathBuf> {
        let within = self.folders.iter().flat_map(|folder| entries(folder));
        self.folders.iter().cloned().chain(within).collect()
    }

    /// Whether `path` may be run, or used by something that is run. If not, records why.
    pub(super) fn trusts(&self, family: Family, path: &Path) -> bool {
        let Some(why) = trust::objection(path) else { return true };
        self.note(family, format!("{}: {why}", path.display()), Because::Replaceable);
        false
    }

    /// A program's stdout; `None` if it fails or hangs. Records a program that hangs, or is not asked because
    /// others do.
    pub(super) fn ask(&self, family: Family, program: &Path, arguments: &[&str]) -> Option<String> {
        let Patience { first, alone, all } = self.patience;
        let mut waited = None;
        let mut answer = Err(Unanswered::TooLate);
        for (turns, patience) in [(1, first), (self.turns.most, alone)] {
            let _turn = self.turns.take(turns);
            if self.began.elapsed() >= all {
                break;
            }
            waited = Some(patience);
            answer = question::ask(program, arguments, patience);
            if answer != Err(Unanswered::TooLate) {
                break;
            }
        }
        if answer == Err(Unanswered::TooLate) {
            let program = program.display();
            let why = match waited {
                Some(waited) => {
                    format!("{program}: it did not say within {waited:?} what it is, and was ended")
                }
                None => format!(
                    "{program}: it was not asked what it is, since others that were asked before took all of \
                     {all:?}"
                ),
            };
            self.note(family, why, Because::Hangs);
        }
        answer.ok()
    }

    fn note(&self, family: Family, why: String, because: Because) {
        let mut not_used = self.not_used.lock().unwrap_or_else(PoisonError::into_inner);
        not_used.push(NotUsed { family, why, because });
    }

    /// What was found and is not used.
    pub(super) fn not_used(self) -> Vec<NotUsed> {
        let mut not_used = self.not_used.into_inner().unwrap_or_else(PoisonError::into_inner);
        not_used.sort_by(|a, b| a.why.cmp(&b.why));
        not_used.dedup();
        not_used
    }

    /// Asks all programs, some of them at once, since each has to start.
    pub(super) fn ask_all(
        &self,
        family: Family,
        programs: Vec<PathBuf>,
        look: fn(&Self, &Path) -> Option<Runtime>,
    ) -> Vec<Runtime> {
        let trusted = programs.iter().filter(|program| self.trusts(family, program));
        let found = side_by_side(trusted.map(|program| move || look(self, program)));
        // A wrapper may have led to another executable.
        found.into_iter().flatten().filter(|runtime| self.trusts(family, &runtime.program)).collect()
    }
}

/// Does each piece of work on a thread of its own, or on this one if the host allows no more of them. Work that
/// panics is left out.
pub(super) fn side_by_side<T: Send, F: FnOnce() -> T + Copy + Send>(
    works: impl IntoIterator<Item = F>,
) -> Vec<T> {
    thread::scope(|scope| {
        let start = |work: F| (work, thread::Builder::new().spawn_scoped(scope, work));
        let started: Vec<_> = works.into_iter().map(start).collect();
        let end = |(work, thread): (F, io::Result<thread::ScopedJoinHandle<'_, T>>)| match thread {
            Ok(thread) => thread.join().ok(),
            Err(_) => Some(work()),
        };
        started.into_iter().filter_map(end).collect()
    })
}

/// The entries of a directory, sorted by name.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    entries
}

fn named(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let is_wanted = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted);
    entries(folder).into_iter().filter(is_wanted).collect()
}

/// The directory names under which version managers keep versions side by side
/// (`…/versions/3.11.7/bin/python3`).
const SIDE_BY_SIDE: [&str; 2] = ["versions", "installs"];

/// The executables of all versions that a version manager keeps beside `program`, or behind its directory of
/// `shims`.
fn siblings(program: &Path, name: &str) -> Vec<PathBuf> {
    let versions = match program.parent().and_then(Path::file_name).and_then(std::ffi::OsStr::to_str) {
        Some("shims") => program.parent().map(|shims| shims.with_file_name("versions")),
        Some("bin") => program
            .ancestors()
            .nth(3)
            .filter(|above| above.iter().any(|part| SIDE_BY_SIDE.iter().any(|name| part == *name)))
            .map(Path::to_owned),
        _ => None,
    };
    let entries = versions.iter().flat_map(|versions| entries(versions));
    unique(entries.map(|entry| entry.join("bin").join(name)).filter(|path| path.exists()).collect())
}

/// Adds the other versions that a version manager has, and drops its wrappers, which are slow and lead to one
/// of those.
pub(super) fn with_siblings(programs: Vec<PathBuf>, name: &str) -> Vec<PathBuf> {
    let found: Vec<(PathBuf, Vec<PathBuf>)> =
        programs.into_iter().map(|program| (program.clone(), siblings(&program, name))).collect();
    let is_stand_in = |program: &Path, beside: &[PathBuf]| {
        !beside.is_empty()
            && program.parent().and_then(Path::file_name).is_some_and(|folder| folder == "shims")
    };
    let own =
        found.iter().filter(|(program, beside)| !is_stand_in(program, beside)).map(|(program, _)| program);
    unique(own.chain(found.iter().flat_map(|(_, beside)| beside)).cloned().collect())
}

fn unique(programs: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    programs
        .into_iter()
        .filter(|path| known.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())))
        .collect()
}

/// The numbers of `3.11.7`; suffixes (`-ea`, `+1`, `rc1`) are ignored.
pub(super) fn version(text: &str) -> Vec<u32> {
    let numbers =
        text.split('.').map(|part| part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    numbers.map_while(|number| number.parse().ok()).collect()
}

/// The mount that makes `path` visible in a sandbox; `None` if it is visible already. System paths keep their
/// place. Any other, in a home directory for example, appears at `place`, so that a function does not learn
/// where the host keeps it.
pub(super) fn mount(path: &Path, place: &str) -> Option<Mount> {
    if SEEN_ANYWAY.iter().any(|seen| path.starts_with(seen)) {
        return None;
    }
    let is_systems = ["/usr", "/opt"].iter().any(|system| path.starts_with(system));
    let target = if is_systems { path.to_str()?.to_owned() } else { place.to_owned() };
    Some(Mount { source: path.to_owned(), target, readonly: true })
}

/// The mounts that make `path` visible at the host's own path, for interpreters that find their files by
/// absolute paths; `None` if it is not a system path.
pub(super) fn stays(path: &Path) -> Option<Vec<Mount>> {
    match mount(path, "") {
        None => Some(Vec::new()),
        Some(mount) => (Path::new(&mount.target) == path).then(|| vec![mount]),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version("3.11.7"), [3, 11, 7]);
        assert_eq!(version("21-ea"), [21]);
        assert_eq!(version("17.0.15+6"), [17, 0, 15]);
        assert_eq!(version(""), Vec::<u32>::new());
    }

    #[test]
    fn what_is_done_side_by_side_keeps_its_order_and_leaves_out_what_panics() {
        let works = [0, 1, 2].map(|n| {
            move || {
                assert_ne!(n, 1);
                n
            }
        });
        assert_eq!(side_by_side(works), [0, 2]);
    }

    #[test]
    fn other_versions_of_a_manager_are_found() {
        let root = tempfile::tempdir().unwrap();
        for version in ["3.9.1", "3.12.0"] {
            let bin = root.path().join("versions").join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            fs::write(bin.join("python3"), version).unwrap();
        }
        for start in ["shims/python3", "versions/3.9.1/bin/python3"] {
            assert_eq!(siblings(&root.path().join(start), "python3").len(), 2, "{start}");
        }
        assert_eq!(siblings(Path::new("/nowhere/bin/python3"), "python3").len(), 0);
    }

    #[test]
    fn folders_may_hold_programs_an_installation_or_many() {
        let root = tempfile::tempdir().unwrap();
        for place in
            ["plain", "one/bin", "nvm/v18.1.0/bin", "nvm/v22.0.0/bin", "fnm/v24.0.0/installation/bin"]
        {
            fs::create_dir_all(root.path().join(place)).unwrap();
            fs::write(root.path().join(place).join("node"), place).unwrap();
        }
        let search = |names: &[&str]| {
            let folders: Vec<_> = names.iter().map(|name| root.path().join(name)).collect();
            let found = Search::new(&folders).programs(|name| name == "node");
            let here = found.iter().filter_map(|path| path.strip_prefix(root.path()).ok());
            here.map(|path| path.parent().unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(search(&["plain"]), ["plain"]);
        assert_eq!(search(&["one"]), ["one/bin"]);
        assert_eq!(search(&["nvm"]), ["nvm/v18.1.0/bin", "nvm/v22.0.0/bin"]);
        assert_eq!(search(&["fnm", "fnm", "nowhere"]), ["fnm/v24.0.0/installation/bin"]);
    }

    #[test]
    fn what_others_can_replace_is_not_run_by_root_and_named() {
        use std::os::unix::fs::PermissionsExt;

        let root = tempfile::tempdir().unwrap();
        let (program, mark) = (root.path().join("node"), root.path().join("it ran"));
        fs::write(&program, format!("#!/bin/sh\n: > '{}'\n", mark.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o777)).unwrap();
        let look = |search: &Search, program: &Path| {
            search.ask(Family::Node, program, &[]);
            None
        };
        let search = Search::new(&[]);
        assert!(search.ask_all(Family::Node, vec![program], look).is_empty());
        let root_runs = rustix::process::geteuid().is_root();
        assert_eq!(mark.exists(), !root_runs);
        let refused = search.not_used();
        assert_eq!(refused.len(), usize::from(root_runs));
        assert!(refused.iter().all(|one| one.family == Family::Node && one.why.contains("by everybody")));
        assert!(refused.iter().all(|one| one.because == Because::Replaceable));
    }

    const AT_ONCE: Duration = Duration::from_millis(100);
    const PLENTY: Duration = Duration::from_secs(300);

    fn ask_shell(search: &Search, script: &str) -> Option<String> {
        search.ask(Family::Node, Path::new("/bin/sh"), &["-c", script])
    }

    #[test]
    fn what_hangs_is_given_up_and_named() {
        let first = AT_ONCE * 20;
        for (first, all, said) in [
            (AT_ONCE, PLENTY, "did not say within 200ms"),
            (first, first, "did not say within 2s"),
            (
                AT_ONCE,
                Duration::ZERO,
                "was not asked what it is, since others that were asked before took all",
            ),
        ] {
            let mut search = Search::new(&[]);
            search.patience = Patience { first, alone: AT_ONCE * 2, all };
            assert_eq!(ask_shell(&search, "sleep 1000"), None);
            let not_used = search.not_used();
            let [NotUsed { family: Family::Node, why, because: Because::Hangs }] = &not_used[..] else {
                panic!("{not_used:?}")
            };
            assert!(why.contains(&format!("/bin/sh: it {said}")), "{why}");
        }
    }

    #[test]
    fn what_is_slow_on_a_busy_host_is_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let quiet = folder.path().join("quiet");
        let mut search = Search::new(&[]);
        search.patience = Patience { first: AT_ONCE, alone: PLENTY, all: PLENTY };
        let script = format!("while [ ! -e '{}' ]; do sleep 0.02; done; echo 1.2", quiet.display());
        let answer = thread::scope(|scope| {
            let asked = scope.spawn(|| ask_shell(&search, &script));
            thread::sleep(AT_ONCE * 10);
            fs::write(&quiet, "").unwrap();
            asked.join().unwrap()
        });
        assert_eq!(answer.as_deref(), Some("1.2"));
        assert_eq!(search.not_used(), []);
    }

    #[test]
    fn few_programs_are_asked_at_once_and_one_alone() {
        let (turns, running) = (Turns::new(2), AtomicUsize::new(0));
        let at_once = |many: usize| {
            let _turn = turns.take(many);
            let others = running.fetch_add(many, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(5));
            running.fetch_sub(many, Ordering::SeqCst);
            others + many
        };
        // One that panics gives its turns back as well.
        let panicked = thread::scope(|scope| {
            let work = scope.spawn(|| {
                let _turn = turns.take(2);
                panic!("as asked");
            });
            work.join().is_err()
        });
        assert!(panicked);
        thread::scope(|scope| {
            let works: Vec<_> = (0..20).map(|n| scope.spawn(move || at_once(1 + n % 2))).collect();
            assert!(works.into_iter().all(|work| work.join().unwrap() <= 2));
        });
    }

    #[test]
    fn only_what_a_sandbox_does_not_see_is_mounted() {
        let seen_at = |path: &str| mount(Path::new(path), "/opt/node20").map(|mount| mount.target);
        assert_eq!(seen_at("/usr/bin/node"), None);
        assert_eq!(seen_at("/opt/x"), Some("/opt/x".to_owned()));
        assert_eq!(seen_at("/home/me/versions/20/bin/node"), Some("/opt/node20".to_owned()));
        assert_eq!(stays(Path::new("/usr/bin/php8.2")), Some(vec![]));
        assert_eq!(stays(Path::new("/opt/php/bin/php")).unwrap()[0].target, "/opt/php/bin/php");
        assert_eq!(stays(Path::new("/home/me/bin/php")), None);
    }
}
