//! What every [`Secrets`](crate::Secrets) does.

use flint_model::{NamespaceName, SealedSecret, SecretName, Timestamp};

use super::{
    Driver, Opened,
    sample::{namespace, namespace_name},
};
use crate::StoreError;

const ALL: usize = usize::MAX;
const MANY: usize = 100;

fn secret(namespace: &str, name: &str, key: &str) -> SealedSecret {
    SealedSecret {
        namespace: namespace_name(namespace),
        name: SecretName::parse(name).unwrap(),
        revision: 0,
        key: key.to_owned(),
        sealed: [&[0, 255, 7][..], name.as_bytes()].concat(),
        updated: Timestamp::from_millis(70),
    }
}

/// Puts a secret, and gives it as it is stored.
async fn put(opened: &Opened, secret: SealedSecret) -> SealedSecret {
    let revision = opened.secrets.put_secret(&secret, MANY).await.unwrap();
    SealedSecret { revision, ..secret }
}

async fn get(opened: &Opened, namespace: &NamespaceName, name: &SecretName) -> Option<SealedSecret> {
    opened.secrets.secret(namespace, name).await.unwrap()
}

/// They come back as they were written, also after reopening, in order, each in its namespace.
pub async fn what_was_written_comes_back(driver: &dyn Driver) {
    let opened = driver.open().await;
    let mut written = Vec::new();
    for (namespace, name) in [("b", "db"), ("a", "token"), ("a", "db")] {
        written.push(put(&opened, secret(namespace, name, "k1")).await);
    }
    opened.close.await;
    let opened = driver.open().await;
    let secrets = &opened.secrets;
    let [b_db, a_token, a_db] = &written[..] else { panic!() };
    assert_eq!(secrets.secrets(&a_db.namespace).await.unwrap(), [a_db.clone(), a_token.clone()]);
    assert_eq!(secrets.all_secrets(None, ALL).await.unwrap(), [a_db.clone(), a_token.clone(), b_db.clone()]);
    assert_eq!(secrets.all_secrets(Some(a_db), 1).await.unwrap(), std::slice::from_ref(a_token));
    assert_eq!(secrets.all_secrets(Some(b_db), 1).await.unwrap(), []);
    assert_eq!(get(&opened, &b_db.namespace, &b_db.name).await.as_ref(), Some(b_db));
    assert_eq!(get(&opened, &b_db.namespace, &a_token.name).await, None);

    let again = put(&opened, SealedSecret { sealed: vec![9], ..a_db.clone() }).await;
    assert!(again.revision > a_token.revision, "a new value is a new revision");
    assert_eq!(get(&opened, &again.namespace, &again.name).await, Some(again.clone()));
    assert!(secrets.delete_secret(&again.namespace, &again.name).await.unwrap());
    assert!(!secrets.delete_secret(&again.namespace, &again.name).await.unwrap());
    // Whoever reads on from one that is gone misses none.
    assert_eq!(secrets.all_secrets(Some(&again), ALL).await.unwrap(), [a_token.clone(), b_db.clone()]);
    assert_eq!(get(&opened, &again.namespace, &again.name).await, None);
    opened.close.await;
}

/// A namespace has no more than it may, and what is deleted takes all of them with it.
pub async fn they_are_bounded_and_go_with_their_namespace(driver: &dyn Driver) {
    let opened = driver.open().await;
    let secrets = &opened.secrets;
    let nowhere = secrets.put_secret(&secret("none", "db", "k1"), MANY).await;
    assert!(matches!(nowhere, Err(StoreError::NoNamespace(_))), "{nowhere:?}");
    let first = put(&opened, secret("a", "db", "k1")).await;
    put(&opened, secret("b", "db", "k1")).await;
    let further = secrets.put_secret(&secret("a", "token", "k1"), 1).await;
    assert!(matches!(further, Err(StoreError::TooMany { allowed: 1 })), "{further:?}");
    secrets.put_secret(&first, 1).await.unwrap();
    assert!(opened.catalog.delete_namespace(&first.namespace).await.unwrap());
    opened.catalog.put_namespace(&namespace("a")).await.unwrap();
    assert_eq!(secrets.secrets(&first.namespace).await.unwrap(), []);
    assert_eq!(secrets.all_secrets(None, ALL).await.unwrap().len(), 1);
    opened.close.await;
}

/// Another key changes nothing but how a value is kept, and does not bring back a value that was replaced meanwhile.
pub async fn a_value_is_sealed_anew_only_where_it_still_is(driver: &dyn Driver) {
    let opened = driver.open().await;
    let first = put(&opened, secret("a", "db", "k1")).await;
    let anew = SealedSecret { key: "k2".to_owned(), sealed: vec![2, 2], ..first.clone() };
    assert!(opened.secrets.reseal(&anew).await.unwrap());
    assert_eq!(get(&opened, &first.namespace, &first.name).await, Some(anew.clone()));
    let replaced = put(&opened, secret("a", "db", "k1")).await;
    assert!(!opened.secrets.reseal(&anew).await.unwrap());
    assert_eq!(get(&opened, &first.namespace, &first.name).await, Some(replaced.clone()));
    opened.secrets.delete_secret(&first.namespace, &first.name).await.unwrap();
    assert!(!opened.secrets.reseal(&replaced).await.unwrap());
    opened.close.await;
}

/// Replaces a secret until the process is killed; `say` is told each value that is acknowledged.
pub(super) async fn replace_until_killed(opened: &Opened, name: &str, say: impl Fn(u64)) {
    for number in 0_u64.. {
        let sealed = number.to_le_bytes().to_vec();
        put(opened, SealedSecret { sealed, ..secret("guest", name, "k1") }).await;
        say(number);
    }
}

/// What [`replace_until_killed`] has left: the last value that was said, or the one after it.
pub(super) async fn check_after_kill(opened: &Opened, name: &str, said: u64) {
    let wanted = secret("guest", name, "k1");
    let found = get(opened, &wanted.namespace, &wanted.name).await.unwrap();
    let number = u64::from_le_bytes(found.sealed.try_into().unwrap());
    assert!((said..=said + 1).contains(&number), "{name} was {said} and is {number}");
}
