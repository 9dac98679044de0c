//! The functions that the suite runs: one in each language, which does what its argument `op` says.

/// A language in which the suite has programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// JavaScript on Node.js.
    Node,
    /// Python.
    Python,
    /// Java.
    Java,
}

impl Language {
    /// The family of its kinds.
    pub const fn family(self) -> &'static str {
        match self {
            Self::Node => "nodejs",
            Self::Python => "python",
            Self::Java => "java",
        }
    }

    pub(super) const fn laboratory(self) -> &'static str {
        match self {
            Self::Node => include_str!("laboratory.js"),
            Self::Python => include_str!("laboratory.py"),
            Self::Java => include_str!("laboratory.java"),
        }
    }

    /// Text that does not parse, and what is said of it.
    pub(super) const fn broken(self) -> (&'static str, &'static str) {
        match self {
            Self::Node => ("function main( { syntax error", "SyntaxError"),
            Self::Python => ("def main(:\n", "SyntaxError"),
            Self::Java => ("public class Broken { syntax error", "does not compile"),
        }
    }

    /// A program without an entry point.
    pub(super) const fn without_entry(self) -> &'static str {
        match self {
            Self::Node => "exports.other = 1;",
            Self::Python => "other = 1\n",
            Self::Java => "public class Other { }",
        }
    }

    /// A program that never finishes loading.
    pub(super) const fn endless(self) -> &'static str {
        match self {
            Self::Node => "console.log('loading'); for (;;) {}",
            Self::Python => "print('loading', flush=True)\nwhile True:\n    pass\n",
            // The training run at deploy is let off: it loads the class without the function's environment.
            Self::Java => {
                "public class Endless {
    static { if (System.getenv(\"GREETING\") != null) load(); }
    static void load() { System.out.println(\"loading\"); while (true) { } }
    public static java.util.Map<String, Object> main(java.util.Map<String, Object> params) { return params; }
}"
            }
        }
    }
}
