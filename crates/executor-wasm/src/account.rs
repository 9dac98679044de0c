//! What compiled code takes of the disk, on the account of each namespace that has deployed it.

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

/// Whose code it is, and what it is kept under.
pub(crate) type Key = (NamespaceName, String);

/// The accounts of all namespaces. Without a house nobody else has the disk, and nothing is counted.
pub(crate) struct Accounts {
    folder: PathBuf,
    workshop: Workshop,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    held: Vec<Weak<Key>>,
    /// Code counts in full for all who have deployed the same.
    charged: HashMap<Key, Charge>,
    /// Whether the functions that earlier lives of the server have left were counted.
    counted: bool,
}

impl Accounts {
    /// Of the compiled code in a folder.
    pub(crate) fn new(folder: &Path, workshop: Workshop) -> Self {
        Self { folder: folder.to_owned(), workshop, book: Mutex::default() }
    }

    /// Refuses what did not fit a moment ago and would not fit now: nobody compiles it again to see that.
    pub(crate) fn recall(&self, key: &Key) -> Result<(), PrepareError> {
        match &self.workshop {
            Workshop::Sandboxes(house) if !self.book().charged.contains_key(key) => {
                house.recall(&key.0, &address(key))
            }
            _ => Ok(()),
        }
    }

    /// Charges a namespace with so many bytes of machine code, unless it is charged with it already. It stays so while somebody has what this gives, or the
    /// code is kept.
    pub(crate) fn charge(&self, key: Key, bytes: u64) -> Result<Arc<Key>, PrepareError> {
        let mut book = self.book();
        if let Workshop::Sandboxes(house) = &self.workshop
            && !book.charged.contains_key(&key)
        {
            let charge = house.charge(&key.0, &address(&key));
            // Before the count nobody knows what was deployed long ago, and that runs on whatever the bound is today.
            match book.counted {
                true => charge.take(on_disk(bytes))?,
                false => charge.add(on_disk(bytes)),
            }
            book.charged.insert(key.clone(), charge);
        }
        let key = Arc::new(key);
        book.held.retain(|held| held.strong_count() > 0);
        book.held.push(Arc::downgrade(&key));
        Ok(key)
    }

    /// From now on each namespace is charged with what is there of what it keeps, and with what somebody holds. Blocking.
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

/// What the house knows it by.
fn address((_, key): &Key) -> String {
    format!("compiled-{key}")
}

/// Machine code of that length takes this with its checksum, a file of one block.
fn on_disk(bytes: u64) -> u64 {
    disk_usage::of_file(bytes).saturating_add(BLOCK)
}
