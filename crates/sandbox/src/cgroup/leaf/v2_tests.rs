//! What is written to the control files of v2 and read from them, in a directory that stands for a cgroup.
//! The formats are those of the kernel's `Documentation/admin-guide/cgroup-v2.rst`.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use super::*;

const ALL: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

/// The control files of a cgroup, as Linux 6.12 has them.
struct Pretended {
    scratch: tempfile::TempDir,
}

impl Pretended {
    fn new() -> Self {
        let pretended = Self { scratch: tempfile::tempdir().unwrap() };
        fs::create_dir(pretended.path("")).unwrap();
        for file in ["cgroup.procs", "cgroup.freeze", "cgroup.kill", "pids.max", "cpu.max", "cpu.idle"] {
            pretended.say(file, "");
        }
        for file in ["memory.max", "memory.oom.group", "memory.swap.max"] {
            pretended.say(file, "");
        }
        pretended.say("cgroup.events", "populated 0\nfrozen 0\n");
        pretended.say("memory.current", "4096\n");
        pretended.say("memory.peak", "8192\n");
        pretended.say("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n");
        pretended.say("cpu.stat", "usage_usec 1000\nuser_usec 600\nsystem_usec 400\n");
        pretended
    }

    fn path(&self, file: &str) -> PathBuf {
        self.scratch.path().join("leaf").join(file)
    }

    /// What the kernel says in this file. It stays the same file for those that have it open.
    fn say(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    fn lacks(&self, file: &str) {
        fs::remove_file(self.path(file)).unwrap();
    }

    /// What was written to this file since the last look.
    fn told(&self, file: &str) -> String {
        let text = fs::read_to_string(self.path(file)).unwrap();
        self.say(file, "");
        text
    }

    fn leaf(&self, controllers: &[Controller]) -> Leaf {
        Tree::pretended(self.scratch.path(), controllers).leaf("leaf").unwrap()
    }
}

fn limits(memory_bytes: u64, processes: u32, cpu_millis: u32) -> ResourceLimits {
    ResourceLimits { memory_bytes, processes, cpu_millis, ..ResourceLimits::default() }
}

#[test]
fn limits_are_written_in_bytes_processes_and_microseconds_of_a_period() {
    let group = Pretended::new();
    let mut leaf = group.leaf(&ALL);
    assert_eq!([group.told("memory.oom.group"), group.told("memory.swap.max")], ["1", "0"]);
    leaf.begin(&limits(128 << 20, 10, 250), 2).unwrap();
    let all = || ["memory.max", "pids.max", "cpu.max"].map(|file| group.told(file));
    assert_eq!(all(), ["134217728", "12", "25000 100000"]);
    // The next sandbox with the same limits writes none, and thaws nothing that is not frozen.
    leaf.begin(&limits(128 << 20, 10, 250), 2).unwrap();
    assert_eq!(all(), ["", "", ""]);
    assert_eq!([group.told("cgroup.freeze"), group.told("cpu.idle")], ["", ""]);
    leaf.begin(&limits(1 << 30, 1, 2500), 0).unwrap();
    assert_eq!(all(), ["1073741824", "1", "250000 100000"]);
    // The kernel takes no quota below a millisecond.
    leaf.begin(&limits(1 << 30, 1, 1), 0).unwrap();
    assert_eq!(all()[2], "1000 100000");
}

#[test]
fn a_zygote_has_room_for_its_forks_and_its_successor_has_not() {
    let group = Pretended::new();
    let mut leaf = group.leaf(&ALL);
    let own = 128u64 << 20;
    leaf.begin(&limits(own, 10, 1000), 0).unwrap();
    group.told("memory.max");
    leaf.make_room(3).unwrap();
    assert_eq!(group.told("memory.max"), (own + FORKS_AT_LEAST * (FORK + own / FORK_PART)).to_string());
    leaf.begin(&limits(own, 10, 1000), 0).unwrap();
    assert_eq!(group.told("memory.max"), own.to_string());
}

/// `memory.swap.max` is there where swap is accounted for, `cgroup.kill` from Linux 5.14 on, `cpu.idle` from
/// 5.15 and `memory.peak` from 5.19.
#[test]
fn older_kernels_do_without_what_they_do_not_have() {
    let group = Pretended::new();
    for file in ["memory.swap.max", "memory.oom.group", "cgroup.kill", "cpu.idle", "memory.peak"] {
        group.lacks(file);
    }
    let mut leaf = group.leaf(&ALL);
    leaf.begin(&limits(128 << 20, 10, 1000), 0).unwrap();
    leaf.set_idle(true);
    assert!(!leaf.idle.get());
    assert_eq!(leaf.usage(), Usage { cpu_us: 0, memory_bytes: 4096, memory_peak_bytes: 0 });
    assert!(!leaf.recyclable(), "the peak of the one before would be taken for the next one's");
    assert!(!group.path("cgroup.kill").exists(), "no file is made where the kernel has none");
}

#[test]
fn a_limit_that_cannot_be_set_is_an_error() {
    for file in ["memory.max", "pids.max", "cpu.max"] {
        let group = Pretended::new();
        group.lacks(file);
        let mut leaf = group.leaf(&ALL);
        let refused = leaf.begin(&limits(128 << 20, 10, 1000), 0).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound, "{file}");
        // And is tried again.
        group.say(file, "");
        leaf.begin(&limits(128 << 20, 10, 1000), 0).unwrap();
        assert_ne!(group.told(file), "", "{file}");
    }
}

#[test]
fn a_group_without_controllers_freezes_kills_and_counts_the_processor() {
    let group = Pretended::new();
    for file in ["memory.max", "memory.peak", "memory.events", "pids.max", "cpu.max", "cpu.idle"] {
        group.lacks(file);
    }
    let mut leaf = group.leaf(&[]);
    leaf.begin(&limits(128 << 20, 10, 1000), 0).unwrap();
    group.say("cpu.stat", "usage_usec 1750\nuser_usec 1000\nsystem_usec 750\n");
    assert_eq!(leaf.usage(), Usage { cpu_us: 750, memory_bytes: 0, memory_peak_bytes: 0 });
    assert!(leaf.can_freeze() && leaf.recyclable() && !leaf.oom_killed());
    leaf.kill();
    assert_eq!(group.told("cgroup.kill"), "1");
}

#[test]
fn it_is_frozen_and_vacant_when_the_kernel_says_so() {
    let group = Pretended::new();
    let mut leaf = group.leaf(&ALL);
    leaf.begin(&ResourceLimits::default(), 0).unwrap();
    leaf.freeze(true).unwrap();
    assert_eq!(group.told("cgroup.freeze"), "1");
    assert!(!leaf.is_frozen() && !leaf.needs_thaw_to_die(), "it takes the kernel a while");
    for (events, frozen, vacant) in [
        ("populated 1\nfrozen 0\n", false, false),
        ("populated 1\nfrozen 1\n", true, false),
        ("populated 0\nfrozen 1\n", true, true),
        ("populated 0\n", false, true),
        ("", false, false),
    ] {
        group.say("cgroup.events", events);
        assert_eq!((leaf.is_frozen(), leaf.is_vacant()), (frozen, vacant), "{events:?}");
    }
    leaf.begin(&ResourceLimits::default(), 0).unwrap();
    assert_eq!(group.told("cgroup.freeze"), "0");
}

#[test]
fn the_processor_is_yielded_and_taken_back() {
    let group = Pretended::new();
    let mut leaf = group.leaf(&ALL);
    leaf.set_idle(true);
    assert_eq!(group.told("cpu.idle"), "1");
    leaf.set_idle(true);
    assert_eq!(group.told("cpu.idle"), "", "it is so already");
    leaf.begin(&ResourceLimits::default(), 0).unwrap();
    assert_eq!(group.told("cpu.idle"), "0");
}

#[test]
fn the_kernel_kills_all_at_once_where_it_can() {
    let group = Pretended::new();
    let leaf = group.leaf(&ALL);
    leaf.kill();
    assert_eq!([group.told("cgroup.kill"), group.told("cgroup.freeze")], ["1", ""]);
    // Before Linux 5.14. Processes of other pid namespaces are listed as 0, by which `kill` means the
    // caller's own process group.
    group.lacks("cgroup.kill");
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    group.say("cgroup.procs", &format!("0\n{}\n", child.id()));
    leaf.kill();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    assert_eq!(group.told("cgroup.freeze"), "0", "nothing stays frozen");
}

#[test]
fn processes_are_moved_in_by_number_and_listed_to_the_last() {
    let group = Pretended::new();
    let leaf = group.leaf(&ALL);
    leaf.enter().unwrap();
    assert_eq!(group.told("cgroup.procs"), "", "processes are born into a group of v2");
    leaf.take_in(1234).unwrap();
    assert_eq!(group.told("cgroup.procs"), "1234");
    assert_eq!(leaf.members().unwrap(), Vec::<u32>::new());
    // More than one read brings.
    let many: Vec<u32> = (1_000_000..1_002_000).collect();
    group.say("cgroup.procs", &many.iter().map(|pid| format!("{pid}\n")).collect::<String>());
    assert_eq!(leaf.members().unwrap(), many);
}
