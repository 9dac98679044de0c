//! What the API says when it refuses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every error that Flint itself returns, with a status of 400 or more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// Stable, machine-readable code.
    #[schema(example = "not_found")]
    pub code: String,
    /// Readable description of the cause.
    #[schema(example = "there is no function 'resize' in namespace 'guest'")]
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "`flint list` shows what is there")]
    pub hint: Option<String>,
}

impl ErrorBody {
    /// A cause without a next step.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { error: ErrorDetail { code: code.to_owned(), message: message.into(), hint: None } }
    }

    /// The same with a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }
}
