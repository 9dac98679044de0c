//! The templates of new projects.

use clap::ValueEnum;

/// The languages that there is a project for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    Rust,
    Go,
    Js,
    Python,
    Java,
    C,
}

/// The files of a sample, with their text.
macro_rules! files {
    ($sample:literal: $($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../functions/wasm/", $sample, "/", $file)))),+]
    };
}

impl Template {
    /// The sample's directory, which is also its name within the files.
    pub(crate) const fn sample(self) -> &'static str {
        match self {
            Self::Rust => "rust-hello",
            Self::Go => "go-hello",
            Self::Js => "js-hello",
            Self::Python => "python-hello",
            Self::Java => "java-hello",
            Self::C => "c-hello",
        }
    }

    /// Path and text of each file.
    pub(crate) const fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Rust => files!("rust-hello":
                ".gitignore", "Cargo.lock", "Cargo.toml", "README.md", "event.json", "src/flint.rs", "src/lib.rs"),
            Self::Go => files!("go-hello": "README.md", "event.json", "go.mod", "main.go"),
            Self::Js => files!("js-hello":
                ".gitignore", "README.md", "event.json", "flint.toml", "index.js", "package.json"),
            Self::Python => files!("python-hello":
                ".gitignore", "README.md", "__main__.py", "event.json", "flint.toml"),
            Self::Java => files!("java-hello":
                ".gitignore", "README.md", "event.json", "pom.xml", "src/main/java/Hello.java", "src/main/java/Stdin.java"),
            Self::C => files!("c-hello": "README.md", "event.json", "flint.h", "hello.c"),
        }
    }
}
