//! Lists whose entries have keys, some of which may be the same: what is done with them takes time in proportion to their length,
//! because a client chooses it. A short list is searched, which is quicker than hashing its keys.

use std::collections::{HashMap, HashSet};

/// Up to so many keys are compared one by one.
pub(crate) const FEW: usize = 16;

/// Entries by their keys.
pub enum KeySet<'a, T> {
    /// To be searched, with what an entry's key is.
    Few(&'a [T], fn(&T) -> &str),
    /// Hashed.
    Many(HashSet<&'a str>),
}

impl<'a, T> KeySet<'a, T> {
    /// The keys of `entries`, of which about `lookups` will be asked for.
    pub fn new(entries: &'a [T], key: fn(&T) -> &str, lookups: usize) -> Self {
        match entries.len().min(lookups) <= FEW {
            true => Self::Few(entries, key),
            false => Self::Many(entries.iter().map(key).collect()),
        }
    }

    /// Whether an entry has this key.
    pub fn contains(&self, wanted: &str) -> bool {
        match self {
            Self::Few(entries, key) => entries.iter().any(|entry| key(entry) == wanted),
            Self::Many(keys) => keys.contains(wanted),
        }
    }
}

/// One entry for each key, in the place of the first and with the value of the last.
pub fn last_wins<T>(entries: Vec<T>, key: fn(&T) -> &str) -> Vec<T> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let place_of: Vec<usize> = match entries.len() <= FEW {
        true => Vec::new(),
        false => entries
            .iter()
            .map(|entry| {
                let next = places.len();
                *places.entry(key(entry)).or_insert(next)
            })
            .collect(),
    };
    let mut unique: Vec<T> = Vec::with_capacity(entries.len().min(FEW).max(places.len()));
    for (at, entry) in entries.into_iter().enumerate() {
        let place = match place_of.get(at) {
            Some(place) => *place,
            None => unique.iter().position(|one| key(one) == key(&entry)).unwrap_or(unique.len()),
        };
        match unique.get_mut(place) {
            Some(old) => *old = entry,
            None => unique.push(entry),
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    type Entry = (String, usize);

    fn key(entry: &Entry) -> &str {
        &entry.0
    }

    proptest! {
        #[test]
        fn it_is_what_setting_one_after_the_other_makes(keys in vec("[a-e]{0,2}", 0..80)) {
            let entries: Vec<Entry> = keys.into_iter().zip(0..).collect();
            let mut expected: Vec<Entry> = Vec::new();
            for (key, value) in &entries {
                match expected.iter_mut().find(|(old, _)| old == key) {
                    Some((_, old)) => *old = *value,
                    None => expected.push((key.clone(), *value)),
                }
            }
            prop_assert_eq!(last_wins(entries, key), expected);
        }

        #[test]
        fn a_set_has_the_keys_of_its_list(keys in vec("[a-e]{0,2}", 0..80), wanted in "[a-f]{0,2}", lookups in 0..80_usize) {
            let entries: Vec<Entry> = keys.into_iter().zip(0..).collect();
            let expected = entries.iter().any(|(key, _)| *key == wanted);
            prop_assert_eq!(KeySet::new(&entries, key, lookups).contains(&wanted), expected);
        }
    }
}
