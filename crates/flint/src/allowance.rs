//! What the host lets this process have: address space and threads. Looked at before a server starts anything,
//! since libraries end with a panic where they are refused either.

use std::{io, sync::RwLock, thread};

use flint_api_native::resource::{AbilityResource, AbilityState};
use rustix::process::{Resource, getrlimit};

use crate::failure::Failure;

const GIB: u64 = 1 << 30;
/// Twice what an idle server reserves, for its heaps and for the stacks of its threads.
const LEAST_SPACE: u64 = 4 * GIB;
const MORE_SPACE: &str = "start it where `ulimit -v` says unlimited (LimitAS=infinity in a systemd unit); pool.memory bounds what functions use";
const MORE_THREADS: &str = "raise the limit of this user's processes (ulimit -u, LimitNPROC= of a systemd unit) or that of the cgroup (TasksMax= of a unit, --pids-limit of a container)";

/// Whether a server with so many threads can live with this process's limits.
pub(crate) fn check(threads: usize) -> Result<(), Failure> {
    check_space(space())?;
    can_start(threads).map_err(|error| {
        let text = format!("this process may not start the {threads} threads that a server needs: {error}");
        Failure::local(text).hint(MORE_THREADS)
    })
}

/// An entry if the address space is limited.
pub(crate) fn limited_space() -> Option<AbilityResource> {
    space().map(|bytes| AbilityResource {
        name: "address-space".to_owned(),
        state: AbilityState::Limited,
        detail: format!(
            "at most {} (ulimit -v): a server needs {}, and instances of WebAssembly reserve hundreds",
            gib(bytes),
            gib(LEAST_SPACE)
        ),
        remedy: MORE_SPACE.to_owned(),
    })
}

/// The limit of this process's address space, in bytes.
fn space() -> Option<u64> {
    getrlimit(Resource::As).current
}

fn check_space(limit: Option<u64>) -> Result<(), Failure> {
    match limit {
        Some(bytes) if bytes < LEAST_SPACE => Err(Failure::local(format!(
            "this process may have {} of address space (RLIMIT_AS), and a server needs {}",
            gib(bytes),
            gib(LEAST_SPACE)
        ))
        .hint(MORE_SPACE)),
        _ => Ok(()),
    }
}

/// Rounded down, so that too little does not look like enough.
fn gib(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) / GIB;
    format!("{}.{} GB", tenths / 10, tenths % 10)
}

/// Starts so many threads, which are there at once, and ends them again.
fn can_start(threads: usize) -> io::Result<()> {
    let gate = RwLock::new(());
    thread::scope(|scope| {
        // Given up when the last thread was started or refused, and before the scope waits for them.
        let _held = gate.write();
        for _ in 0..threads {
            thread::Builder::new().spawn_scoped(scope, || drop(gate.read()))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_address_space_is_refused_with_what_there_is_and_what_is_needed() {
        assert!(check_space(None).is_ok());
        assert!(check_space(Some(LEAST_SPACE)).is_ok());
        let refused = check_space(Some(LEAST_SPACE - 1)).unwrap_err();
        assert!(
            refused.message.contains("have 3.9 GB") && refused.message.contains("needs 4.0 GB"),
            "{refused}"
        );
        assert!(refused.hint.is_some_and(|hint| hint.contains("ulimit -v")));
    }

    #[test]
    fn threads_are_started_and_ended_again() {
        can_start(100).unwrap();
    }
}
