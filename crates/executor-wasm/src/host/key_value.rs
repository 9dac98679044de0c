//! `wasi:keyvalue`: buckets of the function's namespace, kept in the store.
//!
//! A bucket exists as soon as it contains something; `""` is a valid name. Reads and writes wait for the
//! store and for their turn at it, during which the guest's time limit runs.

use std::sync::Arc;

use flint_store::{BucketPath, Change, KeyValue, KeyValueError, KeyValueQuota, Page, StoreError};
use wasmtime::component::{HasData, Linker, Resource, ResourceTable, ResourceTableError};

use super::{
    Grants, ValueTurns,
    context::{AsHost, Host},
};

/// Longest name of a bucket, in bytes.
const LONGEST_BUCKET: usize = 128;
/// Longest key.
const LONGEST_KEY: usize = 1024;
/// Largest value.
const LARGEST_VALUE: usize = 1 << 20;
/// Most keys in one request, and on a page of a list.
const MOST_KEYS: usize = 1000;
/// Most bytes that one request reads or writes.
const MOST_BYTES: usize = 8 << 20;
/// How many of the largest values fit into one request; reading proceeds in steps of so many.
const AT_ONCE: usize = MOST_BYTES / LARGEST_VALUE;

mod bindings {
    wasmtime::component::bindgen!({
        inline: "
            package wasi:keyvalue@0.2.0-draft;

            interface store {
                variant error { no-such-store, access-denied, other(string) }
                record key-response { keys: list<string>, cursor: option<u64> }
                open: func(identifier: string) -> result<bucket, error>;
                resource bucket {
                    get: func(key: string) -> result<option<list<u8>>, error>;
                    set: func(key: string, value: list<u8>) -> result<_, error>;
                    delete: func(key: string) -> result<_, error>;
                    exists: func(key: string) -> result<bool, error>;
                    list-keys: func(cursor: option<u64>) -> result<key-response, error>;
                }
            }

            interface atomics {
                use store.{bucket, error};
                increment: func(bucket: borrow<bucket>, key: string, delta: u64) -> result<u64, error>;
            }

            interface batch {
                use store.{bucket, error};
                get-many: func(bucket: borrow<bucket>, keys: list<string>)
                    -> result<list<option<tuple<string, list<u8>>>>, error>;
                set-many: func(bucket: borrow<bucket>, key-values: list<tuple<string, list<u8>>>) -> result<_, error>;
                delete-many: func(bucket: borrow<bucket>, keys: list<string>) -> result<_, error>;
            }

            world imports {
                import store;
                import atomics;
                import batch;
            }
        ",
        world: "wasi:keyvalue/imports",
        imports: { default: async | trappable },
        with: { "wasi:keyvalue/store.bucket": super::Bucket },
        trappable_error_type: { "wasi:keyvalue/store.error" => super::Refused },
    });
}

use self::bindings::wasi::keyvalue::{atomics, batch, store};

/// A bucket that a guest has opened.
#[allow(unreachable_pub)] // the bindings re-export it
pub struct Bucket(BucketPath);

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("this server keeps no values for functions")]
    NoStore,
    #[error("the function was not granted key-value buckets: deploy it with --keyvalue")]
    NotGranted,
    #[error("{0}")]
    Request(String),
    #[error(transparent)]
    Value(#[from] KeyValueError),
    #[error(transparent)]
    Handle(#[from] ResourceTableError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Value(error.into())
    }
}

/// One call's view of its namespace's buckets.
pub(crate) struct Buckets<'a> {
    host: &'a mut Host,
}

struct HasBuckets;

impl HasData for HasBuckets {
    type Data<'a> = Buckets<'a>;
}

/// Adds the three interfaces.
pub(super) fn add_to_linker<T: AsHost + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    fn buckets<T: AsHost>(data: &mut T) -> Buckets<'_> {
        Buckets { host: data.host() }
    }
    store::add_to_linker::<T, HasBuckets>(linker, buckets)?;
    atomics::add_to_linker::<T, HasBuckets>(linker, buckets)?;
    batch::add_to_linker::<T, HasBuckets>(linker, buckets)
}

impl Buckets<'_> {
    fn table(&mut self) -> &mut ResourceTable {
        &mut self.host.p2().table
    }

    fn values(&self) -> Result<Arc<dyn KeyValue>, Refused> {
        match &self.host.services.values {
            _ if !self.host.grants.key_value => Err(Refused::NotGranted),
            Some(values) => Ok(Arc::clone(values)),
            None => Err(Refused::NoStore),
        }
    }

    fn turns(&self) -> &ValueTurns {
        &self.host.services.turns
    }

    fn quota(&self) -> KeyValueQuota {
        self.host.services.quota
    }

    fn path(&mut self, bucket: &Resource<Bucket>) -> Result<BucketPath, Refused> {
        Ok(self.table().get(bucket)?.0.clone())
    }

    async fn read(
        &mut self,
        bucket: &Resource<Bucket>,
        keys: &[String],
    ) -> Result<Vec<Option<Vec<u8>>>, Refused> {
        check(keys.iter().map(|key| (key.as_str(), 0)))?;
        let (values, at) = (self.values()?, self.path(bucket)?);
        let (mut found, mut bytes) = (Vec::with_capacity(keys.len()), 0);
        for keys in keys.chunks(AT_ONCE) {
            let (values, at, keys) = (Arc::clone(&values), at.clone(), keys.to_vec());
            let read = async move { values.read(&at, keys).await };
            let some = self.turns().read(self.host.whose(), read).await?;
            bytes += some.iter().flatten().map(Vec::len).sum::<usize>();
            if bytes > MOST_BYTES {
                return Err(too_many_bytes());
            }
            found.extend(some);
        }
        Ok(found)
    }

    async fn write(&mut self, bucket: &Resource<Bucket>, changes: Vec<Change>) -> Result<(), Refused> {
        let sizes =
            changes.iter().map(|change| (change.key.as_str(), change.value.as_ref().map_or(0, Vec::len)));
        let size = (changes.len(), check(sizes)?);
        let (values, at, quota) = (self.values()?, self.path(bucket)?, self.quota());
        let write = async move { values.write(&at, changes, quota).await };
        Ok(self.turns().write(self.host.whose(), size, write).await?)
    }
}

/// Checks a request's keys and values against the limits; returns how many bytes they are.
fn check<'a>(all: impl ExactSizeIterator<Item = (&'a str, usize)>) -> Result<usize, Refused> {
    if all.len() > MOST_KEYS {
        let text = format!("{} keys are more than the {MOST_KEYS} that one request may have", all.len());
        return Err(Refused::Request(text));
    }
    let mut bytes = 0;
    for (key, value) in all {
        if key.len() > LONGEST_KEY {
            return Err(Refused::Request(format!(
                "a key of {} bytes is longer than {LONGEST_KEY}",
                key.len()
            )));
        }
        if value > LARGEST_VALUE {
            return Err(Refused::Request(format!("a value of {value} bytes is larger than {LARGEST_VALUE}")));
        }
        bytes += key.len() + value;
    }
    if bytes > MOST_BYTES { Err(too_many_bytes()) } else { Ok(bytes) }
}

/// The cursor after a page of so many keys; none after the last page. A guest may ask for any.
fn after(skip: usize, found: usize) -> Option<u64> {
    (found == MOST_KEYS).then(|| skip.saturating_add(found) as u64)
}

fn too_many_bytes() -> Refused {
    Refused::Request(format!("more than the {MOST_BYTES} bytes that one request may read or write"))
}

impl store::Host for Buckets<'_> {
    async fn open(&mut self, identifier: String) -> Result<Resource<Bucket>, Refused> {
        self.values()?;
        if identifier.len() > LONGEST_BUCKET {
            return Err(Refused::Request(format!("a bucket's name has at most {LONGEST_BUCKET} bytes")));
        }
        let Grants { namespace, as_of, .. } = &*self.host.grants;
        let bucket = Bucket(BucketPath { namespace: namespace.clone(), as_of: *as_of, bucket: identifier });
        Ok(self.table().push(bucket)?)
    }

    fn convert_error(&mut self, refused: Refused) -> wasmtime::Result<store::Error> {
        match refused {
            Refused::NoStore => Ok(store::Error::NoSuchStore),
            Refused::NotGranted => Ok(store::Error::AccessDenied),
            Refused::Handle(error) => Err(error.into()),
            Refused::Value(KeyValueError::Store(error)) => {
                tracing::warn!(%error, "a function's values");
                Ok(store::Error::Other("the store failed".to_owned()))
            }
            other => Ok(store::Error::Other(other.to_string())),
        }
    }
}

impl store::HostBucket for Buckets<'_> {
    async fn get(&mut self, bucket: Resource<Bucket>, key: String) -> Result<Option<Vec<u8>>, Refused> {
        Ok(self.read(&bucket, &[key]).await?.pop().flatten())
    }

    async fn set(&mut self, bucket: Resource<Bucket>, key: String, value: Vec<u8>) -> Result<(), Refused> {
        self.write(&bucket, vec![Change { key, value: Some(value) }]).await
    }

    async fn delete(&mut self, bucket: Resource<Bucket>, key: String) -> Result<(), Refused> {
        self.write(&bucket, vec![Change { key, value: None }]).await
    }

    async fn exists(&mut self, bucket: Resource<Bucket>, key: String) -> Result<bool, Refused> {
        Ok(self.read(&bucket, &[key]).await?.pop().flatten().is_some())
    }

    /// The cursor is the number of keys before it, so a guest may miss keys if others are removed while it
    /// lists.
    async fn list_keys(
        &mut self,
        bucket: Resource<Bucket>,
        cursor: Option<u64>,
    ) -> Result<store::KeyResponse, Refused> {
        let (values, at) = (self.values()?, self.path(&bucket)?);
        let skip = usize::try_from(cursor.unwrap_or(0)).unwrap_or(usize::MAX);
        let list = async move { values.keys(&at, Page { skip, limit: MOST_KEYS }).await };
        let keys = self.turns().read(self.host.whose(), list).await?;
        let cursor = after(skip, keys.len());
        Ok(store::KeyResponse { keys, cursor })
    }

    async fn drop(&mut self, bucket: Resource<Bucket>) -> wasmtime::Result<()> {
        self.table().delete(bucket)?;
        Ok(())
    }
}

impl atomics::Host for Buckets<'_> {
    async fn increment(&mut self, bucket: Resource<Bucket>, key: String, delta: u64) -> Result<u64, Refused> {
        let size = (1, check([(key.as_str(), 0)].into_iter())?);
        let (values, at, quota) = (self.values()?, self.path(&bucket)?, self.quota());
        let increment = async move { values.increment(&at, &key, delta, quota).await };
        Ok(self.turns().write(self.host.whose(), size, increment).await?)
    }
}

impl batch::Host for Buckets<'_> {
    async fn get_many(
        &mut self,
        bucket: Resource<Bucket>,
        keys: Vec<String>,
    ) -> Result<Vec<Option<(String, Vec<u8>)>>, Refused> {
        let found = self.read(&bucket, &keys).await?;
        Ok(keys.into_iter().zip(found).map(|(key, value)| value.map(|value| (key, value))).collect())
    }

    async fn set_many(
        &mut self,
        bucket: Resource<Bucket>,
        pairs: Vec<(String, Vec<u8>)>,
    ) -> Result<(), Refused> {
        let changes = pairs.into_iter().map(|(key, value)| Change { key, value: Some(value) }).collect();
        self.write(&bucket, changes).await
    }

    async fn delete_many(&mut self, bucket: Resource<Bucket>, keys: Vec<String>) -> Result<(), Refused> {
        let changes = keys.into_iter().map(|key| Change { key, value: None }).collect();
        self.write(&bucket, changes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_page_has_a_cursor_after_it() {
        assert_eq!(after(0, MOST_KEYS), Some(1000));
        assert_eq!(after(1000, MOST_KEYS - 1), None);
        assert_eq!(after(usize::MAX, 0), None);
        assert_eq!(after(usize::MAX, MOST_KEYS), Some(u64::MAX));
    }

    #[test]
    fn requests_are_bounded_before_the_store_sees_them() {
        let refused = |all: Vec<(&str, usize)>| check(all.into_iter()).unwrap_err().to_string();
        assert!(check([("", 0), ("k", LARGEST_VALUE)].into_iter()).is_ok());
        assert!(check([("k", 1)].repeat(MOST_KEYS).into_iter()).is_ok());
        assert!(refused([("k", 1)].repeat(MOST_KEYS + 1)).starts_with("1001 keys are more than the 1000"));
        let long = "k".repeat(LONGEST_KEY + 1);
        assert!(refused(vec![(&long, 0)]).contains("longer than 1024"));
        assert!(refused(vec![("k", LARGEST_VALUE + 1)]).contains("larger than 1048576"));
        assert!(refused([("k", LARGEST_VALUE)].repeat(8)).contains("8388608 bytes"));
    }
}
