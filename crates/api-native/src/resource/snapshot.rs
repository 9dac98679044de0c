//! Options of warm-up and snapshot, and their results.

use base64::{Engine, engine::general_purpose::STANDARD};
use flint_executor::Prepared;
use flint_model::{Jit, SnapshotOptions, SnapshotReport, WarmedFunction, WarmupEvent};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::StrategyResource;

/// How a function that starts from a snapshot is warmed up and frozen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SnapshotRequest {
    /// Events that the function is called with until its code is compiled: at most 64, with 1 MiB in total. Empty = frozen as loaded, without warm-up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warmup: Vec<WarmupEventResource>,
    /// Whether warm-up may use the function's network; if not, warm-up has no network access. Absent = no.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub warmup_network: bool,
    /// Whether functions reached by warm-up are driven to optimised code, one by one; of Java, whether the deploy writes a class archive. Absent = yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotate: Option<bool>,
    /// Additional compiler: `numba`, for Python.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "numba")]
    pub jit: Option<Jit>,
}

/// A call made before the snapshot: either `params`, or `body` with its `content_type`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmupEventResource {
    /// JSON body of the call.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub params: Option<Value>,
    /// Body of the call, base64-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Media type of `body`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "image/jpeg")]
    pub content_type: Option<String>,
}

/// `null` is an argument, and differs from an absent one.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl WarmupEventResource {
    /// A call with JSON.
    pub fn params(value: Value) -> Self {
        Self { params: Some(value), ..Self::default() }
    }

    /// A call with bytes.
    pub fn body(bytes: &[u8], content_type: &str) -> Self {
        Self { params: None, body: Some(STANDARD.encode(bytes)), content_type: Some(content_type.to_owned()) }
    }
}

impl SnapshotRequest {
    /// Whether no option is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Converts to the model's type, or says which event is wrong and how.
    pub(crate) fn options(self) -> Result<SnapshotOptions, String> {
        let event = |(index, event): (usize, WarmupEventResource)| match event {
            WarmupEventResource { params: Some(value), body: None, content_type: None } => {
                Ok(WarmupEvent::Params(value))
            }
            WarmupEventResource { params: None, body: Some(body), content_type: Some(content_type) } => {
                let body = STANDARD.decode(body);
                let body =
                    body.map_err(|error| format!("snapshot.warmup[{index}].body is not base64: {error}"))?;
                Ok(WarmupEvent::Body { body: body.into(), content_type })
            }
            _ => Err(format!(
                "snapshot.warmup[{index}] needs either 'params', or 'body' with its 'content_type'"
            )),
        };
        Ok(SnapshotOptions {
            warmup: self.warmup.into_iter().enumerate().map(event).collect::<Result<_, _>>()?,
            warmup_network: self.warmup_network,
            annotate: self.annotate.unwrap_or(true),
            jit: self.jit,
        })
    }
}

/// How a deployed function is warmed up and frozen. Warm-up events are given by number and size only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotResource {
    /// Number of warm-up events.
    pub warmup_events: usize,
    /// Total size of the warm-up events, in bytes.
    pub warmup_bytes: u64,
    /// Whether warm-up may use the function's network.
    pub warmup_network: bool,
    /// Whether functions reached by warm-up are driven to optimised code; of Java, whether there is a class archive.
    pub annotate: bool,
    /// Additional compiler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "numba")]
    pub jit: Option<Jit>,
}

impl From<&SnapshotOptions> for SnapshotResource {
    fn from(options: &SnapshotOptions) -> Self {
        Self {
            warmup_events: options.warmup.len(),
            warmup_bytes: options.warmup.iter().map(WarmupEvent::size).sum(),
            warmup_network: options.warmup_network,
            annotate: options.annotate,
            jit: options.jit,
        }
    }
}

/// A function as prepared to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PreparedResource {
    /// How the function is run; differs from its strategy after a fallback.
    pub strategy: StrategyResource,
    /// Why the function is not run with its own strategy, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The snapshot that was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotReportResource>,
}

impl From<&Prepared> for PreparedResource {
    fn from(prepared: &Prepared) -> Self {
        Self {
            strategy: prepared.strategy.into(),
            fallback: prepared.fallback.clone(),
            snapshot: prepared.snapshot.as_ref().map(SnapshotReportResource::from),
        }
    }
}

/// Report on a snapshot: what was warmed up and frozen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotReportResource {
    /// Whether calls are served from the snapshot; if not, it was discarded, see `fallback`.
    pub kept: bool,
    /// Time from start to freeze, in µs.
    pub took_us: u64,
    /// Number of warm-up calls.
    pub warmup_calls: u64,
    /// Duration of the warm-up calls, in milliseconds.
    pub warmup_ms: f64,
    /// Number of functions in the user's code that warm-up reached.
    pub reached: u64,
    /// Number of those that are compiled as far as their runtime can.
    pub optimised: u64,
    /// Those that are not, as far as they are known by name.
    pub left_behind: Vec<WarmedFunctionResource>,
    /// Resident memory of the frozen process, in bytes.
    pub rss_bytes: u64,
    /// Memory that the process shares with no other, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_bytes: Option<u64>,
    /// Proportional share of all memory that the process maps, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Memory in huge pages, in bytes.
    pub huge_page_bytes: u64,
    /// Functions that warm-up reached, at most 200, those left behind first.
    pub functions: Vec<WarmedFunctionResource>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// A function in the user's code after warm-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WarmedFunctionResource {
    /// Function name; empty if it has none.
    #[schema(example = "fact")]
    pub name: String,
    /// The file that defines the function.
    #[schema(example = "index.js")]
    pub file: String,
    /// The line where the function begins.
    pub line: u64,
    /// The execution tier, in the runtime's own terms: `turbofan`, `maglev`, `sparkplug`, `interpreted`, `native`, `numba` or `python`.
    #[schema(example = "turbofan")]
    pub tier: String,
    /// Number of calls during warm-up.
    pub calls: u64,
}

impl From<&SnapshotReport> for SnapshotReportResource {
    fn from(report: &SnapshotReport) -> Self {
        let shown = |functions: &[WarmedFunction]| functions.iter().map(Into::into).collect();
        Self {
            kept: report.kept,
            took_us: report.took_us,
            warmup_calls: report.warmup_calls,
            warmup_ms: report.warmup_ms,
            reached: report.reached,
            optimised: report.optimised,
            left_behind: shown(report.left_behind()),
            rss_bytes: report.rss_bytes,
            private_bytes: report.private_bytes,
            pss_bytes: report.pss_bytes,
            huge_page_bytes: report.huge_page_bytes,
            functions: shown(&report.functions),
            notes: report.notes.clone(),
        }
    }
}

impl From<&WarmedFunction> for WarmedFunctionResource {
    fn from(function: &WarmedFunction) -> Self {
        Self {
            name: function.name.clone(),
            file: function.file.clone(),
            line: function.line,
            tier: function.tier.clone(),
            calls: function.calls,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(request: Value) -> Result<SnapshotOptions, String> {
        serde_json::from_value::<SnapshotRequest>(request).map_err(|error| error.to_string())?.options()
    }

    #[test]
    fn a_request_is_read_and_what_is_wrong_with_it_is_named() {
        let read =
            options(json!({"warmup": [{"params": null}, {"body": "AA==", "content_type": "a/b"}]})).unwrap();
        assert_eq!(read.warmup[0], WarmupEvent::Params(Value::Null));
        assert!(read.annotate && !read.warmup_network && read.warmup[1].content_type() == "a/b");
        assert_eq!(options(json!({})).unwrap(), SnapshotOptions::default());
        for (request, text) in [
            (json!({"warmup": [{"params": 1}, {}]}), "snapshot.warmup[1] needs either"),
            (
                json!({"warmup": [{"body": "!", "content_type": "a/b"}]}),
                "snapshot.warmup[0].body is not base64",
            ),
            (json!({"anotate": true}), "unknown field `anotate`"),
            (json!({"jit": "magic"}), "numba"),
        ] {
            let error = options(request).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }
}
