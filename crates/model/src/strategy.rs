//! How a function is run: a point on the axes isolation, start, reuse and concurrency, beside the contract of its code.

use std::{fmt, num::NonZeroU32};

use serde::{Deserialize, Serialize};

/// Why a text is not one of an axis' values.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{value}' is not a value of {axis}: choose one of {choices}")]
pub struct StrategyError {
    axis: &'static str,
    value: String,
    choices: String,
}

impl StrategyError {
    pub(crate) fn new(axis: &'static str, value: &str, choices: &[&str]) -> Self {
        Self { axis, value: value.to_owned(), choices: choices.join(", ") }
    }
}

macro_rules! axis {
    ($(#[$doc:meta])* $name:ident as $axis:literal { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// Every value, as users write it.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            /// The value as users write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::StrategyError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err($crate::StrategyError::new($axis, text, Self::NAMES)),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use axis;

axis! {
    /// How code receives a call.
    Contract as "contract" {
        /// One of Flint's shims calls `main(params)` or `handler(event, context)`.
        Handler = "handler",
        /// Any program: the request body on stdin, the response on stdout (OpenFaaS' classic watchdog).
        Stdio = "stdio",
        /// One resident process, fed HTTP/1.1 over its stdin and stdout.
        AfterBurn = "afterburn",
        /// A server that listens on `$PORT`.
        Http = "http",
        /// A server with OpenWhisk's `/init` and `/run` on port 8080.
        OpenWhisk = "openwhisk",
        /// OpenWhisk's ActionLoop: a resident program that reads a JSON line a call on stdin and writes a JSON line on descriptor 3.
        ActionLoop = "actionloop",
        /// OpenWhisk's docker skeleton: a process a call, its arguments as JSON in `argv[1]` and on stdin, the last line of stdout its answer.
        Skeleton = "skeleton",
        /// A client of AWS Lambda's Runtime API.
        Lambda = "lambda",
        /// A component that exports `wasi:http/incoming-handler`.
        WasiHttp = "wasi-http",
        /// A WASI program: stdin and stdout.
        WasiCommand = "wasi-command",
        /// A Wasm module that is handed a pointer to the body and hands back one to its answer (docs/wasm-core-abi.md).
        WasmCore = "wasm-core",
    }
}

axis! {
    /// What separates an instance from everything else.
    Isolation as "isolation" {
        /// Linux namespaces, seccomp, Landlock and cgroups.
        Process = "process",
        /// A user-space kernel.
        Gvisor = "gvisor",
        /// Hardware virtualisation.
        Microvm = "microvm",
        /// A Wasm sandbox.
        Wasm = "wasm",
    }
}

axis! {
    /// How a new instance comes to be.
    Start as "start" {
        /// A fresh process.
        Spawn = "spawn",
        /// A fork of a live, warmed-up snapshot.
        Fork = "fork",
        /// A stored snapshot.
        Restore = "restore",
        /// A new instance of a compiled module.
        Instantiate = "instantiate",
    }
}

axis! {
    /// What becomes of an instance after a call.
    Reuse as "reuse" {
        /// It is gone.
        Never = "never",
        /// It stays for the next call of the same function.
        Warm = "warm",
    }
}

/// How a function is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Strategy {
    /// What separates an instance from everything else.
    pub isolation: Isolation,
    /// How a new instance comes to be.
    pub start: Start,
    /// What becomes of it after a call.
    pub reuse: Reuse,
    /// How many calls one instance serves at once.
    pub concurrency: NonZeroU32,
}

/// What the user said about contract and strategy, as opposed to what Flint chose: a later deploy chooses anew, and a fall-back
/// may change what was chosen, never what was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct StrategyRequest {
    /// How the code receives a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// What separates an instance from everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// How a new instance comes to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// What becomes of an instance after a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
}

impl StrategyRequest {
    /// Nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What this says, and what `earlier` said where this says nothing.
    pub fn or(self, earlier: Self) -> Self {
        Self {
            contract: self.contract.or(earlier.contract),
            isolation: self.isolation.or(earlier.isolation),
            start: self.start.or(earlier.start),
            reuse: self.reuse.or(earlier.reuse),
        }
    }
}

impl Strategy {
    /// Whether the pool discards an instance after one call. It keeps those of start `instantiate`: they are handles on compiled code that make a
    /// new WebAssembly instance for each call themselves.
    pub fn is_single_use(&self) -> bool {
        self.reuse == Reuse::Never && self.start != Start::Instantiate
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}×{}", self.isolation, self.start, self.reuse, self.concurrency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_value_is_answered_with_the_choices() {
        assert_eq!("fork".parse(), Ok(Start::Fork));
        let error = "teleport".parse::<Start>().unwrap_err().to_string();
        assert_eq!(
            error,
            "'teleport' is not a value of start: choose one of spawn, fork, restore, instantiate"
        );
    }
}
