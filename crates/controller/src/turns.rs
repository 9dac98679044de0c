//! An in-memory queue that is fair between namespaces: one line per namespace, served in turn.

use std::collections::{HashMap, VecDeque};

use flint_model::NamespaceName;

/// Lines of waiting items.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    lines: HashMap<NamespaceName, VecDeque<T>>,
    /// Namespaces with a line, the next in turn first.
    turns: VecDeque<NamespaceName>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self { lines: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<T> Turns<T> {
    /// Appends an item to its namespace's line.
    pub(crate) fn push(&mut self, namespace: NamespaceName, item: T) {
        match self.lines.get_mut(&namespace) {
            Some(line) => line.push_back(item),
            None => {
                self.lines.insert(namespace.clone(), VecDeque::from([item]));
                self.turns.push_back(namespace);
            }
        }
    }

    /// Removes and returns a namespace's line.
    pub(crate) fn remove(&mut self, namespace: &NamespaceName) -> VecDeque<T> {
        self.turns.retain(|other| other != namespace);
        self.lines.remove(namespace).unwrap_or_default()
    }

    /// Removes items from a namespace's line unless they are to stay.
    pub(crate) fn retain(&mut self, namespace: &NamespaceName, stays: impl FnMut(&T) -> bool) {
        let Some(line) = self.lines.get_mut(namespace) else { return };
        line.retain(stays);
        if line.is_empty() {
            self.remove(namespace);
        }
    }

    /// The length of a namespace's line.
    pub(crate) fn len_of(&self, namespace: &NamespaceName) -> usize {
        self.lines.get(namespace).map_or(0, VecDeque::len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Removes the first item of the namespace whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.pop_if(|_| Some(())).map(|(item, ())| item)
    }

    /// The same of those that get something from `take`. The others keep their turns.
    pub(crate) fn pop_if<P>(&mut self, mut take: impl FnMut(&NamespaceName) -> Option<P>) -> Option<(T, P)> {
        let (turn, taken) =
            self.turns.iter().enumerate().find_map(|(turn, namespace)| Some((turn, take(namespace)?)))?;
        let namespace = self.turns.remove(turn)?;
        let line = self.lines.get_mut(&namespace)?;
        let item = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        Some((item, taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_take_turns() {
        let mut waiting = Turns::default();
        let name = |text: &str| NamespaceName::parse(text).unwrap();
        for item in ["a1", "a2", "a3", "b1", "c1"] {
            waiting.push(name(&item[..1]), item);
        }
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "a3"]);
        waiting.push(name("b"), "b2");
        assert_eq!((waiting.pop(), waiting.pop()), (Some("b2"), None));
    }

    #[test]
    fn who_may_not_have_an_item_keeps_its_turn() {
        let mut waiting = Turns::default();
        for item in ["a1", "a2", "b1", "b2", "c1"] {
            waiting.push(item[..1].parse().unwrap(), item);
        }
        let mut but_a = || waiting.pop_if(|namespace| (namespace.as_str() != "a").then_some(()));
        let order: Vec<_> = std::iter::from_fn(&mut but_a).map(|(item, ())| item).collect();
        assert_eq!(order, ["b1", "c1", "b2"]);
        assert_eq!((waiting.pop(), waiting.pop(), waiting.is_empty()), (Some("a1"), Some("a2"), true));
    }

    #[test]
    fn a_namespace_that_is_gone_has_no_turn() {
        let mut waiting = Turns::default();
        let name = |text: &str| NamespaceName::parse(text).unwrap();
        for item in ["a1", "a2", "b1"] {
            waiting.push(name(&item[..1]), item);
        }
        assert_eq!(waiting.remove(&name("a")), ["a1", "a2"]);
        assert!(waiting.remove(&name("c")).is_empty());
        waiting.push(name("a"), "a3");
        waiting.push(name("a"), "a4");
        waiting.retain(&name("a"), |item| *item != "a3");
        waiting.retain(&name("c"), |_| true);
        assert_eq!((waiting.len_of(&name("a")), waiting.len_of(&name("c"))), (1, 0));
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(order, ["b1", "a4"]);
        waiting.push(name("a"), "a5");
        waiting.retain(&name("a"), |_| false);
        assert!(waiting.is_empty());
    }
}
