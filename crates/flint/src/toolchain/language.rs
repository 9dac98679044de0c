//! Recognises sources that have to be built.

use std::{ffi::OsStr, fmt, fs, path::Path};

use flint_model::Isolation;

use crate::cli::FunctionArgs;

/// A language that is built into Wasm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Go,
    C,
    Java,
    JavaScript,
    Python,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::Go => "Go",
            Self::C => "C",
            Self::Java => "Java",
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
        })
    }
}

/// The language of a file that has to be built: always for C, and for handlers in JavaScript and Python with
/// isolation `wasm`.
pub(crate) fn of_file(path: &Path, args: &FunctionArgs) -> Option<Language> {
    let language = match path.extension().and_then(OsStr::to_str)? {
        "c" => Language::C,
        "go" => Language::Go,
        "js" | "mjs" | "cjs" => Language::JavaScript,
        "py" => Language::Python,
        _ => return None,
    };
    wanted(language, args).then_some(language)
}

/// The language of a directory that has to be built. `kind` is the runtime of its files without a build: it
/// takes precedence over a compiled language, unless isolation `wasm` is requested.
pub(crate) fn of_directory(directory: &Path, kind: Option<&str>, args: &FunctionArgs) -> Option<Language> {
    let has = |name: &str| directory.join(name).is_file();
    let compiled = if has("Cargo.toml") {
        Some(Language::Rust)
    } else if has("go.mod") {
        Some(Language::Go)
    } else if names_teavm(&directory.join("pom.xml")) {
        Some(Language::Java)
    } else if has_c(directory) {
        Some(Language::C)
    } else {
        None
    };
    let kind = args.kind.as_deref().or(kind);
    let handler = kind.and_then(of_kind);
    let asked = args.isolation == Some(Isolation::Wasm);
    match (compiled, kind) {
        (Some(language), None) => wanted(language, args).then_some(language),
        (Some(language), Some(_)) if asked && args.kind.is_none() => Some(language),
        (Some(language), Some("wasm")) => Some(language),
        _ => handler.filter(|language| wanted(*language, args)),
    }
}

/// Whether the user's options permit this build.
fn wanted(language: Language, args: &FunctionArgs) -> bool {
    let wasm = args.isolation == Some(Isolation::Wasm);
    let kind = args.kind.as_deref();
    match language {
        Language::JavaScript | Language::Python => {
            wasm && kind.is_none_or(|kind| kind == "wasm" || of_kind(kind) == Some(language))
        }
        _ => (wasm || args.isolation.is_none()) && kind.is_none_or(|kind| kind == "wasm"),
    }
}

/// The language of a handler's runtime, such as `nodejs:20`.
fn of_kind(kind: &str) -> Option<Language> {
    match kind.trim().split(':').next()? {
        "nodejs" => Some(Language::JavaScript),
        "python" => Some(Language::Python),
        _ => None,
    }
}

/// Other Maven projects produce jars, which are deployed as they are.
fn names_teavm(pom: &Path) -> bool {
    fs::read_to_string(pom).is_ok_and(|text| text.contains("teavm"))
}

fn has_c(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.path().extension().is_some_and(|extension| extension == "c"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(isolation: Option<Isolation>, kind: Option<&str>) -> FunctionArgs {
        FunctionArgs { isolation, kind: kind.map(str::to_owned), ..FunctionArgs::default() }
    }

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    #[test]
    fn compiled_languages_are_told_by_their_build_files() {
        for (file, text, language) in [
            ("Cargo.toml", "[package]", Some(Language::Rust)),
            ("go.mod", "module x", Some(Language::Go)),
            ("pom.xml", "<artifactId>teavm-maven-plugin</artifactId>", Some(Language::Java)),
            ("pom.xml", "<artifactId>jar</artifactId>", None),
            ("fact.c", "int main(void) {}", Some(Language::C)),
            ("README.md", "", None),
        ] {
            let dir = directory(&[(file, text)]);
            assert_eq!(of_directory(dir.path(), None, &args(None, None)), language, "{file}");
        }
    }

    #[test]
    fn nothing_is_built_that_was_deployed_as_it_is_until_wasm_is_asked_for() {
        let wasm = Some(Isolation::Wasm);
        let dir = directory(&[("index.js", ""), ("Cargo.toml", "")]);
        let of = |kind, args| of_directory(dir.path(), kind, &args);
        assert_eq!(of(Some("nodejs:default"), args(None, None)), None);
        assert_eq!(of(Some("nodejs:default"), args(wasm, None)), Some(Language::Rust));
        assert_eq!(of(Some("nodejs:default"), args(wasm, Some("nodejs"))), Some(Language::JavaScript));
        assert_eq!(of(None, args(Some(Isolation::Process), None)), None);
        assert_eq!(of(None, args(None, Some("native"))), None);
        assert_eq!(of(None, args(None, Some("wasm"))), Some(Language::Rust));
        let dir = directory(&[("__main__.py", "")]);
        assert_eq!(of_directory(dir.path(), Some("python:3.11"), &args(wasm, None)), Some(Language::Python));
        assert_eq!(of_directory(dir.path(), Some("python:3.11"), &args(None, None)), None);
    }

    #[test]
    fn files_are_told_by_extension() {
        let wasm = Some(Isolation::Wasm);
        let of = |name: &str, args| of_file(Path::new(name), &args);
        assert_eq!(of("x.c", args(None, None)), Some(Language::C));
        assert_eq!(of("x.go", args(wasm, None)), Some(Language::Go));
        assert_eq!(of("x.c", args(Some(Isolation::Process), None)), None);
        assert_eq!(of("x.js", args(None, None)), None);
        assert_eq!(of("x.js", args(wasm, None)), Some(Language::JavaScript));
        assert_eq!(of("x.py", args(wasm, Some("python"))), Some(Language::Python));
        assert_eq!(of("x.py", args(wasm, Some("nodejs"))), None);
        assert_eq!(of("x.jar", args(wasm, None)), None);
    }
}
