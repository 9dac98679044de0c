//! Determines whether code waits for anything. Nothing settles the engine's own promises in QuickJS, so the
//! glue's event loop provides others, to which esbuild translates `async` functions and the like. Code
//! without any of these stays as written.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// How a handler and the files that it imports wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asynchrony {
    /// They name nothing that could wait.
    None,
    /// By promises and timers, which need no translation.
    Plain,
    /// Unknown: packages are imported, or the words occur, possibly in a comment.
    Possible,
    /// This file needs to be translated.
    Certain(PathBuf),
}

/// Names of functions that create or take promises.
const PLAIN: &[&str] =
    &["Promise", "then", "fromAsync", "setTimeout", "setInterval", "setImmediate", "queueMicrotask"];

pub(super) fn asynchrony(entry: &Path) -> Asynchrony {
    let mut found = Asynchrony::None;
    let mut seen = BTreeSet::new();
    let mut files = vec![entry.to_owned()];
    while let Some(file) = files.pop() {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if !seen.insert(file.clone()) {
            continue;
        }
        if waits(&text) {
            return Asynchrony::Certain(file);
        }
        if text.contains("async") || text.contains("await") || imports_packages(&text) {
            found = Asynchrony::Possible;
        } else if found == Asynchrony::None && PLAIN.iter().any(|word| text.contains(word)) {
            found = Asynchrony::Plain;
        }
        files.extend(beside(&file, &text));
    }
    found
}

/// Whether the code contains `async`, `import()` or top-level `await`. Comments and strings are only partly
/// excluded.
fn waits(text: &str) -> bool {
    text.lines().map(code).any(|line| {
        words(line, "async").any(|(_, after)| begins_a_function(after))
            || words(line, "import").any(|(_, after)| after.trim_start().starts_with('('))
            || words(line, "await").any(|(before, _)| {
                let before = before.trim_end();
                before.is_empty() || before.ends_with('=') || before.ends_with("for")
            })
    })
}

/// Whether this text after `async` begins a function.
fn begins_a_function(after: &str) -> bool {
    let rest = after.trim_start();
    let apart = rest.len() < after.len();
    let behind_a_name = rest.trim_start_matches(is_of_a_name);
    if behind_a_name.len() == rest.len() {
        return rest.starts_with(['(', '*', '[']) || apart && rest.starts_with(['\'', '"']);
    }
    let next = behind_a_name.trim_start();
    (apart || rest.starts_with('#'))
        && (rest.starts_with("function") || next.starts_with('(') || next.starts_with("=>"))
}

/// A line without its trailing comment; empty if it is a comment.
fn code(line: &str) -> &str {
    let line = line.trim();
    if ["//", "/*", "* "].iter().any(|begin| line.starts_with(begin)) || line == "*" {
        return "";
    }
    line.split(" //").next().unwrap_or(line)
}

/// The text before and after each occurrence of a whole word.
fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.match_indices(word).filter_map(move |(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        let alone =
            !before.ends_with(|char| is_of_a_name(char) || char == '.') && !after.starts_with(is_of_a_name);
        alone.then_some((before, after))
    })
}

fn is_of_a_name(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '$' | '#')
}

/// The texts between quotes, and those in between.
fn pieces(text: &str) -> Vec<&str> {
    text.split(['\'', '"', '`']).collect()
}

/// Whether anything is imported by a name that is no path.
fn imports_packages(text: &str) -> bool {
    pieces(text).windows(2).any(|pair| {
        let imports =
            ["from", "import", "import(", "require("].iter().any(|word| pair[0].trim_end().ends_with(word));
        imports && !pair[1].starts_with('.') && !pair[1].starts_with("wasi:")
    })
}

/// The files that a file imports by path.
fn beside(file: &Path, text: &str) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let named = pieces(text).into_iter().filter(|piece| piece.starts_with("./") || piece.starts_with("../"));
    let files = named.filter_map(|name| {
        let ends = ["", ".js", ".mjs", ".cjs", "/index.js"];
        ends.iter().map(|end| folder.join(format!("{name}{end}"))).find(|file| file.is_file())
    });
    files.filter_map(|file| file.canonicalize().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_waits_is_known() {
        for code in [
            "export async function main() {}",
            "exports.main = async () => 1;",
            "const f = async x => x;",
            "const f = async(x) => x;",
            "export const o = { async run() {} };",
            "class A { async *items() {} }",
            "class A { async #own() {} }",
            "class A { async [name]() {} }",
            "const x = await y;",
            "for await (const x of y) {}",
            "await ready();",
            "const m = import('./m.js');",
        ] {
            assert!(waits(code), "{code}");
        }
        for code in [
            "// an async function",
            "  * async function main()",
            "let x = 1; // async () => 1",
            "const text = 'run async jobs';",
            "import async from 'async';",
            "async.map(list);",
            "const o = { async: true, await: 1 };",
            "o.async(); o.import('x'); asynchronous(); notasync(1);",
            "import x from './x.js';",
            "new Promise((done) => setTimeout(done, 5))",
        ] {
            assert!(!waits(code), "{code}");
        }
    }

    #[test]
    fn what_is_imported_is_looked_at_too() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| {
            fs::write(root.join(name), text).unwrap();
            root.join(name)
        };
        write("unused.js", "export async function f() {}");
        let entry = write("index.js", "import { f } from './lib/f.js';\nexport const main = f;\n");
        fs::create_dir(root.join("lib")).unwrap();
        write("lib/f.js", "import '../index.js';\nexport const f = () => 1;\n");
        assert_eq!(asynchrony(&entry), Asynchrony::None);
        write("lib/f.js", "export const f = (g) => new Promise(g);\n");
        assert_eq!(asynchrony(&entry), Asynchrony::Plain);
        write("lib/f.js", "export const f = () => 1; // not async\n");
        assert_eq!(asynchrony(&entry), Asynchrony::Possible);
        write("lib/f.js", "import g from 'g';\nexport const f = g;\n");
        assert_eq!(asynchrony(&entry), Asynchrony::Possible);
        write("lib/f.js", "import r from 'wasi:random/random@0.2.0';\nexport const f = r;\n");
        assert_eq!(asynchrony(&entry), Asynchrony::None);
        let waits = write("lib/f.js", "export const f = async () => 1;\n");
        assert_eq!(asynchrony(&entry), Asynchrony::Certain(waits));
        let commonjs = write("main.cjs", "const { f } = require('./lib/f');");
        assert_eq!(asynchrony(&commonjs), Asynchrony::Certain(root.join("lib/f.js")));
    }
}
