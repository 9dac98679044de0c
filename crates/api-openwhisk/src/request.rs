//! What a request brings: its caller, its names, its body.

use std::{sync::Arc, time::Instant};

use axum::body::Body;
use bytes::Bytes;
use flint_controller::{Caller, Controller, ControllerError, LARGEST_LIST, SMALL_LIST, largest_deploy};
use flint_executor::media_type;
use flint_model::{ByteSize, Entity, EntityName, EntityPath, FunctionPath, NameError, NamespaceName};
use flint_request_body::{Arrival, Room, Unread, Uploads};
use http::{HeaderMap, header::CONTENT_LENGTH};

use crate::{
    parse::{Name, Query, check_parts, percent_decode},
    refusal::Refusal,
    reply::Reply,
};

/// What is parsed or decoded is, up to this size, where it is read.
const QUICK: usize = 64 << 10;

/// A request whose caller is known.
pub(crate) struct Request<'a> {
    pub(crate) controller: &'a Arc<Controller>,
    pub(crate) uploads: &'a Uploads,
    pub(crate) caller: Caller,
    /// The key it came with.
    pub(crate) key: String,
    pub(crate) transaction: Arc<str>,
    pub(crate) arrived: Instant,
    pub(crate) query: Query<'a>,
    pub(crate) headers: &'a HeaderMap,
}

impl Request<'_> {
    /// The namespace that a path names; `_` is the caller's own.
    pub(crate) fn namespace(&self, segment: &str) -> Result<NamespaceName, Refusal> {
        let name = percent_decode(segment).ok_or(NameError::NamespaceCharacters)?;
        match &*name {
            "_" => Ok(self.caller.namespace.name.clone()),
            name => Ok(NamespaceName::parse(name)?),
        }
    }

    /// The package, trigger or rule that a path names.
    pub(crate) fn entity(&self, name: Name<'_>) -> Result<EntityPath, Refusal> {
        Ok(EntityPath::new(self.namespace(name.namespace)?, entity_name(name.name)?))
    }

    /// Waits for room for the body; to be held until its code is stored.
    pub(crate) async fn room(&self) -> Option<Room> {
        let namespace = &self.caller.namespace.name;
        self.uploads.room(namespace.as_str(), content_length(self.headers)).await
    }

    /// The body, for whoever has no room for it yet.
    pub(crate) fn arrival(&self, room: Option<&Room>) -> Option<Arrival<'_>> {
        self.uploads.arrival_without(room, self.caller.namespace.name.as_str())
    }

    /// Room for an answer with the code of what is there.
    pub(crate) async fn room_to_show(&self, path: &FunctionPath) -> Result<Option<Room>, Refusal> {
        match self.controller.action(&self.caller, path).await {
            Ok(action) => self.room_for_code_of(&action).await,
            // Whatever is wrong is said where it is done.
            Err(_) => Ok(None),
        }
    }

    /// Room for an answer with the code of this action.
    pub(crate) async fn room_for_code_of(&self, action: &Entity) -> Result<Option<Room>, Refusal> {
        let Entity::Function(function) = action else { return Ok(None) };
        let namespace = &self.caller.namespace.name;
        Ok(self.uploads.answer(namespace.as_str(), function.code.size.as_u64()).await?)
    }

    /// What is listed, read in so many bytes at most. What is more than small has room, before it is read and until its answer is sent.
    pub(crate) async fn listed<T, F>(
        &self,
        read: impl Fn(ByteSize) -> F,
    ) -> Result<(T, Option<Room>), Refusal>
    where
        F: Future<Output = Result<T, ControllerError>>,
    {
        match read(SMALL_LIST).await {
            Err(ControllerError::ListTooLarge { .. } | ControllerError::PackageTooLarge { .. }) => {}
            small => return Ok((small?, None)),
        }
        let namespace = &self.caller.namespace.name;
        let room = self.uploads.answer(namespace.as_str(), LARGEST_LIST.as_u64()).await?;
        Ok((read(LARGEST_LIST).await?, room))
    }

    /// An answer whose size nobody knows before it is made. A large one is made again once it has room.
    pub(crate) async fn roomy<F>(&self, make: impl Fn() -> F) -> Result<Reply, Refusal>
    where
        F: Future<Output = Result<Reply, Refusal>>,
    {
        let reply = make().await?;
        if !reply.is_large() {
            return Ok(reply);
        }
        drop(reply);
        let namespace = &self.caller.namespace.name;
        let room = self.uploads.answer(namespace.as_str(), LARGEST_LIST.as_u64()).await?;
        Ok(make().await?.in_room(room))
    }

    /// The body of a PUT.
    pub(crate) async fn entity_body<T: Send + 'static>(
        &self,
        body: Body,
        read: impl Fn(&[u8]) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Refusal> {
        let room = self.room().await;
        self.read_body(room.as_ref(), body, read).await
    }

    /// The same for who has the room already, if it takes one, because what is in the body is not done with when it is read.
    pub(crate) async fn read_body<T: Send + 'static>(
        &self,
        room: Option<&Room>,
        body: Body,
        read: impl Fn(&[u8]) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Refusal> {
        let max_parameters = self.caller.limits().bounds.max_parameters;
        let most = largest_deploy(self.controller.config().limits.bounds.max_code, max_parameters);
        let body =
            json_body(self.headers, body, most, self.arrival(room), |_| Refusal::body_too_large()).await?;
        if body.is_empty() {
            return Err(Refusal::bad_request("Request entity expected but not supplied"));
        }
        self.aside(body.len(), move || {
            check_parts(&body, max_parameters)?;
            read(&body).map_err(Refusal::malformed)
        })
        .await?
    }

    /// Does work on so many bytes, aside if that may take a while.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        match bytes <= QUICK {
            true => Ok(work()),
            false => Ok(self.controller.aside(&self.caller.namespace.name, work).await?),
        }
    }

    /// The function that a path names.
    pub(crate) fn function(&self, name: Name<'_>) -> Result<FunctionPath, Refusal> {
        Ok(FunctionPath {
            namespace: self.namespace(name.namespace)?,
            package: name.package.map(entity_name).transpose()?,
            name: entity_name(name.name)?,
        })
    }
}

/// A name as it stands in a path.
pub(crate) fn entity_name(segment: &str) -> Result<EntityName, Refusal> {
    let name = percent_decode(segment).ok_or(NameError::EntityCharacters)?;
    Ok(EntityName::parse(&name)?)
}

/// The length that a request says its body has.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body of at most `limit` bytes that is JSON as far as its content type says; empty bodies have none.
pub(crate) async fn json_body(
    headers: &HeaderMap,
    body: Body,
    limit: u64,
    arrival: Option<Arrival<'_>>,
    too_large: impl Fn(u64) -> Refusal,
) -> Result<Bytes, Refusal> {
    let body = whole_body(body, limit, arrival, too_large).await?;
    match body.is_empty() || is_json(headers) {
        true => Ok(body),
        false => Err(Refusal::new(
            http::StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "The request's Content-Type is not supported. Expected:\napplication/json",
        )),
    }
}

/// A body of at most `limit` bytes.
pub(crate) async fn whole_body(
    body: Body,
    limit: u64,
    arrival: Option<Arrival<'_>>,
    too_large: impl Fn(u64) -> Refusal,
) -> Result<Bytes, Refusal> {
    flint_request_body::read(body, limit, arrival).await.map_err(|unread| match unread {
        Unread::TooLarge { size } => too_large(size),
        Unread::Late => Refusal::new(http::StatusCode::REQUEST_TIMEOUT, format!("{unread}.")),
        Unread::NoRoom => Refusal::overloaded(&unread, unread.retry_after()),
        Unread::Broken(why) => Refusal::malformed(why),
    })
}

/// Without a content type, JSON is meant.
fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers).is_none_or(|media| media.eq_ignore_ascii_case(b"application/json"))
}
