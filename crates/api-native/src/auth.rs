//! Authentication: extractors for a namespace's and the operator's key.

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{header, request::Parts},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use flint_controller::{Caller, ErrorKind};
use flint_model::ApiKey;
use std::{convert::Infallible, sync::Arc};

use crate::{Native, error::ApiError};

/// An authenticated namespace key.
pub(crate) struct Tenant {
    pub(crate) caller: Caller,
    /// The key as sent, for functions that call Flint back.
    pub(crate) key: Arc<str>,
}

/// The authenticated operator key.
pub(crate) struct Operator;

impl FromRequestParts<Arc<Native>> for Tenant {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, native: &Arc<Native>) -> Result<Self, ApiError> {
        let key = presented(parts)?;
        match native.controller.authenticate(&key).await {
            Ok(caller) => Ok(Self { caller, key: key.into() }),
            Err(_) if native.is_operator(&key) => Err(ApiError::wrong_scope(
                "the operator's key opens no namespace",
                "use a key of the namespace; `flint namespace keys NAME --add` makes one",
            )),
            Err(error) => Err(error.into()),
        }
    }
}

impl FromRequestParts<Arc<Native>> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, native: &Arc<Native>) -> Result<Self, ApiError> {
        let key = presented(parts)?;
        if native.is_operator(&key) {
            return Ok(Self);
        }
        // Distinguishes an invalid key from a valid one without this right.
        native.controller.authenticate(&key).await?;
        Err(ApiError::wrong_scope(
            "this needs the operator's key, which is in operator.json of the server's data directory",
            "run the command on the server's machine with its --data-dir",
        ))
    }
}

/// Optional: tells whether the operator is calling, and refuses nobody.
impl OptionalFromRequestParts<Arc<Native>> for Operator {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, native: &Arc<Native>) -> Result<Option<Self>, Infallible> {
        Ok(presented(parts).is_ok_and(|key| native.is_operator(&key)).then_some(Self))
    }
}

impl Native {
    /// Whether the key still opens that namespace, and not a later one of the same name; if that cannot be
    /// determined, the previous answer stands.
    pub(crate) async fn still_opens(&self, tenant: &Tenant) -> bool {
        let before = &tenant.caller.namespace;
        match self.controller.authenticate(&tenant.key).await {
            Ok(now) => now.namespace.name == before.name && now.namespace.created == before.created,
            Err(error) => error.kind() == ErrorKind::Internal,
        }
    }

    fn is_operator(&self, key: &str) -> bool {
        let same = |expected: &ApiKey| {
            let expected = expected.expose();
            // In constant time.
            expected.len() == key.len()
                && expected.bytes().zip(key.bytes()).fold(0, |different, (a, b)| different | (a ^ b)) == 0
        };
        self.config.operator.as_ref().is_some_and(same)
    }
}

/// The key in the request, `uuid:secret`, as Bearer or Basic.
fn presented(parts: &Parts) -> Result<String, ApiError> {
    let value = parts.headers.get(header::AUTHORIZATION).ok_or_else(ApiError::no_key)?;
    let text = value.to_str().map_err(|_| ApiError::bad_key())?;
    let (scheme, rest) = text.split_once(' ').ok_or_else(ApiError::bad_key)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Ok(rest.trim().to_owned());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let bytes = STANDARD.decode(rest.trim()).map_err(|_| ApiError::bad_key())?;
        return String::from_utf8(bytes).map_err(|_| ApiError::bad_key());
    }
    Err(ApiError::bad_key())
}
