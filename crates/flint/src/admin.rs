//! Access for the operator: to the server that uses a data directory, or to the directory itself while no
//! server does. Both use the same API.

use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
};

use axum::{Router, body::Body};
use flint_api_native::{namespace_refusal, resource::NamespaceCreate};
use flint_store_sqlite::{SqliteStore, restorable};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde::{Serialize, de::DeserializeOwned};
use tower::ServiceExt;

use crate::{
    cli::{DataArgs, Global},
    client::{Client, collect, parsed, refusal_from},
    config::{self, Config},
    failure::{Exit, Failure},
    output::tell,
    server::{KEY_FILE, OperatorFile, Owner, offline_api, open_unserved},
};

/// A connection to the operator's API.
pub(crate) struct Admin {
    way: Way,
}

enum Way {
    Server(Client),
    Data { api: Router, key: String, store: Box<SqliteStore> },
}

impl Admin {
    /// Chooses the connection: a key given with --auth is for the server at --url, unless a data directory is
    /// named; otherwise that directory, or the configured one, says where its server is.
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

    /// The same for a command that creates a namespace; a missing or empty data directory is created, unless
    /// the namespace is refused.
    pub(crate) async fn connect_or_create(
        global: &Global,
        data: &DataArgs,
        first: &NamespaceCreate,
    ) -> Result<Self, Failure> {
        match Self::connect(global, data).await {
            Err(failure) if failure.code == NO_DATA => {
                let config = config::load(data, None)?.config;
                if let Some(refusal) = namespace_refusal(first, &config.limits.config().bounds) {
                    return Err(Failure::refused(refusal));
                }
                let created = Self::created(&config).await?;
                tell!(
                    "note: there was no data in {}; it is made, for a server that is started there (--data-dir names another directory)",
                    config.server.data_dir.display()
                );
                Ok(created)
            }
            other => other,
        }
    }

    /// The server that uses the data directory, if one answers.
    pub(crate) async fn server_of(config: &Config) -> Result<Option<Client>, Failure> {
        let Some(operator) = OperatorFile::read(&config.server.data_dir)? else { return Ok(None) };
        let Some(url) = &operator.url else { return Ok(None) };
        // After a crash the file still contains the server's address, at which anybody may listen by now: the
        // key must not be sent there.
        if !is_in_use(&config.server.data_dir) {
            return Ok(None);
        }
        let client = Client::with_key(url, operator.key())?;
        // Another server may have this address by now; it does not accept the key.
        let answers = client.request(Method::GET, "/v1/namespaces", "application/json", None).await;
        Ok(answers.is_ok().then_some(client))
    }

    async fn offline(config: &Config) -> Result<Self, Failure> {
        check_data(&config.server.data_dir)?;
        Self::opened(config).await
    }

    /// Creates the data. In an empty directory of another user, what root creates is given to that user, who
    /// runs the server.
    async fn created(config: &Config) -> Result<Self, Failure> {
        let data_dir = &config.server.data_dir;
        let cannot = |error: io::Error| Failure::local(format!("{}: {error}", data_dir.display()));
        // Ownership is not changed in a directory used for other things.
        let owner = match restorable(data_dir, &[KEY_FILE]).map_err(cannot)? {
            true => Owner::of(data_dir),
            false => None,
        };
        let Some(owner) = owner else { return Self::opened(config).await };
        Owner::take(data_dir).map_err(cannot)?;
        let opened = Self::opened(config).await;
        // The store has created all its files by now, except those whose ownership SQLite sets itself.
        let given = owner.give_all(data_dir).map_err(|error| {
            cannot(error).hint("give it to the user that runs the server: chown -R USER DIRECTORY")
        });
        let admin = opened?;
        match given {
            Ok(()) => Ok(admin),
            Err(failure) => {
                admin.close().await;
                Err(failure)
            }
        }
    }

    async fn opened(config: &Config) -> Result<Self, Failure> {
        let store = open_unserved(config).await?;
        let operator = OperatorFile::read_or_make(&config.server.data_dir)?;
        let api = offline_api(config, &store, &operator);
        Ok(Self { way: Way::Data { api, key: operator.key().to_owned(), store: Box::new(store) } })
    }

    /// Sends a request and parses the answer.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, Failure> {
        parsed(&self.send(method, path, body).await?)
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
                // A router's error type is uninhabited.
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

    /// Releases the data.
    pub(crate) async fn close(self) {
        if let Way::Data { store, api, .. } = self.way {
            drop(api);
            // Every acknowledged write is durable already.
            let _ = store.close().await;
        }
    }
}

/// Whether a process holds the lock of a data directory.
fn is_in_use(data_dir: &Path) -> bool {
    let Ok(lock) = File::open(data_dir.join("flint.lock")) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// The error code when there is no data.
const NO_DATA: &str = "no_data";

/// Refuses a directory without data: its name was probably mistyped.
pub(crate) fn check_data(data_dir: &Path) -> Result<(), Failure> {
    if SqliteStore::exists(data_dir) {
        return Ok(());
    }
    // An inaccessible directory is not an empty one.
    let closed =
        std::fs::read_dir(data_dir).err().filter(|error| error.kind() == io::ErrorKind::PermissionDenied);
    Err(match closed {
        Some(error) => Failure::local(format!("cannot look into {}: {error}", data_dir.display()))
            .hint(OperatorFile::FOR_ITS_USER),
        None => Failure::new(Exit::Usage, NO_DATA, format!("there is no data in {}", data_dir.display()))
            .hint("name the data directory with --data-dir; `flint up` makes a new one"),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, chown},
        path::PathBuf,
    };

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
    async fn a_namespace_that_is_refused_makes_no_data() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("data");
        let data = DataArgs { data_dir: Some(data_dir.clone()), ..DataArgs::default() };
        let global = Global { url: "http://127.0.0.1:1".to_owned(), auth: None, json: false };
        for wrong in [
            serde_json::json!({"name": "a/b"}),
            serde_json::json!({"name": "_"}),
            serde_json::json!({"name": "team", "subject": "a/b"}),
            serde_json::json!({"name": "team", "limits": {"allowedKinds": ["cobol"]}}),
            serde_json::json!({"name": "team", "limits": {"minActionMemory": 512, "maxActionMemory": 256}}),
        ] {
            let asked = serde_json::from_value(wrong).unwrap();
            let refused = Admin::connect_or_create(&global, &data, &asked).await.err().unwrap();
            assert!(refused.exit == Exit::Refused && !data_dir.exists(), "{refused}");
        }
        let asked = serde_json::from_value(serde_json::json!({"name": "team"})).unwrap();
        Admin::connect_or_create(&global, &data, &asked).await.unwrap().close().await;
        assert!(data_dir.exists());
    }

    #[test]
    fn a_directory_that_may_not_be_looked_into_is_not_said_to_be_empty() {
        if rustix::process::geteuid().is_root() {
            println!("not checked: root may look into every directory");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().join("data");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        let refused = check_data(&closed).unwrap_err();
        assert!(refused.code != NO_DATA && refused.message.contains("denied"), "{refused}");
    }

    #[tokio::test]
    async fn what_root_makes_in_an_empty_directory_of_a_users_is_that_users() {
        if !rustix::process::geteuid().is_root() {
            println!("not checked: it takes root to give files away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        for (name, beside, given) in [("empty", None, true), ("home", Some("letters"), false)] {
            let data = dir.path().join(name);
            fs::create_dir(&data).unwrap();
            if let Some(beside) = beside {
                fs::write(data.join(beside), "root's").unwrap();
            }
            chown(&data, Some(65534), Some(65534)).unwrap();
            config.server.data_dir = data.clone();
            let admin = Admin::created(&config).await.unwrap();
            let team = serde_json::json!({"name": "team"});
            let made: serde_json::Value =
                admin.ask(Method::POST, "/v1/namespaces", Some(&team)).await.unwrap();
            assert_eq!(made["namespace"], "team");
            admin.close().await;
            let foreign: Vec<_> = all_in(&data).into_iter().filter(|path| uid(path) != 65534).collect();
            assert_eq!(foreign.is_empty(), given, "{foreign:?}");
            assert_eq!(uid(&data), 65534);
        }
    }

    fn uid(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().uid()
    }

    /// All entries of a directory, recursively.
    fn all_in(dir: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(all_in(&path));
            }
            found.push(path);
        }
        found
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
        // The lock file outlives the server, the lock does not.
        let lock = File::create(dir.path().join("flint.lock")).unwrap();
        assert!(Admin::server_of(&config).await.unwrap().is_none());
        assert!(other.accept().is_err(), "somebody was asked");
        lock.try_lock().unwrap();
        assert!(is_in_use(dir.path()));
    }
}
