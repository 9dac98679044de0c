//! Guesses a function's runtime and name from its code.

use std::{borrow::Cow, path::Path};

use flint_model::{CodeFormat, Contract, EntityName};

use crate::failure::Failure;

/// The guess from the code's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    pub(crate) format: CodeFormat,
    /// Absent if only the user can know.
    pub(crate) kind: Option<Cow<'static, str>>,
    /// Absent: the server's default for the kind.
    pub(crate) contract: Option<Contract>,
}

impl Guess {
    fn new(format: CodeFormat, kind: Option<&'static str>) -> Self {
        Self { format, kind: kind.map(Cow::Borrowed), contract: None }
    }
}

/// An extension that contains a dot.
const ARCHIVE: &str = ".tar.gz";
const NODE: &str = "nodejs:default";
const PYTHON: &str = "python:default";
const JAVA: &str = "java:default";
const PHP: &str = "php:default";
const RUBY: &str = "ruby:default";
const GO: &str = "go:default";
const NATIVE: &str = "native";
const WASM: &str = "wasm";
/// The magic bytes of Wasm files.
const WASM_MAGIC: &[u8] = b"\0asm";

/// By name and first bytes, and for an archive by the names in it.
pub(crate) fn of_file(path: &Path, content: &[u8], executable: bool) -> Result<Guess, Failure> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let extension = name.rsplit_once('.').map(|(_, extension)| extension).unwrap_or_default();
    let archive_names =
        |names: Result<Vec<String>, Failure>| names.map(|names| of_names(names.iter().map(String::as_str)));
    Ok(match extension {
        "js" | "mjs" | "cjs" => Guess::new(CodeFormat::Source, Some(NODE)),
        "py" => Guess::new(CodeFormat::Source, Some(PYTHON)),
        "java" => Guess::new(CodeFormat::Source, Some(JAVA)),
        "php" => Guess::new(CodeFormat::Source, Some(PHP)),
        "rb" => Guess::new(CodeFormat::Source, Some(RUBY)),
        // With a kind; without one it was built into WebAssembly already.
        "go" => Guess::new(CodeFormat::Source, Some(GO)),
        "jar" => Guess::new(CodeFormat::Jar, Some(JAVA)),
        "zip" => Guess {
            format: CodeFormat::Zip,
            kind: archive_names(super::contents::of_zip(path, content))?,
            contract: None,
        },
        _ if name.ends_with(ARCHIVE) || extension == "tgz" => Guess::new(CodeFormat::TarGz, None),
        // The server determines the contract from its exports.
        _ if extension == "wasm" || content.starts_with(WASM_MAGIC) => {
            Guess::new(CodeFormat::Executable, Some(WASM))
        }
        _ if content.starts_with(b"\x7fELF") || content.starts_with(b"#!") || executable => {
            Guess { contract: Some(Contract::Stdio), ..Guess::new(CodeFormat::Executable, Some(NATIVE)) }
        }
        _ => {
            let hint = match extension {
                "ts" | "mts" | "cts" | "tsx" => {
                    "TypeScript is compiled first: `npx esbuild FILE.ts --bundle --platform=node --outfile=FILE.js`, and FILE.js deployed"
                }
                _ => {
                    "give a .js, .mjs, .cjs, .py, .java, .go, .php, .rb, .jar, .wasm, .zip or .tar.gz file, a directory, or an executable (`chmod +x`, or a first line like #!/bin/sh)"
                }
            };
            return Err(Failure::usage(format!("cannot tell what {} is", path.display())).hint(hint));
        }
    })
}

/// By the names at the top of a directory or archive.
pub(crate) fn of_names<'a>(names: impl Iterator<Item = &'a str>) -> Option<Cow<'static, str>> {
    let mut virtualenv = None;
    let (mut node, mut python, mut java, mut native) = (false, false, false, false);
    let (mut scripts, mut java_package, mut project) = (None, false, false);
    for name in names {
        match name {
            "package.json" | "index.js" | "index.mjs" | "index.cjs" => node = true,
            "__main__.py" | "main.py" | "handler.py" => python = true,
            "exec" | "bootstrap" => native = true,
            "pom.xml" | "build.gradle" | "build.gradle.kts" | "Cargo.toml" | "go.mod" => project = true,
            "index.php" => scripts = Some(PHP),
            "main.rb" => scripts = Some(RUBY),
            "META-INF/MANIFEST.MF" => java = true,
            _ if virtualenv.is_none() && name.starts_with("virtualenv/lib/python") => {
                virtualenv = python_of(name)
            }
            _ if !name.contains('/')
                && (name.ends_with(".class") || name.ends_with(".java") || name.ends_with(".jar")) =>
            {
                java = true
            }
            _ if name.ends_with(".class") || name.ends_with(".java") => java_package = true,
            _ => {}
        }
    }
    // Classes in packages are in subdirectories; so may be those of another project, or of one that has to be
    // built first.
    java |= java_package && scripts.is_none() && !project;
    // `exec` has no other purpose, whereas a package.json may also be for a Python function's tools.
    match (native, python, node, java) {
        (true, ..) => Some(NATIVE.into()),
        // Compiled packages only work with the Python version they were built for.
        (_, true, false, _) => Some(virtualenv.map_or(PYTHON.into(), Cow::Owned)),
        (_, false, true, _) => Some(NODE.into()),
        (_, false, false, true) => Some(JAVA.into()),
        (_, false, false, false) => scripts.map(Cow::Borrowed),
        _ => None,
    }
}

/// The runtime in `virtualenv/lib/python3.11/…`.
fn python_of(name: &str) -> Option<String> {
    let version = name.strip_prefix("virtualenv/lib/python")?.split('/').next()?;
    let numbers = version
        .split('.')
        .filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        .count();
    (numbers == 2 && version.split('.').count() == 2).then(|| format!("python:{version}"))
}

/// The error for a directory or archive without a known entry file.
pub(crate) fn unknown(path: &Path, format: CodeFormat) -> Failure {
    if format == CodeFormat::TarGz {
        let what = format!("{} is a tar.gz, into which flint does not look for its runtime", path.display());
        return Failure::usage(what).hint(
            "say which runtime it is for with --kind (nodejs, python, java, go, php, ruby, native), or deploy the directory or a zip",
        );
    }
    Failure::usage(format!("cannot tell from its content which runtime {} is for", path.display())).hint(
        "say it with --kind (nodejs, python, java, go, php, ruby, native) or in flint.toml; by itself flint recognises index.js or package.json, __main__.py or main.py, .class or .java files, and an executable named exec",
    )
}

/// The default name of a function: the file's name without extensions, or the directory's.
pub(crate) fn name_of(path: &Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // `..` has no name of its own. A link's own name counts, not its target's.
    let named = match absolute.file_name() {
        Some(_) => absolute,
        None => absolute.canonicalize().unwrap_or(absolute),
    };
    let name = named.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let archive = name.len().checked_sub(ARCHIVE.len()).and_then(|at| name.split_at_checked(at));
    let stem = match (archive, name.rsplit_once('.')) {
        _ if named.is_dir() => name.as_str(),
        (Some((stem, end)), _) if end.eq_ignore_ascii_case(ARCHIVE) && !stem.is_empty() => stem,
        (_, Some((stem, _))) if !stem.is_empty() => stem,
        _ => name.as_str(),
    };
    EntityName::parse(stem).map(|name| name.to_string()).map_err(|_| {
        Failure::usage(format!("'{stem}' cannot be the name of a function: letters, digits, _ @ . & - and inner spaces are allowed"))
            .hint("choose one with --name")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_recognised_by_extension_then_by_content() {
        let guess = |name: &str, content: &[u8]| of_file(Path::new(name), content, false);
        assert_eq!(guess("a.mjs", b"").unwrap(), Guess::new(CodeFormat::Source, Some(NODE)));
        assert_eq!(guess("A.PY", b"").unwrap().kind.as_deref(), Some(PYTHON));
        assert_eq!(guess("a.php", b"<?php").unwrap(), Guess::new(CodeFormat::Source, Some(PHP)));
        assert_eq!(of_names(["main.rb", "lib/x.rb"].into_iter()).as_deref(), Some(RUBY));
        assert_eq!(guess("a.jar", b"").unwrap().format, CodeFormat::Jar);
        assert_eq!(guess("a.tar.gz", b"").unwrap(), Guess::new(CodeFormat::TarGz, None));
        let script = guess("run", b"#!/bin/sh\n").unwrap();
        assert_eq!((script.format, script.contract), (CodeFormat::Executable, Some(Contract::Stdio)));
        assert_eq!(guess("f.wasm", b"").unwrap(), Guess::new(CodeFormat::Executable, Some(WASM)));
        assert_eq!(guess("f", b"\0asm\x01\0\0\0").unwrap().kind.as_deref(), Some(WASM));
        let failure = guess("notes.txt", b"hello").unwrap_err();
        assert!(failure.message.contains("notes.txt") && failure.hint.is_some());
        assert!(guess("a.ts", b"export {}").unwrap_err().hint.unwrap().contains("esbuild"));
        assert!(guess("broken.zip", b"not a zip").is_err());
        let failure = unknown(Path::new("a.tgz"), CodeFormat::TarGz);
        assert!(failure.message.contains("a.tgz") && failure.hint.unwrap().contains("--kind"));
    }

    #[test]
    fn directories_are_recognised_by_their_entry_file() {
        let of = |names: &[&str]| of_names(names.iter().copied()).map(Cow::into_owned);
        assert_eq!(of(&["package.json", "lib/x.js"]).as_deref(), Some(NODE));
        assert_eq!(of(&["__main__.py", "virtualenv/bin/activate"]).as_deref(), Some(PYTHON));
        assert_eq!(
            of(&["__main__.py", "virtualenv/lib/python3.11/site-packages/PIL/Image.py"]).as_deref(),
            Some("python:3.11")
        );
        assert_eq!(of(&["__main__.py", "virtualenv/lib/pythonic/x.py"]).as_deref(), Some(PYTHON));
        assert_eq!(of(&["Main.class"]).as_deref(), Some(JAVA));
        assert_eq!(of(&["com/ex/A.class", "com/ex/B.java"]).as_deref(), Some(JAVA));
        assert_eq!(of(&["pom.xml", "src/main/java/A.java"]), None, "it is built first");
        assert_eq!(of(&["index.js", "tools/A.java"]).as_deref(), Some(NODE));
        assert_eq!(of(&["exec"]).as_deref(), Some(NATIVE));
        assert_eq!(of(&["README.md"]), None);
        assert_eq!(of(&["main.py", "index.js"]), None, "two entry files: only the user can know");
    }

    #[test]
    fn names_come_from_files() {
        assert_eq!(name_of(Path::new("/x/resize.js")).unwrap(), "resize");
        assert_eq!(name_of(Path::new("/x/resize.tar.gz")).unwrap(), "resize");
        assert_eq!(name_of(Path::new("/x/v1.2.TAR.GZ")).unwrap(), "v1.2");
        assert_eq!(name_of(Path::new("/x/v1.2.js")).unwrap(), "v1.2");
        assert!(name_of(Path::new("/x/é.js")).is_err());
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("resize.js");
        std::os::unix::fs::symlink("resize-1.2.js", &link).unwrap();
        std::fs::write(dir.path().join("resize-1.2.js"), "").unwrap();
        assert_eq!(name_of(&link).unwrap(), "resize");
    }
}
