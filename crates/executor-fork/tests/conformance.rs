//! The conformance suite, with the newest and the oldest of this host's Node.js and Python.

mod support;

use flint_executor::conformance::{Language, Subject};
use support::House;

/// The newest is first in the list of its family.
async fn subject(language: Language, newest: bool) -> (Subject, House) {
    let house = House::new().await;
    let family = language.family();
    let kinds: Vec<_> = house.kinds.iter().filter(|kind| kind.kind.family() == family).collect();
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
