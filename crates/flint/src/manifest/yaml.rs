//! Parses YAML to a tree with line numbers. Bounded: manifests are small, and aliases must not expand them.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};
use serde_json::Value;

use super::scalar;

/// Maximum length of the text.
pub(crate) const MOST_BYTES: usize = 1 << 20;
/// Maximum nesting depth.
const DEEPEST: usize = 64;
/// Maximum number of nodes, including repetitions by aliases.
const MOST_NODES: usize = 100_000;
/// Maximum total length of scalars, likewise.
const MOST_TEXT: usize = 4 << 20;

/// A scalar, list or map with its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// Its source text and its value.
    Scalar {
        text: String,
        value: Value,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a map.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: usize,
    pub(crate) value: Node,
}

impl Node {
    /// Whether it is null.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar { value: Value::Null, .. })
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    /// Its type, for errors.
    pub(crate) fn sort(&self) -> &'static str {
        match &self.content {
            Content::Scalar { value: Value::Null, .. } => "nothing",
            Content::Scalar { value: Value::Bool(_), .. } => "true or false",
            Content::Scalar { value: Value::Number(_), .. } => "a number",
            Content::Scalar { .. } => "a text",
            Content::List(_) => "a list",
            Content::Map(_) => "a map",
        }
    }
}

/// Why a text is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) next: &'static str,
}

fn unreadable(line: usize, what: impl Into<String>, next: &'static str) -> Unreadable {
    Unreadable { line, what: what.into(), next }
}

impl From<ScanError> for Unreadable {
    fn from(error: ScanError) -> Self {
        let what = format!("it is not YAML: {} (column {})", error.info(), error.marker().col() + 1);
        unreadable(
            error.marker().line(),
            what,
            "look at this line and the one before: indentation, colons, quotes",
        )
    }
}

/// Parses the only document of a text; `None` if it is empty.
pub(crate) fn parse(text: &str) -> Result<Option<Node>, Unreadable> {
    if text.len() > MOST_BYTES {
        let what = format!("it is larger than the {} KiB that a manifest may have", MOST_BYTES >> 10);
        return Err(unreadable(1, what, "keep code in files of their own and name them with 'function'"));
    }
    let mut builder = Builder::default();
    // What is missing at the end is reported after the last line.
    let last = text.lines().count().max(1);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let error = Unreadable::from(error);
            Unreadable { line: error.line.min(last), ..error }
        })?;
        builder.take(event, span.start)?;
    }
    Ok(builder.root)
}

/// The tree under construction: open nodes and anchors.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    /// By the parser's anchor number: the node and its size.
    anchors: HashMap<usize, (Node, Size)>,
    read: Size,
}

/// Number of nodes, and bytes of scalars.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    nodes: usize,
    text: usize,
}

struct Open {
    line: usize,
    anchor: usize,
    /// The size of everything read before it.
    before: Size,
    content: OpenContent,
}

enum OpenContent {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, keys: HashSet<String>, key: Option<(String, usize)>, merged: Vec<Node> },
}

impl Builder {
    fn take(&mut self, event: Event<'_>, at: Marker) -> Result<(), Unreadable> {
        let line = at.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let before = self.read;
                self.count(Size { nodes: 1, text: text.len() }, line)?;
                let value = value_of(&text, style, tag.as_deref(), line)?;
                let node = Node { line, content: Content::Scalar { text: text.into_owned(), value } };
                self.close(node, anchor, before, style == ScalarStyle::Plain)
            }
            Event::SequenceStart(anchor, tag) => {
                check_tag(tag.as_deref(), "seq", line)?;
                self.open(line, anchor, OpenContent::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                check_tag(tag.as_deref(), "map", line)?;
                let content = OpenContent::Map {
                    entries: Vec::new(),
                    keys: HashSet::new(),
                    key: None,
                    merged: Vec::new(),
                };
                self.open(line, anchor, content)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open { line, anchor, before, content }) => {
                    let content = match content {
                        OpenContent::List(nodes) => Content::List(nodes),
                        OpenContent::Map { mut entries, keys, merged, .. } => {
                            merge(&mut entries, keys, merged)?;
                            Content::Map(entries)
                        }
                    };
                    self.close(Node { line, content }, anchor, before, false)
                }
                None => Err(unreadable(line, "it ends what has not begun", "")),
            },
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(unreadable(line, "an alias stands within what it names", "write it out"));
                };
                let before = self.read;
                self.count(size, line)?;
                self.close(node, 0, before, false)
            }
            Event::DocumentStart(_) if self.root.is_some() => Err(unreadable(
                line,
                "it has a second document",
                "keep one manifest in a file: remove the line '---' and what follows",
            )),
            _ => Ok(()),
        }
    }

    fn count(&mut self, more: Size, line: usize) -> Result<(), Unreadable> {
        self.read.nodes += more.nodes;
        self.read.text += more.text;
        let most = if self.read.nodes > MOST_NODES {
            format!("{MOST_NODES} values")
        } else if self.read.text > MOST_TEXT {
            format!("{} MiB of text", MOST_TEXT >> 20)
        } else {
            return Ok(());
        };
        let what = format!("it has more than {most}, counting what its aliases repeat");
        Err(unreadable(line, what, "use fewer aliases"))
    }

    fn open(&mut self, line: usize, anchor: usize, content: OpenContent) -> Result<(), Unreadable> {
        let before = self.read;
        self.count(Size { nodes: 1, text: 0 }, line)?;
        if self.open.len() >= DEEPEST {
            return Err(unreadable(line, format!("it is nested more than {DEEPEST} deep"), ""));
        }
        self.open.push(Open { line, anchor, before, content });
        Ok(())
    }

    /// Adds a completed node to its parent.
    fn close(&mut self, node: Node, anchor: usize, before: Size, plain: bool) -> Result<(), Unreadable> {
        if anchor != 0 {
            let Size { nodes, text } = self.read;
            let size = Size { nodes: nodes - before.nodes, text: text - before.text };
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(OpenContent::List(nodes)) => nodes.push(node),
            Some(OpenContent::Map { entries, keys, key, merged }) => match key.take() {
                None => *key = Some(key_of(node, plain, keys)?),
                Some((name, _)) if name == MERGE => merged.push(node),
                Some((key, line)) => entries.push(Entry { key, line, value: node }),
            },
        }
        Ok(())
    }
}

/// Represents the key `<<`; distinct from any scalar, since texts contain no NUL.
const MERGE: &str = "\0<<";

fn key_of(node: Node, plain: bool, keys: &mut HashSet<String>) -> Result<(String, usize), Unreadable> {
    let line = node.line;
    match node.content {
        Content::Scalar { text, .. } if text == "<<" && plain => Ok((MERGE.to_owned(), line)),
        Content::Scalar { text, .. } if text.contains('\0') => {
            Err(unreadable(line, "a key has a NUL in it", ""))
        }
        Content::Scalar { text, .. } if !keys.insert(text.clone()) => {
            Err(unreadable(line, format!("the key '{text}' is there twice in one map"), "keep one of them"))
        }
        Content::Scalar { text, .. } => Ok((text, line)),
        _ => Err(unreadable(line, "a key is a list or a map", "use a word as the key")),
    }
}

/// Merges the maps of `<<` into a map; its own keys take precedence.
fn merge(entries: &mut Vec<Entry>, mut keys: HashSet<String>, merged: Vec<Node>) -> Result<(), Unreadable> {
    for node in merged {
        let maps = match node {
            Node { content: Content::List(nodes), .. } => nodes,
            one => vec![one],
        };
        for map in maps {
            let Content::Map(more) = map.content else {
                return Err(unreadable(map.line, "'<<' takes a map, or a list of maps", ""));
            };
            entries.extend(more.into_iter().filter(|entry| keys.insert(entry.key.clone())));
        }
    }
    Ok(())
}

fn value_of(text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<Value, Unreadable> {
    let forced = tag.is_some_and(|tag| (tag.is_yaml_core_schema() && tag.suffix == "str") || is_bare(tag));
    if let Some(tag) = tag.filter(|tag| !is_bare(tag) && !tag.is_yaml_core_schema()) {
        return Err(unknown_tag(tag, line));
    }
    match style {
        ScalarStyle::Plain if !forced => scalar::plain(text)
            .map_err(|why| unreadable(line, why, "write it in quotes, or as another number")),
        _ => Ok(text.into()),
    }
}

fn check_tag(tag: Option<&Tag>, sort: &str, line: usize) -> Result<(), Unreadable> {
    match tag {
        Some(tag) if !(is_bare(tag) || tag.is_yaml_core_schema() && tag.suffix == sort) => {
            Err(unknown_tag(tag, line))
        }
        _ => Ok(()),
    }
}

/// `!`, which only prevents type detection.
fn is_bare(tag: &Tag) -> bool {
    matches!((tag.handle.as_str(), tag.suffix.as_str()), ("" | "!", "" | "!"))
}

fn unknown_tag(tag: &Tag, line: usize) -> Unreadable {
    unreadable(line, format!("the tag {tag} means nothing in a manifest"), "leave it out")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    fn json_of(node: &Node) -> Value {
        match &node.content {
            Content::Scalar { value, .. } => value.clone(),
            Content::List(nodes) => nodes.iter().map(json_of).collect(),
            Content::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), json_of(&entry.value)))
                .collect::<Map<_, _>>()
                .into(),
        }
    }

    fn read(text: &str) -> Value {
        json_of(&parse(text).unwrap().unwrap())
    }

    fn refused(text: &str) -> Unreadable {
        parse(text).unwrap_err()
    }

    #[test]
    fn a_text_becomes_a_tree_with_lines() {
        let text = "# a comment\npackages:\n  demo:\n    inputs: {a: 1, b: 'yes', c: \"x\\ty\"}\n    list:\n    - on\n    - ~\n    text: |\n      two\n      lines\n";
        let expected = json!({"packages": {"demo": {"inputs": {"a": 1, "b": "yes", "c": "x\ty"}, "list": [true, null], "text": "two\nlines\n"}}});
        assert_eq!(read(text), expected);
        let root = parse(text).unwrap().unwrap();
        let demo = root.get("packages").and_then(|node| node.get("demo")).unwrap();
        assert_eq!(demo.get("list").map(|node| node.line), Some(6));
        let Content::Map(entries) = &demo.content else { panic!() };
        assert_eq!(entries.iter().map(|entry| entry.line).collect::<Vec<_>>(), [4, 5, 8]);
        assert_eq!(parse("# nothing\n").unwrap(), None);
    }

    #[test]
    fn anchors_aliases_and_merges_are_resolved() {
        let text = "base: &base {memory: 256, logs: 1}\na:\n  <<: *base\n  memory: 512\nb: *base\nc: {<<: [*base, {x: 1}]}\n";
        let read = read(text);
        assert_eq!(read["a"], json!({"memory": 512, "logs": 1}));
        assert_eq!(
            (&read["b"], &read["c"]),
            (&json!({"memory": 256, "logs": 1}), &json!({"memory": 256, "logs": 1, "x": 1}))
        );
        assert_eq!(read["a"]["memory"], 512, "what a map says itself counts");
        assert_eq!(super::tests::read("a: !!str 12\nb: ! 7\n"), json!({"a": "12", "b": "7"}));
    }

    #[test]
    fn an_alias_bomb_is_refused_without_growing() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..30 {
            let list = vec![format!("*a{}", level - 1); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{list}]\n"));
        }
        let error = refused(&text);
        assert!(error.what.contains("more than 100000 values") && error.line < 8, "{error:?}");
        // One long text, and few nodes.
        let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 19), vec!["*a"; 5000].join(", "));
        assert!(refused(&text).what.contains("more than 4 MiB of text"));
        assert!(refused("a: &a [*a]").what.contains("within what it names"));
        assert!(refused(&"[".repeat(100)).what.contains("nested more than 64 deep"));
        assert!(refused(&" ".repeat(MOST_BYTES + 1)).what.contains("1024 KiB"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, part) in [
            ("a: 1\nb: [", 2, "not YAML"),
            ("a: 1\n b: 2", 2, "not YAML"),
            ("a:\n\t- b", 2, "not YAML"),
            ("a: 1\nb: 2\na: 3", 3, "'a' is there twice"),
            ("a: 1\n---\nb: 1", 2, "second document"),
            ("a: 1\nb: 0123", 2, "begins with 0"),
            ("a: !secret x", 1, "tag !secret"),
            ("a: *nobody", 1, "not YAML"),
            ("? [a]\n: b", 1, "a key is a list"),
            ("<<: 7", 1, "takes a map"),
        ] {
            let error = refused(text);
            assert!(error.what.contains(part), "{text:?}: {error:?}");
            // The exact position of a syntax error is up to the parser.
            let near = error.what.contains("not YAML") && (1..=line).contains(&error.line);
            assert!(error.line == line || near, "{text:?}: {error:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[-a-c:\\[\\]{},&*!<|>'\"#?% \\n\\t0-9]{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn json_is_read_as_what_it_is(text in "[^\\x00-\\x1f\\x7f-\\u{9f}\\u{2028}\\u{2029}\\u{85}\\u{feff}\\u{fffe}\\u{ffff}]{0,30}", number: i32, flag: bool) {
            let value = json!({"text": text, "list": [number, flag, null], "map": {"a": {"b": number}}});
            prop_assert_eq!(read(&value.to_string()), value);
        }
    }
}
