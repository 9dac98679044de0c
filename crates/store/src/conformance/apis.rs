//! What every [`Apis`](crate::Apis) does.

use flint_model::{Api, Operation, Timestamp};
use serde_json::json;

use super::{
    Driver, Opened,
    sample::{UNICODE, namespace_name, path},
};
use crate::{Expected, StoreError};

/// An API with one operation.
pub(super) fn api(of: &str, base_path: &str) -> Api {
    let serde_json::Value::Object(document) = json!({"swagger": "2.0", "info": {"title": UNICODE}}) else {
        unreachable!()
    };
    Api {
        namespace: namespace_name(of),
        base_path: base_path.to_owned(),
        title: UNICODE.to_owned(),
        revision: 0,
        document: document.clone(),
        operations: vec![Operation {
            path: "/books/{id}".to_owned(),
            method: "get".to_owned(),
            action: path("guest/library/book"),
            extension: ".http".to_owned(),
            secret: Some("s3cret".to_owned()),
            document,
        }],
        updated: Timestamp::from_millis(1_700_000_000_000),
    }
}

/// They come back as they were written, also after reopening, in order of base path, each namespace's apart.
pub async fn what_was_written_comes_back(driver: &dyn Driver) {
    let opened = driver.open().await;
    let mut written = Vec::new();
    for (of, base_path) in [("guest", "/b"), ("guest", "/"), ("guest", "/B"), ("other", "/b")] {
        let mut api = api(of, base_path);
        api.revision = opened.apis.put_api(&api, Expected::Absent).await.unwrap();
        written.push(api);
    }
    opened.close.await;

    let opened = driver.open().await;
    let guest = namespace_name("guest");
    let expected = [&written[1], &written[2], &written[0]].map(Clone::clone);
    assert_eq!(opened.apis.apis(&guest).await.unwrap(), expected);
    assert_eq!(opened.apis.api(&guest, "/b").await.unwrap().as_ref(), Some(&written[0]));
    assert_eq!(opened.apis.api(&guest, "/none").await.unwrap(), None);
    assert!(opened.catalog.delete_namespace(&guest).await.unwrap());
    assert_eq!(opened.apis.apis(&guest).await.unwrap(), []);
    assert_eq!(opened.apis.apis(&namespace_name("other")).await.unwrap(), [written[3].clone()]);
    opened.close.await;
}

/// A write or a deletion happens if what is there is as expected, and not otherwise.
pub async fn a_write_needs_what_it_expects(driver: &dyn Driver) {
    let opened = driver.open().await;
    let (apis, guest) = (&opened.apis, namespace_name("guest"));
    let one = api("guest", "/b");
    let conflict = |result: Result<u64, StoreError>| matches!(result, Err(StoreError::Conflict));
    assert!(conflict(apis.put_api(&one, Expected::Revision(1)).await));
    let first = apis.put_api(&one, Expected::Absent).await.unwrap();
    assert!(conflict(apis.put_api(&one, Expected::Absent).await));
    let renamed = Api { title: "renamed".to_owned(), ..one.clone() };
    let second = apis.put_api(&renamed, Expected::Revision(first)).await.unwrap();
    assert!(second > first);
    assert!(conflict(apis.put_api(&one, Expected::Revision(first)).await));
    assert_eq!(apis.api(&guest, "/b").await.unwrap(), Some(Api { revision: second, ..renamed }));
    let deleted = apis.delete_api(&guest, "/b", first).await;
    assert!(matches!(deleted, Err(StoreError::Conflict)));
    apis.delete_api(&guest, "/b", second).await.unwrap();
    assert!(matches!(apis.delete_api(&guest, "/b", second).await, Err(StoreError::Conflict)));
    let third = apis.put_api(&one, Expected::Absent).await.unwrap();
    assert!(third > second, "a revision never comes back");
    opened.close.await;
}

/// Replaces an API until the process is killed; `say` is told each revision that is acknowledged.
pub(super) async fn replace_until_killed(opened: &Opened, base_path: &str, say: impl Fn(u64)) {
    let mut expected = Expected::Absent;
    loop {
        let revision = opened.apis.put_api(&api("guest", base_path), expected).await.unwrap();
        say(revision);
        expected = Expected::Revision(revision);
    }
}

/// What [`replace_until_killed`] has left: the last revision that was said, or a later one, whole.
pub(super) async fn check_after_kill(opened: &Opened, base_path: &str, said: u64) {
    let found = opened.apis.api(&namespace_name("guest"), base_path).await.unwrap().unwrap();
    assert!(found.revision >= said, "{base_path} has gone back from {said} to {}", found.revision);
    assert_eq!(found, Api { revision: found.revision, ..api("guest", base_path) });
}
