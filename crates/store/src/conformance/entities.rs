//! What every [`Catalog`] does with functions, sequences, packages, triggers and rules as entities.

use flint_model::{ByteSize, Collection, Entity, EntityPath, Package, Parameter, Parameters};
use serde_json::json;

use super::sample::{
    PLENTY, UNICODE, bare_function, deep, entity_name, function, namespace, namespace_name, package, path,
    rule, sequence, trigger,
};
use crate::{Catalog, Expected, Page, StoreError};

const ALL: Page = Page { skip: 0, limit: usize::MAX };

fn is_conflict<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict))
}

/// `[package/]name`, without the namespace.
fn local(entity: &Entity) -> String {
    entity.package().map_or(String::new(), |package| format!("{package}/")) + entity.name().as_str()
}

fn locals(entities: &[Entity]) -> Vec<String> {
    entities.iter().map(local).collect()
}

async fn put(catalog: &dyn Catalog, entity: impl Into<Entity>) -> u64 {
    catalog.put_entity(&entity.into(), Expected::Absent).await.unwrap()
}

/// The entity where `like` is.
async fn found(catalog: &dyn Catalog, like: &Entity) -> Option<Entity> {
    catalog.entity(like.namespace(), like.package(), like.name()).await.unwrap()
}

async fn delete(catalog: &dyn Catalog, like: &Entity, revision: u64) -> Result<(), StoreError> {
    catalog.delete_entity(like.namespace(), like.package(), like.name(), revision).await
}

/// One of each, at names of their own.
fn one_of_each() -> Vec<Entity> {
    let mut binding = package("guest/binding", 6);
    binding.binding = Some("other/shared".parse().unwrap());
    vec![
        function("guest/f", 1).into(),
        sequence("guest/p/s", &["guest/f", "other/shared/g"], 2).into(),
        package("guest/p", 3).into(),
        trigger("guest/t", 4).into(),
        rule("guest/r", "guest/t", "guest/p/s", 5).into(),
        binding.into(),
    ]
}

/// Each sort of entity is read as it was written, with its revision.
pub async fn every_sort_comes_back(catalog: &dyn Catalog) {
    for entity in one_of_each() {
        assert_eq!(found(catalog, &entity).await, None);
        let revision = catalog.put_entity(&entity, Expected::Absent).await.unwrap();
        assert_eq!(found(catalog, &entity).await, Some(entity.with_revision(revision)));
    }
    // What is no function is none to those who ask for functions.
    for other in ["guest/p/s", "guest/p", "guest/t", "guest/r"] {
        assert_eq!(catalog.function(&path(other)).await.unwrap(), None, "{other}");
    }
    let functions = catalog.functions(&namespace_name("guest"), None, ALL, PLENTY).await.unwrap();
    assert_eq!(functions.iter().map(|one| one.path.to_string()).collect::<Vec<_>>(), ["guest/f"]);
    assert_eq!(catalog.count_functions(&namespace_name("guest"), None).await.unwrap(), 1);
    assert_eq!(catalog.all_functions().await.unwrap(), functions);
}

/// A value that could be read by itself can be read as a part of an entity.
pub async fn what_is_deep_comes_back(catalog: &dyn Catalog) {
    let mut function = function("guest/f", 1);
    function.annotations.set("deep", deep());
    function.parameters = Parameters(vec![Parameter { key: "deep".to_owned(), value: deep(), init: false }]);
    let entity = Entity::from(function);
    let revision = put(catalog, entity.clone()).await;
    assert_eq!(found(catalog, &entity).await, Some(entity.with_revision(revision)));
    assert_eq!(catalog.all_functions().await.unwrap().len(), 1);
}

/// What could not be read back is not written, so that lists stay readable.
pub async fn what_is_too_deep_is_refused_or_comes_back(catalog: &dyn Catalog) {
    let too_deep = || (0..100).fold(deep(), |inner, _| json!([inner]));
    let mut annotated = function("guest/f", 1);
    annotated.annotations.set("deep", too_deep());
    let mut bound = function("guest/g", 1);
    bound.parameters = Parameters(vec![Parameter { key: "deep".to_owned(), value: too_deep(), init: false }]);
    for entity in [annotated, bound].map(Entity::from) {
        let put = catalog.put_entity(&entity, Expected::Absent).await;
        let wanted = put.ok().map(|revision| entity.clone().with_revision(revision));
        assert_eq!(found(catalog, &entity).await, wanted);
    }
    put(catalog, function("guest/h", 1)).await;
    let functions = catalog.functions(&namespace_name("guest"), None, ALL, PLENTY).await.unwrap();
    assert!(functions.iter().any(|one| one.path == path("guest/h")));
}

/// A name that one collection has is no other's, until it is deleted.
pub async fn a_name_belongs_to_one_collection(catalog: &dyn Catalog) {
    let mine = Entity::from(trigger("guest/x", 1));
    let theirs = Entity::from(package("guest/x", 2));
    let revision = put(catalog, mine.clone()).await;
    assert!(is_conflict(&catalog.put_entity(&theirs, Expected::Absent).await));
    assert!(is_conflict(&catalog.put_entity(&theirs, Expected::Revision(revision)).await));
    assert!(is_conflict(&catalog.put_function(&function("guest/x", 2), Expected::Revision(revision)).await));
    assert!(is_conflict(&catalog.delete_function(&path("guest/x"), revision).await), "it is no function");
    let as_package = "guest/x".parse().unwrap();
    assert!(is_conflict(&catalog.delete_package(&as_package, revision, true).await), "nor a package");
    assert_eq!(found(catalog, &mine).await, Some(mine.clone().with_revision(revision)));
    delete(catalog, &mine, revision).await.unwrap();
    put(catalog, theirs.clone()).await;
    assert_eq!(found(catalog, &mine).await.unwrap().collection(), Collection::Packages);
    // In a package, and in another namespace, the name is free.
    put(catalog, function("guest/p/x", 1)).await;
    put(catalog, trigger("other/x", 1)).await;
}

/// A conditional write happens when its condition holds, and only then.
pub async fn a_write_needs_what_it_expects(catalog: &dyn Catalog) {
    for entity in one_of_each() {
        assert!(is_conflict(&catalog.put_entity(&entity, Expected::Revision(1)).await));
        assert!(is_conflict(&delete(catalog, &entity, 1).await));
        let first = catalog.put_entity(&entity, Expected::Absent).await.unwrap();
        assert!(is_conflict(&catalog.put_entity(&entity, Expected::Absent).await));
        let second = catalog.put_entity(&entity, Expected::Revision(first)).await.unwrap();
        assert!(is_conflict(&catalog.put_entity(&entity, Expected::Revision(first)).await));
        assert!(is_conflict(&delete(catalog, &entity, first).await));
        assert_eq!(found(catalog, &entity).await.unwrap().revision(), second);
        delete(catalog, &entity, second).await.unwrap();
        assert_eq!(found(catalog, &entity).await, None);
    }
}

/// No two entities ever share name and revision, whatever they were and whatever was deleted in between.
pub async fn a_revision_never_comes_back(catalog: &dyn Catalog) {
    let mut last = 0;
    for round in 0..6 {
        let entity: Entity =
            if round % 2 == 0 { package("guest/x", 1).into() } else { function("guest/x", 1).into() };
        let revision = catalog.put_entity(&entity, Expected::Absent).await.unwrap();
        assert!(revision > last, "{revision} after {last}");
        last = revision;
        if round % 3 == 0 {
            assert!(catalog.delete_namespace(&namespace_name("guest")).await.unwrap());
            catalog.put_namespace(&namespace("guest")).await.unwrap();
        } else {
            delete(catalog, &entity, revision).await.unwrap();
        }
    }
}

/// Functions and sequences are of one collection: one replaces the other.
pub async fn a_function_may_become_a_sequence(catalog: &dyn Catalog) {
    let code = Entity::from(function("guest/a", 1));
    let chain = Entity::from(sequence("guest/a", &["guest/b"], 2));
    let first = put(catalog, code.clone()).await;
    let second = catalog.put_entity(&chain, Expected::Revision(first)).await.unwrap();
    assert_eq!(found(catalog, &code).await, Some(chain.with_revision(second)));
    assert_eq!(catalog.function(&path("guest/a")).await.unwrap(), None);
    let third = catalog.put_entity(&code, Expected::Revision(second)).await.unwrap();
    assert_eq!(catalog.function(&path("guest/a")).await.unwrap().unwrap().revision, third);
}

/// Each collection has its own list, latest first, in pages without gap or overlap.
pub async fn collections_are_listed_apart(catalog: &dyn Catalog) {
    for entity in one_of_each() {
        put(catalog, entity).await;
    }
    for (name, updated) in [("b", 10), ("a", 10), ("old", 1), ("new", 20)] {
        put(catalog, trigger(&format!("guest/{name}"), updated)).await;
        put(catalog, function(&format!("guest/p/{name}"), updated)).await;
    }
    put(catalog, trigger("other/t", 99)).await;
    let guest = namespace_name("guest");
    let expected = [
        // "f" and "p/old" were written at the same time: the order is that of their places.
        (Collection::Actions, None, &["p/new", "p/a", "p/b", "p/s", "f", "p/old"][..]),
        (Collection::Actions, Some("p"), &["p/new", "p/a", "p/b", "p/s", "p/old"]),
        (Collection::Actions, Some("binding"), &[]),
        (Collection::Packages, None, &["binding", "p"]),
        (Collection::Triggers, None, &["new", "a", "b", "t", "old"]),
        (Collection::Rules, None, &["r"]),
    ];
    for (collection, package, names) in expected {
        let package = package.map(entity_name);
        let page = |skip, limit| {
            let (guest, package) = (guest.clone(), package.clone());
            async move {
                let page = Page { skip, limit };
                let listed = catalog.entities(&guest, collection, package.as_ref(), page, PLENTY).await;
                locals(&listed.unwrap())
            }
        };
        let listed = page(0, usize::MAX).await;
        assert_eq!(listed, names, "{collection} of {package:?}");
        let count = catalog.count_entities(&guest, collection, package.as_ref()).await.unwrap();
        assert_eq!(count, names.len());
        for size in 1..=names.len() {
            let mut pages = Vec::new();
            for skip in (0..names.len() + size).step_by(size) {
                pages.extend(page(skip, size).await);
            }
            assert_eq!(pages, listed, "in pages of {size}");
        }
    }
}

/// Lists have all of an entity but its parameters, however large those are; a single read has them.
pub async fn lists_leave_out_parameters_alone(catalog: &dyn Catalog) {
    let (guest, large) = (namespace_name("guest"), "x".repeat(1 << 20));
    let mut written = one_of_each();
    for entity in &mut written {
        if let Some(parameters) = entity.parameters_mut() {
            *parameters = serde_json::from_value(json!([
                {"key": UNICODE, "value": {"nested": [null, -1, 1e300, UNICODE]}}, {"key": "large", "value": large, "init": true}
            ]))
            .unwrap();
        }
        match entity {
            Entity::Function(one) => one.annotations.set(UNICODE, json!({UNICODE: [UNICODE]})),
            Entity::Sequence(one) => one.annotations.set("a", UNICODE),
            _ => {}
        }
    }
    // What is written a second time has no more and no less.
    for entity in &mut written {
        let first = put(catalog, entity.clone().without_parameters()).await;
        let revision = catalog.put_entity(entity, Expected::Revision(first)).await.unwrap();
        *entity = entity.clone().with_revision(revision);
        assert_eq!(found(catalog, entity).await.as_ref(), Some(&*entity));
    }
    written.sort_by_key(|entity| std::cmp::Reverse(entity.updated()));
    for collection in [Collection::Actions, Collection::Packages, Collection::Triggers, Collection::Rules] {
        let expected: Vec<_> = written
            .iter()
            .filter(|entity| entity.collection() == collection)
            .map(|entity| entity.clone().without_parameters())
            .collect();
        let listed = catalog.entities(&guest, collection, None, ALL, ByteSize::kib(64)).await.unwrap();
        assert_eq!(listed, expected, "{collection}");
    }
    let bare = |name: &str| {
        let there = written.iter().find(|entity| entity.name().as_str() == name);
        there.cloned().map(Entity::without_parameters).into_iter().collect::<Vec<_>>()
    };
    let functions = catalog.functions(&guest, None, ALL, ByteSize::kib(64)).await.unwrap();
    let for_upkeep: Vec<_> = functions.iter().cloned().map(bare_function).collect();
    assert_eq!(catalog.all_functions().await.unwrap(), for_upkeep);
    assert_eq!(functions.into_iter().map(Entity::from).collect::<Vec<_>>(), bare("f"));
    let sequences = catalog.sequences(&guest, ALL, ByteSize::kib(64)).await.unwrap();
    assert_eq!(sequences.into_iter().map(Entity::from).collect::<Vec<_>>(), bare("s"));
    // And they go when they are taken away.
    for entity in written {
        let bare = entity.clone().without_parameters();
        catalog.put_entity(&bare, Expected::Revision(entity.revision())).await.unwrap();
        let found = found(catalog, &bare).await.unwrap();
        assert_eq!(found.clone(), bare.with_revision(found.revision()));
    }
}

/// A page that is larger than whoever asks has room for is refused; a smaller one of the same list is given.
pub async fn a_page_is_bounded_in_bytes(catalog: &dyn Catalog) {
    let guest = namespace_name("guest");
    for number in 0..6 {
        let (mut f, mut s) = (
            function(&format!("guest/f{number}"), 1),
            sequence(&format!("guest/s{number}"), &["guest/f1"], 1),
        );
        f.annotations.set("large", "x".repeat(10_000));
        s.annotations.set("large", "x".repeat(10_000));
        put(catalog, f).await;
        put(catalog, s).await;
    }
    let (one, nothing) = (Page { skip: 0, limit: 1 }, ByteSize::bytes(1));
    assert_eq!(
        catalog.functions(&guest, None, one, nothing).await.unwrap().len(),
        1,
        "one by itself fits always"
    );
    let most = ByteSize::bytes(40_000);
    for (limit, fits) in [(3, true), (6, false), (3, true)] {
        let page = Page { skip: 1, limit };
        let actions =
            catalog.entities(&guest, Collection::Actions, None, page, most).await.map(|it| it.len());
        let functions = catalog.functions(&guest, None, page, most).await.map(|it| it.len());
        let sequences = catalog.sequences(&guest, page, most).await.map(|it| it.len());
        for listed in [actions, functions, sequences] {
            match listed {
                Ok(count) => assert!(fits && count == limit, "{count} of {limit}"),
                Err(StoreError::ListTooLarge { allowed }) => assert!(!fits && allowed == most, "{limit}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// Of packages, those that everybody may use are listed and counted by themselves: what the others take does not count.
pub async fn shared_packages_are_listed_apart(catalog: &dyn Catalog) {
    let guest = namespace_name("guest");
    let mut shared = Vec::new();
    for number in 0..6 {
        for (sort, publish, binding) in
            [("private", false, None), ("shared", true, None), ("bound", true, Some("other/shared"))]
        {
            let mut one = package(&format!("guest/{sort}{number}"), number);
            one.publish = publish;
            one.binding = binding.map(|provider| provider.parse().unwrap());
            one.annotations.set("large", "x".repeat(10_000));
            let revision = put(catalog, one.clone()).await;
            if one.is_shared() {
                shared.push(Package { revision, parameters: Parameters::default(), ..one });
            }
        }
    }
    put(catalog, package("other/shared", 9)).await;
    put(catalog, function("guest/shared0/f", 9)).await;
    shared.reverse();
    assert_eq!(catalog.count_shared_packages(&guest).await.unwrap(), 6);
    assert_eq!(catalog.shared_packages(&guest, ALL, ByteSize::kib(96)).await.unwrap(), shared);
    let most = ByteSize::bytes(40_000);
    for skip in 0..6 {
        let listed = catalog.shared_packages(&guest, Page { skip, limit: 3 }, most).await.unwrap();
        assert_eq!(listed, shared[skip..(skip + 3).min(6)]);
    }
    let refused = catalog.shared_packages(&guest, ALL, most).await;
    assert!(matches!(refused, Err(StoreError::ListTooLarge { .. })), "{refused:?}");
}

/// A package that holds something is not deleted, and nothing of it is.
pub async fn a_full_package_stays(catalog: &dyn Catalog) {
    let whole = package("guest/p", 1);
    let revision = put(catalog, whole.clone()).await;
    let inside = Entity::from(function("guest/p/f", 1));
    let inner = put(catalog, inside.clone()).await;
    put(catalog, function("guest/f", 1)).await; // beside it
    assert!(is_conflict(&catalog.delete_package(&whole.path(), revision, false).await));
    assert_eq!(found(catalog, &whole.clone().into()).await.unwrap().revision(), revision);
    delete(catalog, &inside, inner).await.unwrap();
    assert!(is_conflict(&catalog.delete_package(&whole.path(), revision + 1, false).await));
    catalog.delete_package(&whole.path(), revision, false).await.unwrap();
    assert_eq!(found(catalog, &whole.into()).await, None);
}

/// With its contents, a package goes whatever it holds; the rest stays.
pub async fn a_package_takes_its_contents_with_it(catalog: &dyn Catalog) {
    let whole = package("guest/p", 1);
    let revision = put(catalog, whole.clone()).await;
    for at in ["guest/p/f", "guest/p/g", "guest/f", "guest/q/f", "other/p/f"] {
        put(catalog, function(at, 1)).await;
    }
    put(catalog, sequence("guest/p/s", &["guest/f"], 1)).await;
    let wrong: EntityPath = "guest/q".parse().unwrap();
    assert!(is_conflict(&catalog.delete_package(&wrong, revision, true).await), "there is no such package");
    assert!(is_conflict(&catalog.delete_package(&whole.path(), revision + 1, true).await));
    assert_eq!(catalog.all_functions().await.unwrap().len(), 5, "a refused deletion leaves everything");
    catalog.delete_package(&whole.path(), revision, true).await.unwrap();
    let left: Vec<_> =
        catalog.all_functions().await.unwrap().iter().map(|function| function.path.to_string()).collect();
    assert_eq!(left, ["guest/f", "guest/q/f", "other/p/f"]);
    assert_eq!(catalog.entity(&whole.namespace, Some(&whole.name), &entity_name("s")).await.unwrap(), None);
}

/// A trigger's rules are found, also when it is not there, and follow a rule to another trigger.
pub async fn rules_are_found_by_their_trigger(catalog: &dyn Catalog) {
    let t: EntityPath = "guest/t".parse().unwrap();
    let u: EntityPath = "guest/u".parse().unwrap();
    assert_eq!(catalog.rules_of(&t).await.unwrap(), []);
    let mut written = Vec::new();
    for (name, of) in [("c", "guest/t"), ("a", "guest/t"), ("b", "guest/u"), ("d", "other/t")] {
        let rule = rule(&format!("guest/{name}"), of, "guest/f", 1);
        written.push((put(catalog, rule.clone()).await, rule));
    }
    let names = |rules: Vec<flint_model::Rule>| rules.into_iter().map(|rule| rule.name).collect::<Vec<_>>();
    assert_eq!(names(catalog.rules_of(&t).await.unwrap()), [entity_name("a"), entity_name("c")]);
    let (revision, mut moved) = written.swap_remove(0);
    moved.trigger = u.clone();
    let revision = catalog.put_entity(&moved.clone().into(), Expected::Revision(revision)).await.unwrap();
    assert_eq!(names(catalog.rules_of(&t).await.unwrap()), [entity_name("a")]);
    assert_eq!(catalog.rules_of(&u).await.unwrap()[1].revision, revision);
    delete(catalog, &moved.into(), revision).await.unwrap();
    assert_eq!(names(catalog.rules_of(&u).await.unwrap()), [entity_name("b")]);
}

/// A deleted namespace takes all its entities with it, and nothing else.
pub async fn a_namespace_takes_everything_with_it(catalog: &dyn Catalog) {
    catalog.put_namespace(&namespace("guest")).await.unwrap();
    for entity in one_of_each() {
        put(catalog, entity).await;
    }
    put(catalog, trigger("other/t", 1)).await;
    assert!(catalog.delete_namespace(&namespace_name("guest")).await.unwrap());
    for entity in one_of_each() {
        assert_eq!(found(catalog, &entity).await, None);
    }
    assert_eq!(catalog.rules_of(&"guest/t".parse().unwrap()).await.unwrap(), []);
    assert!(catalog.entity(&namespace_name("other"), None, &entity_name("t")).await.unwrap().is_some());
}
