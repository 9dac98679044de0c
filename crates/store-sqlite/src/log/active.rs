//! The in-memory index of the segment being written.

use std::collections::HashMap;

use super::{
    frame::{Location, Meta},
    key::Key,
    sorted::SortedKeys,
};

/// The records of one namespace in this segment.
#[derive(Debug, Default)]
pub(crate) struct NamespaceKeys {
    /// All of them.
    pub(crate) all: SortedKeys,
    /// By the name they are listed under.
    pub(crate) names: HashMap<String, SortedKeys>,
}

impl NamespaceKeys {
    /// The list for a name, or for all.
    pub(crate) fn of(&self, name: Option<&str>) -> Option<&SortedKeys> {
        match name {
            None => Some(&self.all),
            Some(name) => self.names.get(name),
        }
    }
}

/// The locations of all records of the segment.
#[derive(Debug, Default)]
pub(crate) struct Active {
    /// By number, in order of arrival.
    locations: Vec<Location>,
    numbers: HashMap<String, u32>,
    namespaces: Vec<NamespaceKeys>,
    ids: HashMap<(u32, u128), (u64, u32)>,
    oldest: Option<u64>,
    newest: u64,
}

impl Active {
    /// How many records it has.
    pub(crate) fn len(&self) -> usize {
        self.locations.len()
    }

    /// The earliest start.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.oldest
    }

    /// The latest start.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Adds a record, unless its namespace has one with that id.
    pub(crate) fn insert(&mut self, meta: Meta<'_>, location: Location) {
        let number = match self.numbers.get(meta.namespace) {
            Some(number) => *number,
            None => {
                let number = self.namespaces.len() as u32;
                self.numbers.insert(meta.namespace.to_owned(), number);
                self.namespaces.push(NamespaceKeys::default());
                number
            }
        };
        let record = self.locations.len() as u32;
        let start = meta.key.start;
        if *self.ids.entry((number, meta.key.id())).or_insert((start, record)) != (start, record) {
            return;
        }
        self.locations.push(location);
        let keys = &mut self.namespaces[number as usize];
        keys.all.insert(meta.key, record);
        match keys.names.get_mut(meta.name) {
            Some(named) => named.insert(meta.key, record),
            None => keys.names.entry(meta.name.to_owned()).or_default().insert(meta.key, record),
        }
        self.oldest = Some(self.oldest.map_or(start, |oldest| oldest.min(start)));
        self.newest = self.newest.max(start);
    }

    /// The record of that id.
    pub(crate) fn find(&self, namespace: &str, id: u128) -> Option<(Key, Location)> {
        let number = self.numbers.get(namespace)?;
        let (start, record) = self.ids.get(&(*number, id))?;
        Some((Key::new(*start, id), self.location(*record)))
    }

    /// The place of a record.
    pub(crate) fn location(&self, record: u32) -> Location {
        self.locations[record as usize]
    }

    /// The lists of a namespace.
    pub(crate) fn namespace(&self, namespace: &str) -> Option<&NamespaceKeys> {
        self.numbers.get(namespace).map(|number| &self.namespaces[*number as usize])
    }

    /// Every namespace, in order of name.
    pub(crate) fn namespaces(&self) -> Vec<(&str, &NamespaceKeys)> {
        let mut all: Vec<_> = self
            .numbers
            .iter()
            .map(|(name, number)| (name.as_str(), &self.namespaces[*number as usize]))
            .collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }
}
