//! Error responses of the API: `{"error": …, "code": …}`.

use flint_controller::{ControllerError, ErrorKind};
use flint_model::{ActivationIdError, NameError};
use flint_request_body::NoRoom;
use http::StatusCode;

use crate::{
    basic_auth::NoKey,
    parse::{QueryError, RouteError, Unfit},
};

/// An error response.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
    /// The cause behind a standard text.
    pub(crate) cause: Option<String>,
    /// Seconds after which a retry makes sense.
    pub(crate) retry_after: Option<u32>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), cause: None, retry_after: None }
    }

    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// A body that cannot be parsed.
    pub(crate) fn malformed(detail: impl std::fmt::Display) -> Self {
        Self::bad_request(format!("The request content was malformed:\n{detail}"))
    }

    /// A body that exceeds the HTTP layer's limit.
    pub(crate) fn body_too_large() -> Self {
        let text = "The request is larger than the server is willing or able to process.";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    }

    /// What there is no room for at the moment, for this reason.
    pub(crate) fn overloaded(cause: &impl std::fmt::Display, retry_after: Option<u32>) -> Self {
        let text = ControllerError::ShuttingDown.to_string();
        Self {
            cause: Some(cause.to_string()),
            retry_after,
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
        }
    }

    pub(crate) fn not_in_this_version(what: &'static str) -> Self {
        ControllerError::NotInThisVersion(what).into()
    }
}

impl From<ControllerError> for Refusal {
    fn from(error: ControllerError) -> Self {
        let status = match error.kind() {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            ErrorKind::Forbidden => StatusCode::FORBIDDEN,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Timeout => StatusCode::REQUEST_TIMEOUT,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::Throttled => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorKind::NotImplemented => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        if let Some(detail) = error.detail() {
            tracing::error!(detail, "a request failed");
        }
        let (cause, retry_after) = (error.cause(), error.retry_after());
        match error {
            ControllerError::UnknownKind { .. } | ControllerError::MainRequired(_) => Self::malformed(error),
            error => Self { status, text: error.to_string(), cause, retry_after },
        }
    }
}

impl From<Unfit> for Refusal {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Malformed(detail) => Self::malformed(detail),
            Unfit::Part(error) => error.into(),
            Unfit::Whole => Self::body_too_large(),
        }
    }
}

impl From<NoRoom> for Refusal {
    fn from(error: NoRoom) -> Self {
        Self::overloaded(&error, Some(NoRoom::RETRY_AFTER))
    }
}

impl From<NoKey> for Refusal {
    fn from(error: NoKey) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, error.to_string())
    }
}

impl From<RouteError> for Refusal {
    fn from(error: RouteError) -> Self {
        let status = match error {
            RouteError::Unknown => StatusCode::NOT_FOUND,
            RouteError::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            RouteError::BelowLimits => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<ActivationIdError> for Refusal {
    fn from(error: ActivationIdError) -> Self {
        Self::bad_request(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_inside_is_told_without_its_cause_and_what_is_short_with_it() {
        let shown = |error: ControllerError| {
            let Refusal { status, text, .. } = error.into();
            (status.as_u16(), text)
        };
        let internal = "There was an internal server error.".to_owned();
        assert_eq!(shown(ControllerError::Internal("a path, a key".to_owned())), (500, internal));
        let unavailable =
            "The server is currently unavailable (because it is overloaded or down for maintenance).";
        assert_eq!(shown(ControllerError::ShuttingDown), (503, unavailable.to_owned()));
        let circular = "Package binding 'guest/b' contains a circular reference.".to_owned();
        assert_eq!(shown(ControllerError::CircularBinding("guest/b".to_owned())), (422, circular));
        let missing = "The requested resource does not exist.".to_owned();
        assert_eq!(shown(ControllerError::NotFound), (404, missing));
    }
}
