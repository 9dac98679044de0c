//! Errors of the use cases, with the OpenWhisk API's texts where it has any.

use flint_executor::BodyError;
use flint_invoker::Refusal;
use flint_model::{ByteSize, EntityPath, FunctionPath, LimitError, NameError, Timestamp};
use flint_store::StoreError;

/// The kind of an error, which a front maps to a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// 400: the request is invalid.
    Invalid,
    /// 401: no valid key.
    Unauthenticated,
    /// 403: an authenticated caller without this right.
    Forbidden,
    /// 404: it does not exist.
    NotFound,
    /// 408: the rest of the request did not arrive.
    Timeout,
    /// 409: it exists already, or was changed concurrently.
    Conflict,
    /// 413: too large.
    TooLarge,
    /// 422: well-formed but not executable.
    Unprocessable,
    /// 429: a limit is exceeded.
    Throttled,
    /// 500: Flint's fault.
    Internal,
    /// 501: not supported by this version.
    NotImplemented,
    /// 503: not at present.
    Unavailable,
}

/// Why a use case was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The key is malformed, unknown, or its namespace is blocked.
    #[error("The supplied authentication is invalid")]
    BadKey,
    /// An authenticated caller without access to this namespace.
    #[error("The supplied authentication is not authorized to access '{0}'.")]
    Forbidden(String),
    /// The namespace may not have functions of this kind.
    #[error("The supplied authentication is not authorized to access actions of kind '{0}'.")]
    KindForbidden(String),
    /// It does not exist.
    #[error("The requested resource does not exist.")]
    NotFound,
    /// The namespace was deleted during the request.
    #[error("The namespace was deleted while the request was under way.")]
    NamespaceGone,
    /// Nothing with this name exists.
    #[error("The requested resource '{0}' does not exist.")]
    NoSuch(String),
    /// The package that a binding is bound to was deleted.
    #[error("The requested resource '{provider}' does not exist.")]
    NoProvider {
        /// The binding.
        binding: String,
        /// The package.
        provider: String,
    },
    /// Something required does not exist; with a text of its own.
    #[error("{0}")]
    Missing(&'static str),
    /// It exists already.
    #[error("resource already exists")]
    Exists,
    /// The name belongs to an entity of another kind.
    #[error("Resource by this name exists but is not in this collection.")]
    OtherCollection,
    /// The name belongs to a sequence, and the request is for functions only.
    #[error("'{0}' is a sequence, not a function")]
    NoFunction(String),
    /// The name belongs to a function, and the request is for sequences only.
    #[error("'{0}' is a function, not a sequence")]
    NoSequence(String),
    /// A binding to itself.
    #[error("Package binding '{0}' contains a circular reference.")]
    CircularBinding(String),
    /// A conflict with existing entities; with a text of its own.
    #[error("{0}")]
    Conflicting(String),
    /// Changed concurrently.
    #[error("Concurrent modification to resource detected.")]
    Race,
    /// A roll back to the version before, where calls get what an alias says.
    #[error("calls of {0} get what its alias `live` names: say which version they are to get")]
    LiveDecides(FunctionPath),
    /// A function is created without code.
    #[error("exec undefined")]
    NoCode,
    /// The runtime is unknown.
    #[error("The specified runtime '{asked}' is not supported by this platform. Valid values are: {}.", quoted(.valid))]
    UnknownKind {
        /// The requested one.
        asked: String,
        /// The supported ones.
        valid: Vec<String>,
    },
    /// The runtime or strategy is known, but this host cannot run it.
    #[error("{what} is not available on this host: {missing}")]
    NotOnThisHost {
        /// The runtime or strategy.
        what: String,
        /// What is missing and how to get it.
        missing: String,
    },
    /// The runtime requires an entry point, and the front's API reports that.
    #[error("'main' must be a string defined in 'exec' for '{0}' actions")]
    MainRequired(String),
    /// The code does not fit its kind.
    #[error("{0}")]
    Code(String),
    /// Too many deploys at once.
    #[error("{0}")]
    Busy(String),
    /// Too little disk space on the server for another function.
    #[error("{0}")]
    NoRoom(String),
    /// A name with illegal characters, or a path with too many segments.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A limit outside what the operator allows.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// Any other error in the request.
    #[error("{0}")]
    Invalid(String),
    /// The arguments are not a JSON object.
    #[error("The request content was malformed:\n{0}")]
    Malformed(String),
    /// The request's body came too slowly.
    #[error("{0}.")]
    Late(BodyError),
    /// A call sets a final parameter.
    #[error("Request defines parameters that are not allowed (e.g., reserved properties).")]
    ReservedParameters,
    /// Larger than allowed.
    #[error("{what} larger than allowed: {size} > {allowed} bytes.")]
    TooLarge {
        /// `exec`, `parameters`, `annotations`, `Request`, `secret`.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The most there may be.
        allowed: u64,
    },
    /// A list exceeds the maximum size.
    #[error("The requested list is larger than allowed: > {allowed}. Ask for fewer of its entities at once.")]
    ListTooLarge {
        /// The maximum size.
        allowed: ByteSize,
    },
    /// A package with its contents exceeds the maximum size of a list.
    #[error(
        "The package '{package}' with all of its actions is larger than allowed: > {allowed}. Ask for its actions in pages: GET /api/v1/namespaces/{}/actions/{}/?limit=20, or `wsk action list /{package} -l 20`.",
        .package.namespace,
        .package.name
    )]
    PackageTooLarge {
        /// The package.
        package: EntityPath,
        /// The maximum size.
        allowed: ByteSize,
    },
    /// Too many calls in this minute.
    #[error("Too many requests in the last minute (count: {count}, allowed: {allowed}).")]
    Rate {
        /// The number of calls, including this one.
        count: u32,
        /// The limit.
        allowed: u32,
    },
    /// Too many calls at once.
    #[error("Too many concurrent requests in flight (count: {count}, allowed: {allowed}).")]
    Concurrency {
        /// The present number.
        count: u32,
        /// The limit.
        allowed: u32,
    },
    /// A part of the API that is not implemented yet.
    #[error("{0} are not available in this version of Flint.")]
    NotInThisVersion(&'static str),
    /// The call was not given to an instance.
    #[error("The server is currently unavailable (because it is overloaded or down for maintenance).")]
    Refused(#[source] Refusal),
    /// The server is stopping.
    #[error("The server is currently unavailable (because it is overloaded or down for maintenance).")]
    ShuttingDown,
    /// No disk space is left for writes that have to precede.
    #[error("The server is currently unavailable (because its disk is full).")]
    Full(#[source] StoreError),
    /// The store failed.
    #[error("There was an internal server error.")]
    Store(#[source] StoreError),
    /// Another internal error.
    #[error("There was an internal server error.")]
    Internal(String),
}

impl ControllerError {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BadKey => ErrorKind::Unauthenticated,
            Self::Forbidden(_) | Self::KindForbidden(_) => ErrorKind::Forbidden,
            Self::NotFound
            | Self::NamespaceGone
            | Self::NoSuch(_)
            | Self::NoProvider { .. }
            | Self::Missing(_) => ErrorKind::NotFound,
            Self::Exists | Self::Race | Self::OtherCollection | Self::Conflicting(_) => ErrorKind::Conflict,
            Self::CircularBinding(_) => ErrorKind::Unprocessable,
            Self::NoCode
            | Self::UnknownKind { .. }
            | Self::NotOnThisHost { .. }
            | Self::MainRequired(_)
            | Self::Code(_)
            | Self::Name(_)
            | Self::Limit(_)
            | Self::Invalid(_)
            | Self::LiveDecides(_)
            | Self::NoFunction(_)
            | Self::NoSequence(_)
            | Self::Malformed(_)
            | Self::ReservedParameters
            | Self::ListTooLarge { .. }
            | Self::PackageTooLarge { .. } => ErrorKind::Invalid,
            Self::Late(_) => ErrorKind::Timeout,
            Self::TooLarge { .. } => ErrorKind::TooLarge,
            Self::Rate { .. } | Self::Concurrency { .. } | Self::Busy(_) => ErrorKind::Throttled,
            Self::NotInThisVersion(_) => ErrorKind::NotImplemented,
            Self::Refused(_) | Self::ShuttingDown | Self::Full(_) | Self::NoRoom(_) => ErrorKind::Unavailable,
            Self::Store(_) | Self::Internal(_) => ErrorKind::Internal,
        }
    }

    /// Seconds after which a retry makes sense, if it does.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            // The end of the current wall-clock minute.
            Self::Rate { .. } => Some(60 - (Timestamp::now().as_millis() / 1000 % 60) as u32),
            Self::Concurrency { .. } | Self::Refused(_) => Some(1),
            Self::ShuttingDown | Self::Busy(_) => Some(5),
            Self::Full(_) | Self::NoRoom(_) => Some(30),
            _ => None,
        }
    }

    /// The cause behind a text that has to be the API's standard one, such as which queue or disk is full.
    /// `None` if the text is complete.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => Some(refusal.to_string()),
            Self::ShuttingDown => Some(Refusal::ShuttingDown.to_string()),
            Self::Full(error) => Some(error.to_string()),
            Self::NoProvider { binding, provider } => {
                Some(format!("'{binding}' is bound to package '{provider}', which does not exist"))
            }
            _ => None,
        }
    }

    /// Details for the server's log only.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Full(error) | Self::Store(error) => Some(error.to_string()),
            Self::Internal(detail) => Some(detail.clone()),
            _ => None,
        }
    }
}

impl From<StoreError> for ControllerError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict => Self::Race,
            StoreError::NoNamespace(_) => Self::NamespaceGone,
            StoreError::ListTooLarge { allowed } => Self::ListTooLarge { allowed },
            full @ StoreError::Full { .. } => Self::Full(full),
            other => Self::Store(other),
        }
    }
}

fn quoted(kinds: &[String]) -> String {
    kinds.iter().map(|kind| format!("'{kind}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_api_and_causes_stand_beside_them() {
        let error =
            ControllerError::UnknownKind { asked: "x".into(), valid: vec!["a:1".into(), "b:2".into()] };
        let text =
            "The specified runtime 'x' is not supported by this platform. Valid values are: 'a:1', 'b:2'.";
        assert_eq!(error.to_string(), text);
        let rate = ControllerError::Rate { count: 2, allowed: 1 };
        assert!(rate.retry_after().is_some_and(|seconds| (1..=60).contains(&seconds)));
        assert_eq!(ControllerError::NotFound.retry_after(), None);
        let busy = ControllerError::from(flint_executor::PrepareError::Busy("32 builds wait".into()));
        assert_eq!((busy.kind(), busy.retry_after()), (ErrorKind::Throttled, Some(5)));
        let error = ControllerError::from(StoreError::Full { what: "the catalog".into() });
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(error.to_string(), "The server is currently unavailable (because its disk is full).");
        assert!(error.cause().is_some_and(|cause| cause.starts_with("no space left")));
    }
}
