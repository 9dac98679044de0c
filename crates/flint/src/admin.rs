//! The operator's way in: to the server that uses a data directory, or, while none does, to the directory itself. Both ways speak
//! the same API.

use std::{
    fs::{File, TryLockError},
    path::Path,
};

use axum::{Router, body::Body};
use flint_store_sqlite::SqliteStore;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde::{Serialize, de::DeserializeOwned};
use tower::ServiceExt;

use crate::{
    cli::{DataArgs, Global},
    client::{Client, collect, refusal_from},
    config::{self, Config},
    failure::{Exit, Failure},
    server::{OperatorFile, offline_api, open_unserved},
};

/// A way to the operator's API.
pub(crate) struct Admin {
    way: Way,
}

enum Way {
    Server(Client),
    Data { api: Router, key: String, store: Box<SqliteStore> },
}

impl Admin {
    /// Finds the way: a key given with --auth goes to the server at --url, unless a data directory is named; otherwise that directory, or the configured one, says
    /// where its server is.
    pub(crate) async fn connect(global: &Global, data: &DataArgs) -> Result<Self, Failure> {
        if let (Some(key), None) = (&global.auth, &data.data_dir) {
            return Ok(Self { way: Way::Server(Client::with_key(&global.url, key)?) });
        }
        let config = config::load(data, None)?.config;
        if let Some(client) = Self::server_of(&config).await? {
            return Ok(Self { way: Way::Server(client) });
        }
        Self::offline(&config).await
    }

    /// The same; a data directory that is not there is made.
    pub(crate) async fn connect_or_create(global: &Global, data: &DataArgs) -> Result<Self, Failure> {
        match Self::connect(global, data).await {
            Err(failure) if failure.code == NO_DATA => Self::opened(&config::load(data, None)?.config).await,
            other => other,
        }
    }

    /// The server that uses the data directory, when one answers.
    pub(crate) async fn server_of(config: &Config) -> Result<Option<Client>, Failure> {
        let Some(operator) = OperatorFile::read(&config.server.data_dir)? else { return Ok(None) };
        let Some(url) = &operator.url else { return Ok(None) };
        // After a crash the file still says where the server was, and anybody may listen there by now: that is nobody to tell the key to.
        if !is_in_use(&config.server.data_dir) {
            return Ok(None);
        }
        let client = Client::with_key(url, operator.key())?;
        // Another server may have the address by now; that one does not know the key.
        let answers = client.request(Method::GET, "/v1/namespaces", "application/json", None).await;
        Ok(answers.is_ok().then_some(client))
    }

    async fn offline(config: &Config) -> Result<Self, Failure> {
        check_data(&config.server.data_dir)?;
        Self::opened(config).await
    }

    async fn opened(config: &Config) -> Result<Self, Failure> {
        let store = open_unserved(config).await?;
        let operator = OperatorFile::read_or_make(&config.server.data_dir)?;
        let api = offline_api(config, &store, &operator);
        Ok(Self { way: Way::Data { api, key: operator.key().to_owned(), store: Box::new(store) } })
    }

    /// Sends a request and reads the answer.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, Failure> {
        let answer = self.send(method, path, body).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            Failure::new(
                Exit::Refused,
                "unexpected_answer",
                format!("the answer is not what this version of flint expects: {error}"),
            )
        })
    }

    /// Sends a request whose answer does not matter.
    pub(crate) async fn tell(&self, method: Method, path: &str) -> Result<(), Failure> {
        self.send(method, path, None::<&()>).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<bytes::Bytes, Failure> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| Failure::usage(format!("cannot be written as JSON: {error}")))?;
        match &self.way {
            Way::Server(client) => {
                let body = body.map(|bytes| ("application/json", bytes.into()));
                collect(client.request(method, path, "application/json", body).await?).await
            }
            Way::Data { api, key, .. } => {
                let request = Request::builder()
                    .method(method)
                    .uri(path)
                    .header(header::AUTHORIZATION, format!("Bearer {key}"))
                    .header(header::CONTENT_TYPE, "application/json")
                    .body(Body::from(body.unwrap_or_default()))
                    .map_err(|error| Failure::usage(format!("cannot ask for {path}: {error}")))?;
                // A router's error type has no values.
                let Ok(answer) = api.clone().oneshot(request).await;
                let (parts, body) = answer.into_parts();
                let body = body
                    .collect()
                    .await
                    .map_err(|error| Failure::local(format!("the answer ended early: {error}")))?
                    .to_bytes();
                match parts.status.is_success() {
                    true => Ok(body),
                    false => Err(refusal_from(parts.status, &parts.headers, &body)),
                }
            }
        }
    }

    /// Gives the data back.
    pub(crate) async fn close(self) {
        if let Way::Data { store, api, .. } = self.way {
            drop(api);
            // Every write was acknowledged when it was durable.
            let _ = store.close().await;
        }
    }
}

/// Whether a process holds the lock of a data directory.
fn is_in_use(data_dir: &Path) -> bool {
    let Ok(lock) = File::open(data_dir.join("flint.lock")) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The code of a failure for want of data.
const NO_DATA: &str = "no_data";

/// Refuses a directory without data: whoever asks about what is there has mistyped it.
pub(crate) fn check_data(data_dir: &Path) -> Result<(), Failure> {
    match SqliteStore::exists(data_dir) {
        true => Ok(()),
        false => {
            Err(Failure::new(Exit::Usage, NO_DATA, format!("there is no data in {}", data_dir.display()))
                .hint("name the data directory with --data-dir; `flint up` makes a new one"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mistyped_data_directory_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.server.data_dir = dir.path().join("typo");
        let refused = Admin::offline(&config).await.err().unwrap();
        assert!(refused.code == NO_DATA && refused.message.contains("typo"), "{refused}");
        assert!(!config.server.data_dir.exists());
        Admin::opened(&config).await.unwrap().close().await;
        Admin::offline(&config).await.unwrap().close().await;
    }

    #[tokio::test]
    async fn the_key_goes_to_nobody_who_listens_where_a_killed_server_was() {
        let dir = tempfile::tempdir().unwrap();
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        other.set_nonblocking(true).unwrap();
        let mut operator = OperatorFile::read_or_make(dir.path()).unwrap();
        operator.url = Some(format!("http://{}", other.local_addr().unwrap()));
        operator.write(dir.path()).unwrap();
        let mut config = Config::default();
        config.server.data_dir = dir.path().to_owned();
        // The lock's file outlives the server, its lock does not.
        let lock = File::create(dir.path().join("flint.lock")).unwrap();
        assert!(Admin::server_of(&config).await.unwrap().is_none());
        assert!(other.accept().is_err(), "somebody was asked");
        lock.try_lock().unwrap();
        assert!(is_in_use(dir.path()));
    }
}
