//! Charges each namespace for the disk usage of the compiled code that it has deployed.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use flint_executor::PrepareError;
use flint_model::NamespaceName;
use flint_runtimes::{
    Charge,
    disk_usage::{self, BLOCK},
};

use crate::{cache, workshop::Workshop};

/// A namespace, and the key under which its code is cached.
pub(crate) type Key = (NamespaceName, String);

/// The charges of all namespaces. Without a house nothing is charged, since the disk is not shared.
pub(crate) struct Accounts {
    folder: PathBuf,
    workshop: Workshop,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    held: Vec<Weak<Key>>,
    /// Code is charged in full to everyone who has deployed it.
    charged: HashMap<Key, Charge>,
    /// Whether the functions deployed before the server started have been counted.
    counted: bool,
}

impl Accounts {
    /// Charges for the compiled code in `folder`.
    pub(crate) fn new(folder: &Path, workshop: Workshop) -> Self {
        Self { folder: folder.to_owned(), workshop, book: Mutex::default() }
    }

    /// Refuses code that recently exceeded the quota and still would, without compiling it again.
    pub(crate) fn recall(&self, key: &Key) -> Result<(), PrepareError> {
        match &self.workshop {
            Workshop::Sandboxes(house) if !self.book().charged.contains_key(key) => {
                house.recall(&key.0, &address(key))
            }
            _ => Ok(()),
        }
    }

    /// Marks code as in use for as long as the result is held: it is neither removed nor, if it is charged for,
    /// given back.
    pub(crate) fn hold(&self, key: Key) -> Arc<Key> {
        let key = Arc::new(key);
        let mut book = self.book();
        book.held.retain(|held| held.strong_count() > 0);
        book.held.push(Arc::downgrade(&key));
        key
    }

    /// Takes code away, unless somebody has or is just preparing it. Deploys wait meanwhile.
    pub(crate) fn unless_held<T>(&self, key: &str, take: impl FnOnce() -> T) -> Option<T> {
        let book = self.book();
        let is_held = book.held.iter().filter_map(Weak::upgrade).any(|held| held.1 == key);
        (!is_held).then(take)
    }

    /// Charges a namespace for this many bytes of machine code, unless it is charged already. The charge
    /// lasts as long as the key is held or the code is kept.
    pub(crate) fn charge(&self, key: &Arc<Key>, bytes: u64) -> Result<(), PrepareError> {
        let mut book = self.book();
        if let Workshop::Sandboxes(house) = &self.workshop
            && !book.charged.contains_key(&**key)
        {
            let charge = house.charge(&key.0, &address(key));
            // Before the first count it is unknown which functions were deployed earlier, and those run
            // whatever the quota is today.
            match book.counted {
                true => charge.take(on_disk(bytes))?,
                false => charge.add(on_disk(bytes)),
            }
            book.charged.insert((**key).clone(), charge);
        }
        Ok(())
    }

    /// Charges each namespace for exactly the entries of `keep` that exist and those in use. Blocking.
    pub(crate) fn count(&self, keep: &HashSet<Key>) -> io::Result<()> {
        let Workshop::Sandboxes(house) = &self.workshop else { return Ok(()) };
        let sizes = cache::sizes(&self.folder)?;
        let mut book = self.book();
        for key in keep {
            if let Some(bytes) = sizes.get(&key.1)
                && !book.charged.contains_key(key)
            {
                let charge = house.charge(&key.0, &address(key));
                charge.add(on_disk(*bytes));
                book.charged.insert(key.clone(), charge);
            }
        }
        let held: HashSet<Key> =
            book.held.iter().filter_map(|held| Some((*held.upgrade()?).clone())).collect();
        book.charged.retain(|key, _| keep.contains(key) || held.contains(key));
        book.counted = true;
        Ok(())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name by which the house knows it.
fn address((_, key): &Key) -> String {
    format!("compiled-{key}")
}

/// The disk usage of machine code of this length and its checksum, a file of one block.
fn on_disk(bytes: u64) -> u64 {
    disk_usage::of_file(bytes).saturating_add(BLOCK)
}
