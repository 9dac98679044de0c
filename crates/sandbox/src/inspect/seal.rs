//! Inspection of a zygote at the freeze point, before the first fork.

use std::collections::HashMap;

use super::descriptors::{Descriptor, Kind, Listing};
use super::kept::Kept;
use super::mappings::{MAPPINGS_MAX, Wanted, objection};
use super::{Baseline, Process, Zygote, sockets};
use crate::TMP_FD;
use crate::error::Fault;
use crate::seal::{SealSpec, Sealed};

/// Most reasons of one kind that are reported, each cut to a fixed length. A hostile process can have any
/// number of them, with names as long as paths, and the report must fit into one message even where JSON
/// escapes each byte as six.
const REASONS_MAX: usize = 6;
const REASON_MAX: usize = 1024;
/// Most open descriptors: each copy's are compared with all of them.
const DESCRIPTORS_MAX: usize = 256;
/// Most files with native code that are reported.
const FILES_MAX: usize = 64;
const FILE_MAX: usize = 256;

impl Zygote {
    /// Inspects the sandbox with pid 1 `init` and the processes `members`, and keeps the state that later
    /// checks compare with.
    pub(crate) fn seal(&mut self, init: u32, members: &[u32], expect: &SealSpec) -> Result<Sealed, Fault> {
        self.sealed = None;
        let main = Process(init).main_child(members).ok_or(Fault::Ended)?;
        let look = |error| Fault::step("look at the main process", &error);
        let mut reasons = Vec::new();
        let owner = main.owner().map_err(look)?;
        let task_list = Listing::open(main, "task").map_err(look)?;
        let threads = task_list.numbers().map_err(look)?;
        reasons.extend(extra_threads(main, &threads, expect));
        let children = members.iter().filter(|pid| **pid != init && **pid != main.0).map(|pid| {
            let name = Process(*pid).name();
            format!("a child process is running (process {pid}, {name}): end it, and wait for its end, in beforeSnapshot")
        });
        reasons.extend(children.take(REASONS_MAX));
        let descriptor_list = Listing::open(main, "fd").map_err(look)?;
        let descriptors = descriptor_list.descriptors().map_err(look)?;
        let unexpected =
            descriptors.iter().filter(|descriptor| !expect.descriptors.contains(&descriptor.number));
        let open = unexpected.filter_map(|descriptor| objection_to(main, descriptor, &descriptors));
        reasons.extend(open.take(REASONS_MAX));
        if descriptors.len() > DESCRIPTORS_MAX {
            reasons.push(format!(
                "{} descriptors are open, more than the {DESCRIPTORS_MAX} that each copy is compared with: close them in beforeSnapshot",
                descriptors.len()
            ));
        }
        let shared = main.mappings(Wanted::Shared).map_err(look)?;
        if shared.len() == MAPPINGS_MAX {
            reasons.push(format!(
                "{MAPPINGS_MAX} shared mappings or more are more than are looked at: release them in beforeSnapshot"
            ));
        }
        let mapped = shared.iter().filter_map(|mapping| {
            let what = objection(mapping, &|device| device == self.tmp_device)?;
            Some(format!("{what} would be shared by all copies: release it in beforeSnapshot"))
        });
        reasons.extend(mapped.take(REASONS_MAX));
        let timers = std::fs::read_to_string(main.path("timers")).unwrap_or_default();
        let timers = timers.lines().filter(|line| line.starts_with("ID:")).count();
        if timers > 0 {
            reasons.push(format!(
                "POSIX timers are set ({timers}), which no copy would have: delete them in beforeSnapshot"
            ));
        }
        if main.is_dumpable_of(owner).map_err(look)? {
            reasons.push("the process is dumpable, so that its copies could be inspected: the runtime must call prctl(PR_SET_DUMPABLE, 0)".into());
        }
        if !reasons.is_empty() {
            reasons.iter_mut().for_each(|reason| cut(reason, REASON_MAX));
            return Err(Fault::NotForkable { reasons });
        }
        let mut native_code: Vec<String> = main
            .mappings(Wanted::Code)
            .map_err(look)?
            .into_iter()
            .map(|mapping| mapping.name)
            .filter(|name| !name.is_empty() && !name.starts_with('['))
            .filter(|name| !name.starts_with("/usr/"))
            .filter(|name| !expect.native_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str())))
            .collect();
        native_code.sort();
        native_code.dedup();
        let more = native_code.len().saturating_sub(FILES_MAX);
        native_code.truncate(FILES_MAX);
        native_code.iter_mut().for_each(|file| cut(file, FILE_MAX));
        if more > 0 {
            native_code.push(format!("and {more} more"));
        }
        let memory = main.memory();
        let sealed = Sealed {
            threads: threads.len() as u32,
            descriptors: descriptors.len() as u32,
            private_bytes: memory.map(|memory| memory.private),
            pss_bytes: memory.map(|memory| memory.proportional),
            native_code,
        };
        self.sealed = Some(Baseline {
            main,
            pid_namespace: main.pid_namespace().map_err(look)?,
            owner,
            task_list,
            threads,
            kept: Kept::of(main, &descriptors),
            descriptor_list,
            descriptors,
            passing: HashMap::new(),
        });
        Ok(sealed)
    }
}

fn cut(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

fn extra_threads(main: Process, threads: &[u32], expect: &SealSpec) -> Option<String> {
    let names: Vec<String> = threads
        .iter()
        .filter(|thread| **thread != main.0)
        .map(|thread| {
            let name = std::fs::read_to_string(main.path(&format!("task/{thread}/comm"))).unwrap_or_default();
            name.trim_end().to_owned()
        })
        .collect();
    let known = expect.thread_names.is_empty() || names.iter().all(|name| expect.thread_names.contains(name));
    if names.len() <= expect.extra_threads as usize && known {
        return None;
    }
    Some(format!(
        "{} threads are running besides the main one ({}), at most {} of the runtime's own can be: a copy has none of them. End them in beforeSnapshot; \
         for numerical libraries set their number of threads to 1",
        names.len(),
        names.join(", "),
        expect.extra_threads
    ))
}

/// Why a descriptor must not be open at the freeze point; `None` if it may be.
fn objection_to(main: Process, descriptor: &Descriptor, all: &[Descriptor]) -> Option<String> {
    let number = descriptor.number;
    if (0..4).contains(&number) || number == TMP_FD {
        return None;
    }
    let close = |what: String| Some(format!("{what} is open (fd {number}): close it in beforeSnapshot"));
    match descriptor.kind {
        Kind::Event | Kind::Device => None,
        Kind::Socket => close(sockets::describe(main, &descriptor.target)),
        Kind::Pipe => {
            // With both ends in this process it is how an event loop wakes itself up.
            let ends = all.iter().filter(|other| other.target == descriptor.target).count();
            if ends >= 2 { None } else { close("a pipe".into()) }
        }
        Kind::Anonymous => close(descriptor.target.clone()),
        Kind::Memory => close(format!("shared memory ({})", descriptor.target)),
        Kind::Path => match main.is_writable(number) {
            Ok(true) => close(format!("{}, for writing,", descriptor.target)),
            // An error means that it was closed meanwhile.
            Ok(false) | Err(_) => None,
        },
    }
}
