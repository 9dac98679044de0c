//! The conformance suite, with the newest and the oldest of this host's Node.js and Python, and its newest
//! Java.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use flint_executor::{
    Executor,
    conformance::{Language, Subject},
};
use support::House;

async fn subject(language: Language, newest: bool) -> (Subject, House) {
    subject_of(House::new().await, language, newest)
}

/// The newest is first in the list of its family.
fn subject_of(house: House, language: Language, newest: bool) -> (Subject, House) {
    let family = language.family();
    let kinds: Vec<_> =
        house.executor.kinds().into_iter().filter(|kind| kind.kind.family() == family).collect();
    let kind = if newest { kinds.first() } else { kinds.last() };
    let kind = kind
        .filter(|kind| kind.state.is_ok())
        .unwrap_or_else(|| panic!("this host has no {family}: {kinds:?}"));
    (house.subject(kind.kind.clone(), language), house)
}

mod node {
    async fn newest() -> (super::Subject, super::House) {
        super::subject(super::Language::Node, true).await
    }

    flint_executor::conformance_suite!(newest);
}

mod python {
    async fn newest() -> (super::Subject, super::House) {
        super::subject(super::Language::Python, true).await
    }

    flint_executor::conformance_suite!(newest);
}

mod oldest_python {
    async fn oldest() -> (super::Subject, super::House) {
        super::subject(super::Language::Python, false).await
    }

    flint_executor::conformance_suite!(oldest);
}

mod java {
    use std::{
        fs,
        path::{Path, PathBuf},
        process::Command,
    };

    use flint_executor::Executor;
    use tokio::sync::OnceCell;

    /// What takes seconds of a processor to make and every rule needs: the compiled shim, and the artefact of
    /// the suite's function.
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();

    async fn newest() -> (super::Subject, super::House) {
        let made = MADE.get_or_init(make).await;
        let opening = super::House::with(|config| {
            config.runtimes_dir = made.join("runtimes");
            // A house may remove its artefacts, so each has its own.
            copy(&made.join("artefacts"), &config.artefacts_dir);
        });
        super::subject_of(opening.await, super::Language::Java, true)
    }

    async fn make() -> PathBuf {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance-java");
        let made = all.join(std::process::id().to_string());
        // Those of processes that have ended, as nobody knows which test of a process is its last.
        for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
            if entry.path() == made || !Path::new("/proc").join(entry.file_name()).exists() {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let opening = super::House::with(|config| {
            config.runtimes_dir = made.join("runtimes");
            config.artefacts_dir = made.join("artefacts");
        });
        let (subject, house) = super::subject_of(opening.await, super::Language::Java, true);
        drop(house.executor.prepare(subject.laboratory(), &|_| {}).await.unwrap());
        house.end().await;
        made
    }

    /// With the times of its files, by which a JVM recognises what its archive was made of.
    fn copy(from: &Path, to: &Path) {
        let status = Command::new("cp").arg("--archive").args([from, to]).status().unwrap();
        assert!(status.success(), "{} was not copied", from.display());
    }

    flint_executor::conformance_suite!(newest);
}
