//! The functions that the suite runs: one in each language, which does what its argument `op` says.

/// A language in which the suite has programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// JavaScript on Node.js.
    Node,
    /// Python.
    Python,
}

impl Language {
    pub(super) const fn laboratory(self) -> &'static str {
        match self {
            Self::Node => include_str!("laboratory.js"),
            Self::Python => include_str!("laboratory.py"),
        }
    }

    /// Text that does not parse.
    pub(super) const fn broken(self) -> &'static str {
        match self {
            Self::Node => "function main( { syntax error",
            Self::Python => "def main(:\n",
        }
    }

    /// A program without an entry point.
    pub(super) const fn without_entry(self) -> &'static str {
        match self {
            Self::Node => "exports.other = 1;",
            Self::Python => "other = 1\n",
        }
    }

    /// A program that never finishes loading.
    pub(super) const fn endless(self) -> &'static str {
        match self {
            Self::Node => "console.log('loading'); for (;;) {}",
            Self::Python => "print('loading', flush=True)\nwhile True:\n    pass\n",
        }
    }
}
