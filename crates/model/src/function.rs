//! A function: what a user deployed.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    Annotations, ByteSize, Contract, Digest, FunctionLimits, FunctionPath, Parameters, Reuse,
    SnapshotOptions, Start, Strategy, StrategyError, StrategyRequest, Timestamp, Version, WasmOptions,
};

/// A deployed function. Never changed in place: each write makes a new revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Where it is found.
    pub path: FunctionPath,
    /// The version that users see.
    pub version: Version,
    /// Counts every write of this path over all time, deletions included: no two functions ever share path and revision.
    pub revision: u64,
    /// The runtime.
    pub kind: Kind,
    /// The code.
    pub code: Code,
    /// The entry point, in the way of its language; absent = the runtime's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// The container image that a blackbox action named. It is not run; kept because clients set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How the code receives a call.
    pub contract: Contract,
    /// What its user said about that and about the strategy; the rest was chosen by Flint.
    #[serde(default, skip_serializing_if = "StrategyRequest::is_empty")]
    pub asked: StrategyRequest,
    /// How it is run.
    pub strategy: Strategy,
    /// How it is warmed up and frozen, where it is.
    #[serde(default, skip_serializing_if = "SnapshotOptions::is_default")]
    pub snapshot: SnapshotOptions,
    /// What it is granted as WebAssembly, where it is that.
    #[serde(default, skip_serializing_if = "WasmOptions::is_default")]
    pub wasm: WasmOptions,
    /// What it may connect to.
    pub network: Network,
    /// What it may use.
    pub limits: FunctionLimits,
    /// Its default arguments.
    #[serde(default)]
    pub parameters: Parameters,
    /// What is known about it.
    #[serde(default)]
    pub annotations: Annotations,
    /// Readable by everyone; only meaningful on packages, kept because clients set it.
    #[serde(default)]
    pub publish: bool,
    /// The earlier version that this one is again, when it was made by a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Version>,
    /// When this revision was written.
    pub updated: Timestamp,
}

impl Function {
    /// The strategy of a function that was to start from a snapshot and cannot: a fresh process, kept for further calls unless its user asked
    /// for reuse `never`.
    pub fn fallback(&self) -> Strategy {
        Strategy { start: Start::Spawn, reuse: self.asked.reuse.unwrap_or(Reuse::Warm), ..self.strategy }
    }

    /// Whether its calls get their caller's key (annotation `provide-api-key`), and with it access to the API. Without the annotation they do, as
    /// in OpenWhisk, where only functions older than the annotation lack it.
    pub fn wants_api_key(&self) -> bool {
        const WANTED: &str = "provide-api-key";
        self.annotations.get(WANTED).is_none() || self.annotations.is_truthy(WANTED)
    }
}

/// Where a function's code is and what it looks like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Its address in the blob store.
    pub digest: Digest,
    /// Its size there.
    pub size: ByteSize,
    /// What the blob is.
    pub format: CodeFormat,
}

/// What a code blob is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeFormat {
    /// Source text of the kind's language, or of a script that came as text.
    Source,
    /// A zip archive of a directory.
    Zip,
    /// A tar archive, compressed by gzip.
    TarGz,
    /// A Java archive.
    Jar,
    /// An executable file, or a script that begins with `#!`.
    Executable,
}

/// What a function may connect to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Nothing but itself.
    #[default]
    None,
    /// The outside by NAT; not the host, not other functions, not link-local metadata.
    Egress,
}

impl FromStr for Network {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "egress" => Ok(Self::Egress),
            _ => Err(StrategyError::new("network", text, &["none", "egress"])),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Egress => "egress",
        })
    }
}

/// A runtime and its version, `family:version`, for example `nodejs:20`; without a version for programs that bring
/// their own runtime: `native`, `blackbox`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kind(String);

/// Why a text is not a kind.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a kind: write 'family:version' or 'family', for example 'nodejs:20'")]
pub struct KindError(String);

impl Kind {
    /// Every family that Flint has. Which versions there are is up to the host, and changes when runtimes are
    /// installed.
    pub const FAMILIES: [&str; 9] =
        ["nodejs", "python", "java", "go", "php", "ruby", "native", "blackbox", "wasm"];

    /// The language family: `nodejs`, `python`, `java`, `native`.
    pub fn family(&self) -> &str {
        self.0.split_once(':').map_or(&self.0, |(family, _)| family)
    }

    /// The version within the family.
    pub fn version(&self) -> Option<&str> {
        self.0.split_once(':').map(|(_, version)| version)
    }

    /// `family[:version]`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Kind {
    type Err = KindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = text.trim().to_ascii_lowercase();
        let word = |part: &str| {
            !part.is_empty()
                && part.len() <= 64
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        };
        match kind.split_once(':').map_or((kind.as_str(), None), |(family, version)| (family, Some(version)))
        {
            (family, version) if word(family) && version.is_none_or(word) => Ok(Self(kind)),
            _ => Err(KindError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Kind {
    type Error = KindError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> Self {
        kind.0
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_was_stored_before_snapshots_is_read_and_written_as_it_was() {
        let stored = serde_json::json!({
            "path": "guest/f", "version": "0.0.1", "revision": 3, "kind": "nodejs:20",
            "code": {"digest": "00".repeat(32), "size": 10, "format": "source"},
            "contract": "handler", "network": "none", "updated": 1,
            "strategy": {"isolation": "process", "start": "spawn", "reuse": "warm", "concurrency": 1},
            "limits": FunctionLimits::default(), "parameters": [], "annotations": [], "publish": false,
        });
        let function: Function = serde_json::from_value(stored.clone()).unwrap();
        assert!(
            function.asked.is_empty()
                && function.wasm.is_default()
                && function.snapshot.is_default()
                && function.snapshot.annotate
        );
        assert_eq!(serde_json::to_value(&function).unwrap(), stored);
    }

    #[test]
    fn kinds_are_trimmed_and_lower_case() {
        let kind: Kind = " NodeJS:20 ".parse().unwrap();
        assert_eq!((kind.as_str(), kind.family(), kind.version()), ("nodejs:20", "nodejs", Some("20")));
        assert_eq!("native".parse::<Kind>().unwrap().version(), None);
        for bad in ["", ":", "nodejs:", ":20", "a:b:c", "../x", "no de"] {
            assert!(bad.parse::<Kind>().is_err(), "{bad}");
        }
    }
}
