//! What every [`Catalog`] does.

use flint_model::{Function, KeyRecord};
use futures_util::future::join_all;
use serde_json::json;

use super::sample::{
    NAMESPACES, PLENTY, UNICODE, entity_name, function, key, namespace, namespace_name, path, sequence,
};
use crate::{Catalog, Expected, Page, StoreError};

const ALL: Page = Page { skip: 0, limit: usize::MAX };

fn is_conflict<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict))
}

fn paths(functions: &[Function]) -> Vec<String> {
    functions.iter().map(|function| function.path.to_string()).collect()
}

/// A conditional write happens when its condition holds, and only then.
pub async fn a_write_needs_what_it_expects(catalog: &dyn Catalog) {
    let mut written = function("guest/a", 1);
    assert!(catalog.function(&written.path).await.unwrap().is_none());
    assert!(
        is_conflict(&catalog.put_function(&written, Expected::Revision(1)).await),
        "there is nothing to replace"
    );
    let first = catalog.put_function(&written, Expected::Absent).await.unwrap();
    assert!(is_conflict(&catalog.put_function(&written, Expected::Absent).await));
    written.main = Some("second".to_owned());
    assert!(is_conflict(&catalog.put_function(&written, Expected::Revision(first + 1)).await));
    let found = catalog.function(&written.path).await.unwrap().unwrap();
    assert_eq!((found.main.as_deref(), found.revision), (None, first), "a refused write leaves no trace");
    let second = catalog.put_function(&written, Expected::Revision(first)).await.unwrap();
    assert!(second > first);
    let found = catalog.function(&written.path).await.unwrap().unwrap();
    assert_eq!((found.main.as_deref(), found.revision), (Some("second"), second));
}

/// Of writers that expect the same, one wins.
pub async fn of_concurrent_writers_one_wins(catalog: &dyn Catalog) {
    let mut expected = Expected::Absent;
    for round in 0..5 {
        let writers = (0..32).map(|writer| async move {
            let mut written = function("guest/contended", round);
            written.main = Some(writer.to_string());
            (writer, catalog.put_function(&written, expected).await)
        });
        let outcomes = join_all(writers).await;
        let won: Vec<_> = outcomes
            .iter()
            .filter_map(|(writer, outcome)| Some((*writer, *outcome.as_ref().ok()?)))
            .collect();
        let [(winner, revision)] = won[..] else { panic!("exactly one writer wins, not {won:?}") };
        assert_eq!(outcomes.iter().filter(|(_, outcome)| is_conflict(outcome)).count(), 31);
        let found = catalog.function(&path("guest/contended")).await.unwrap().unwrap();
        assert_eq!((found.main, found.revision), (Some(winner.to_string()), revision));
        expected = Expected::Revision(revision);
    }
}

/// No two functions ever share path and revision, whatever was deleted in between.
pub async fn a_revision_never_comes_back(catalog: &dyn Catalog) {
    let written = function("guest/again", 1);
    let mut last = 0;
    for round in 0..6 {
        let revision = catalog.put_function(&written, Expected::Absent).await.unwrap();
        assert!(revision > last, "{revision} after {last}");
        last = catalog.put_function(&written, Expected::Revision(revision)).await.unwrap();
        assert!(last > revision);
        if round % 2 == 0 {
            catalog.delete_function(&written.path, last).await.unwrap();
        } else {
            assert!(catalog.delete_namespace(&namespace_name("guest")).await.unwrap());
            catalog.put_namespace(&namespace("guest")).await.unwrap();
        }
    }
}

/// A deletion is conditional too.
pub async fn a_deletion_needs_the_revision(catalog: &dyn Catalog) {
    let written = function("guest/pack/gone", 1);
    assert!(is_conflict(&catalog.delete_function(&written.path, 1).await));
    let first = catalog.put_function(&written, Expected::Absent).await.unwrap();
    let second = catalog.put_function(&written, Expected::Revision(first)).await.unwrap();
    assert!(is_conflict(&catalog.delete_function(&written.path, first).await));
    assert!(is_conflict(&catalog.delete_function(&path("guest/gone"), second).await), "that is another path");
    catalog.delete_function(&written.path, second).await.unwrap();
    assert!(catalog.function(&written.path).await.unwrap().is_none());
}

/// Lists have the latest first, ties by path, in pages without gap or overlap.
pub async fn functions_are_listed_latest_first(catalog: &dyn Catalog) {
    for (at, updated) in [("b", 10), ("a", 10), ("old", 5), ("new", 20), ("p/a", 10), ("Z", 10)] {
        catalog.put_function(&function(&format!("guest/{at}"), updated), Expected::Absent).await.unwrap();
    }
    catalog.put_function(&function("other/new", 99), Expected::Absent).await.unwrap();
    let guest = namespace_name("guest");
    let ordered = ["guest/new", "guest/Z", "guest/a", "guest/b", "guest/p/a", "guest/old"];
    assert_eq!(paths(&catalog.functions(&guest, None, ALL, PLENTY).await.unwrap()), ordered);
    assert_eq!(catalog.count_functions(&guest, None).await.unwrap(), ordered.len());
    for size in 1..=ordered.len() + 1 {
        let mut listed = Vec::new();
        for skip in (0..ordered.len() + size).step_by(size) {
            listed.extend(paths(
                &catalog.functions(&guest, None, Page { skip, limit: size }, PLENTY).await.unwrap(),
            ));
        }
        assert_eq!(listed, ordered, "in pages of {size}");
    }
    assert!(catalog.functions(&guest, None, Page { skip: 0, limit: 0 }, PLENTY).await.unwrap().is_empty());
    // A write moves its function to the front.
    let old = catalog.function(&path("guest/old")).await.unwrap().unwrap();
    catalog.put_function(&function("guest/old", 30), Expected::Revision(old.revision)).await.unwrap();
    assert_eq!(
        paths(&catalog.functions(&guest, None, Page { skip: 0, limit: 1 }, PLENTY).await.unwrap()),
        ["guest/old"]
    );
}

/// A package's functions are listed and counted alone.
pub async fn a_package_is_listed_alone(catalog: &dyn Catalog) {
    for (at, updated) in [("p/a", 1), ("p/b", 2), ("q/a", 3), ("p", 4)] {
        catalog.put_function(&function(&format!("guest/{at}"), updated), Expected::Absent).await.unwrap();
    }
    let (guest, p) = (namespace_name("guest"), entity_name("p"));
    assert_eq!(
        paths(&catalog.functions(&guest, Some(&p), ALL, PLENTY).await.unwrap()),
        ["guest/p/b", "guest/p/a"]
    );
    assert_eq!(catalog.count_functions(&guest, Some(&p)).await.unwrap(), 2);
    assert_eq!(catalog.count_functions(&guest, Some(&entity_name("none"))).await.unwrap(), 0);
    assert_eq!(catalog.count_functions(&namespace_name("other"), None).await.unwrap(), 0);
}

/// Where functions are and at which revision is known without reading them.
pub async fn functions_are_known_by_their_revisions(catalog: &dyn Catalog) {
    let mut expected = Vec::new();
    for (at, updated) in [("a", 1), ("b", 9), ("p/a", 3), ("p/b", 2)] {
        let written = function(&format!("guest/{at}"), updated);
        let revision = catalog.put_function(&written, Expected::Absent).await.unwrap();
        expected.push((written.path, revision));
    }
    catalog.put_function(&function("other/a", 1), Expected::Absent).await.unwrap();
    catalog.put_entity(&sequence("guest/p/s", &["guest/a"], 1).into(), Expected::Absent).await.unwrap();
    let (guest, p) = (namespace_name("guest"), entity_name("p"));
    assert_eq!(catalog.function_revisions(&guest, None).await.unwrap(), expected);
    assert_eq!(catalog.function_revisions(&guest, Some(&p)).await.unwrap(), expected[2..]);
    assert!(catalog.function_revisions(&guest, Some(&entity_name("none"))).await.unwrap().is_empty());
}

/// All functions, in order of path.
pub async fn every_function_in_order_of_path(catalog: &dyn Catalog) {
    for at in ["b/x", "a/z", "a/p/y", "a/b"] {
        catalog.put_function(&function(at, 1), Expected::Absent).await.unwrap();
    }
    let all = catalog.all_functions().await.unwrap();
    assert_eq!(paths(&all), ["a/b", "a/z", "a/p/y", "b/x"]);
    assert!(all.is_sorted_by_key(|function| function.path.clone()));
}

/// What was written is read, whatever it contains.
pub async fn values_survive(catalog: &dyn Catalog) {
    let mut written = function("guest/R&D - @x.y", u64::from(u32::MAX));
    let large = "x".repeat(1 << 20);
    written.parameters = serde_json::from_value(json!([
        {"key": UNICODE, "value": {"nested": [null, -1, 1e300, UNICODE]}}, {"key": "large", "value": large, "init": true}
    ]))
    .unwrap();
    written.annotations.set(UNICODE, UNICODE);
    written.main = Some(UNICODE.to_owned());
    let revision = catalog.put_function(&written, Expected::Absent).await.unwrap();
    let found = catalog.function(&written.path).await.unwrap().unwrap();
    assert_eq!(found, Function { revision, ..written });
}

/// A namespace is created and replaced; all are listed in order of name.
pub async fn namespaces_are_replaced_and_ordered(catalog: &dyn Catalog) {
    for name in ["z2", "z3", "z1"] {
        catalog.put_namespace(&namespace(name)).await.unwrap();
    }
    let mut changed = namespace("z2");
    changed.blocked = true;
    changed.limits.fires_per_minute = Some(0);
    catalog.put_namespace(&changed).await.unwrap();
    assert_eq!(catalog.namespace(&changed.name).await.unwrap(), Some(changed.clone()));
    let mut all = NAMESPACES.map(namespace).to_vec();
    all.extend([namespace("z1"), changed, namespace("z3")]);
    assert_eq!(catalog.namespaces().await.unwrap(), all);
    assert_eq!(catalog.namespace(&namespace_name("z4")).await.unwrap(), None);
}

/// A key belongs to a namespace that is there, and its id is its own.
pub async fn a_key_needs_its_namespace(catalog: &dyn Catalog) {
    let (young, old, same) = (key("late", 20), key("late", 10), key("late", 20));
    assert!(is_conflict(&catalog.put_key(&young).await), "there is no such namespace");
    catalog.put_namespace(&namespace("late")).await.unwrap();
    for one in [&young, &old, &same] {
        catalog.put_key(one).await.unwrap();
    }
    let stolen = KeyRecord { subject: "thief".to_owned(), ..young.clone() };
    assert!(is_conflict(&catalog.put_key(&stolen).await), "the id is taken");
    assert_eq!(catalog.key(young.id).await.unwrap(), Some(young.clone()));
    let keys = catalog.keys(&young.namespace).await.unwrap();
    assert_eq!(keys.len(), 3);
    assert_eq!(keys[0], old, "the oldest first");
    assert!(catalog.delete_key(young.id).await.unwrap() && !catalog.delete_key(young.id).await.unwrap());
    assert_eq!(catalog.key(young.id).await.unwrap(), None);
    // Replacing a namespace is no deletion.
    catalog.put_namespace(&namespace("late")).await.unwrap();
    assert_eq!(catalog.keys(&young.namespace).await.unwrap(), [old, same]);
}

/// A deleted namespace takes its keys and functions with it, and nothing else.
pub async fn a_namespace_takes_its_own_with_it(catalog: &dyn Catalog) {
    let mut keys = Vec::new();
    for name in ["guest", "other"] {
        catalog.put_namespace(&namespace(name)).await.unwrap();
        keys.push(key(name, 1));
        catalog.put_key(&keys[keys.len() - 1]).await.unwrap();
        catalog.put_function(&function(&format!("{name}/a"), 1), Expected::Absent).await.unwrap();
    }
    assert!(catalog.delete_namespace(&namespace_name("guest")).await.unwrap());
    assert!(!catalog.delete_namespace(&namespace_name("guest")).await.unwrap());
    assert_eq!(catalog.key(keys[0].id).await.unwrap(), None);
    assert_eq!(catalog.key(keys[1].id).await.unwrap().as_ref(), Some(&keys[1]));
    assert_eq!(paths(&catalog.all_functions().await.unwrap()), ["other/a"]);
}
