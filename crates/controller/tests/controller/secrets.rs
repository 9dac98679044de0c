//! Secrets: given at a call, shown to nobody, encrypted wherever they are.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
};

use flint_controller::{
    Caller, ControllerConfig, ControllerError, Deployed, ErrorKind, PutCode, PutFunction, PutPackage,
    SecretKey, SecretKeys,
};
use flint_model::{Activation, DeadLetterReason, SealedSecret, SecretBinding, SecretName, Status};
use flint_store::{CallPhase, LetterQuery, Page};
use serde_json::{Value, json};

use crate::support::{
    self, Server,
    composing::{BLOCKING, accept, call, invocation, invoke, record, result_of},
    config, eventually,
};

const ALL: Page = Page { skip: 0, limit: usize::MAX };
const VALUE: &str = "s3cret-Grüße-\"quoted\"\nsecond line";

/// Keys in memory, which outlive servers.
#[derive(Clone, Debug, Default)]
struct Keys(Arc<Mutex<Vec<SecretKey>>>);

impl Keys {
    fn config(&self) -> ControllerConfig {
        ControllerConfig { secret_keys: Arc::new(self.clone()), ..config() }
    }

    fn ids(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|key| key.id().to_owned()).collect()
    }
}

impl SecretKeys for Keys {
    fn load(&self) -> Result<Vec<SecretKey>, String> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn create(&self) -> Result<SecretKey, String> {
        self.renew()
    }

    fn renew(&self) -> Result<SecretKey, String> {
        let key = SecretKey::generate()?;
        self.0.lock().unwrap().insert(0, key.clone());
        Ok(key)
    }

    fn retire(&self) -> Result<(), String> {
        self.0.lock().unwrap().truncate(1);
        Ok(())
    }
}

fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

async fn set_as(
    server: &Server,
    caller: &Caller,
    text: &str,
    value: &str,
) -> Result<SealedSecret, ControllerError> {
    server.controller.set_secret(caller, &caller.namespace.name, name(text), value.as_bytes()).await
}

async fn set(server: &Server, text: &str, value: &str) -> SealedSecret {
    set_as(server, &server.guest().await, text, value).await.unwrap()
}

async fn remove(server: &Server, text: &str) {
    let caller = server.guest().await;
    server.controller.delete_secret(&caller, &caller.namespace.name, &name(text)).await.unwrap();
}

/// A function that answers what it was given, with these secrets.
async fn deploy(server: &Server, function: &str, secrets: Value) -> Result<Deployed, ControllerError> {
    let code = PutCode { kind: "nodejs".into(), content: "context".into(), format: None, main: None };
    let mut put = PutFunction { overwrite: true, code: Some(code), ..PutFunction::default() };
    put.annotations.set(SecretBinding::ANNOTATION, secrets);
    let path = format!("guest/{function}").parse().unwrap();
    server.controller.put_function(&server.guest().await, path, put, &|_| {}).await
}

/// A variable of the environment that a call was given.
async fn given(server: &Server, function: &str, variable: &str) -> Value {
    let record = invoke(server, function, &json!({})).await;
    assert_eq!(record.response.status, Status::Success, "{record:?}");
    result_of(&record)["environment"][variable].clone()
}

/// Why a call cannot be made.
fn lacks(record: &Activation) -> String {
    assert_eq!(record.response.status, Status::InternalError);
    result_of(record)["cause"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_call_is_given_what_its_function_names_and_the_value_that_was_set_last() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), Keys::default().config()).await;
    set(&server, "db", VALUE).await;
    set(&server, "token", "t1").await;
    deploy(&server, "f", json!(["db", "token=API_TOKEN"])).await.unwrap();
    deploy(&server, "g", json!(["db=OTHER"])).await.unwrap();
    assert_eq!(given(&server, "f", "DB").await, json!(VALUE));
    assert_eq!(given(&server, "f", "API_TOKEN").await, json!("t1"));
    let others = result_of(&invoke(&server, "g", &json!({})).await)["environment"].clone();
    assert_eq!(
        (&others["OTHER"], &others["DB"], &others["API_TOKEN"]),
        (&json!(VALUE), &Value::Null, &Value::Null)
    );

    // Another value is another instance's; none has the old one any more.
    let starts = || server.executor.seen().starts["guest/f"];
    assert_eq!(starts(), 1, "calls with the same values share an instance");
    set(&server, "token", "t2").await;
    assert_eq!(given(&server, "f", "API_TOKEN").await, json!("t2"));
    assert_eq!(starts(), 2);
    let id = accept(&server, "f", &json!({})).await;
    assert_eq!(result_of(&record(&server, id).await)["environment"]["API_TOKEN"], json!("t2"));
    server.stop().await;
}

#[tokio::test]
async fn a_secret_that_is_missing_is_named_at_the_deploy_and_at_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), Keys::default().config()).await;
    let refused = deploy(&server, "f", json!(["db"])).await.unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Invalid && refused.to_string().contains("flint secret set db"),
        "{refused}"
    );
    for wrong in [json!(7), json!(["a b"]), json!(["a=__OW_API_KEY"]), json!(["a", "b=A"])] {
        assert_eq!(
            deploy(&server, "f", wrong.clone()).await.unwrap_err().kind(),
            ErrorKind::Invalid,
            "{wrong}"
        );
    }
    set(&server, "db", "x").await;
    deploy(&server, "f", json!(["db"])).await.unwrap();
    assert_eq!(given(&server, "f", "DB").await, json!("x"));
    remove(&server, "db").await;
    let text = lacks(&invoke(&server, "f", &json!({})).await);
    assert!(
        text.contains("There is no secret 'db' in namespace 'guest'") && text.contains("flint secret set db"),
        "{text}"
    );
    assert_eq!(server.executor.calls_of("guest/f").len(), 1, "it has not run");
    // An accepted call has its attempts, and is there to be redriven when the secret is back.
    let caller = server.guest().await;
    let id = accept(&server, "f", &json!({})).await;
    let letter = eventually("its dead letter", || async {
        let query = LetterQuery::default();
        server.controller.dead_letters(&caller, &caller.namespace.name, &query, ALL).await.unwrap().pop()
    })
    .await;
    assert_eq!((letter.call.activation, letter.reason), (id, DeadLetterReason::AttemptsUsed));
    set(&server, "db", "back").await;
    assert_eq!(given(&server, "f", "DB").await, json!("back"));
    let again = server.controller.redrive(&caller, &caller.namespace.name, id, "t", None).await.unwrap();
    assert_eq!(result_of(&record(&server, again.activation).await)["environment"]["DB"], json!("back"));
    server.stop().await;
}

/// Whether any file below `dir` has these bytes.
fn any_file_has(dir: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => any_file_has(&path, bytes),
            false => std::fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes),
        }
    })
}

#[tokio::test]
async fn nothing_that_is_kept_or_shown_has_a_value() {
    let (dir, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let keys = Keys::default();
    let server = Server::start(dir.path(), keys.config()).await;
    let caller = server.guest().await;
    const PLAIN: &str = "a-value-that-is-nowhere";
    let secret = set(&server, "db", PLAIN).await;
    deploy(&server, "f", json!(["db"])).await.unwrap();
    let code = PutCode { kind: "nodejs".into(), content: "echo".into(), format: None, main: None };
    let mut put = PutFunction { overwrite: true, code: Some(code), ..PutFunction::default() };
    put.annotations.set(SecretBinding::ANNOTATION, json!(["db"]));
    server.controller.put_function(&caller, "guest/quiet".parse().unwrap(), put, &|_| {}).await.unwrap();
    let record = invoke(&server, "quiet", &json!({})).await;
    accept(&server, "quiet", &json!({})).await;

    let shown = server.controller.function(&caller, &"guest/quiet".parse().unwrap()).await.unwrap();
    let listed = server.controller.secrets(&caller, &caller.namespace.name).await.unwrap();
    assert_eq!(listed, [secret]);
    let entity = serde_json::to_string(&*shown).unwrap();
    for text in
        [format!("{record:?}"), format!("{shown:?}"), entity, format!("{listed:?}"), format!("{keys:?}")]
    {
        assert!(!text.contains(PLAIN) && !text.contains(&keys.0.lock().unwrap()[0].expose()), "{text}");
    }
    let copy = backup.path().join("copy");
    server.back_up(&copy).await;
    server.stop().await;
    for kept in [dir.path(), &copy] {
        assert!(any_file_has(kept, b"flint-secrets"), "what is looked through is what was written");
        assert!(!any_file_has(kept, PLAIN.as_bytes()), "{} has the value", kept.display());
    }
}

#[tokio::test]
async fn namespaces_are_apart_and_a_record_that_was_moved_opens_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), Keys::default().config()).await;
    let guest = server.guest().await;
    let created = server.controller.create_namespace("other".parse().unwrap(), Default::default()).await;
    let other = server.controller.authenticate(&created.unwrap().1.expose()).await.unwrap();
    let mine = set(&server, "db", "of guest").await;
    set_as(&server, &other, "db", "of other").await.unwrap();
    // Another namespace's secrets are nobody's business.
    let namespace = &guest.namespace.name;
    for refused in [
        server.controller.set_secret(&other, namespace, name("db"), b"x").await.map(drop),
        server.controller.secrets(&other, namespace).await.map(drop),
        server.controller.delete_secret(&other, namespace, &name("db")).await,
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Forbidden);
    }
    // A function is given those of its own namespace, whoever calls it.
    let put = PutPackage { publish: Some(true), ..PutPackage::default() };
    server.controller.put_package(&guest, "guest/p".parse().unwrap(), put).await.unwrap();
    deploy(&server, "p/f", json!(["db"])).await.unwrap();
    let answer = server.controller.invoke(&other, invocation("p/f", &json!({}), BLOCKING)).await.unwrap();
    let flint_controller::Answer::Finished(record) = answer else { panic!("{answer:?}") };
    assert_eq!(result_of(&record)["environment"]["DB"], json!("of guest"));

    // Whoever can write the database cannot give one namespace's secret to another, or one's value to another name.
    let secrets = server.secrets();
    let moved = SealedSecret { namespace: other.namespace.name.clone(), ..mine.clone() };
    secrets.put_secret(&moved, 9).await.unwrap();
    secrets.put_secret(&SealedSecret { name: name("copy"), ..mine }, 9).await.unwrap();
    for (caller, name) in [(&other, "db"), (&guest, "copy")] {
        let listed = server.controller.secrets(caller, &caller.namespace.name).await.unwrap();
        let found = listed.iter().find(|secret| secret.name.as_str() == name).unwrap();
        assert!(!server.controller.can_open(found));
    }
    deploy(&server, "copied", json!(["copy"])).await.unwrap();
    assert!(
        lacks(&invoke(&server, "copied", &json!({})).await).contains("cannot be decrypted: it was moved")
    );
    server.stop().await;
}

#[tokio::test]
async fn a_lost_key_is_said_by_the_calls_that_need_it_and_by_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let keys = Keys::default();
    let server = Server::start(dir.path(), keys.config()).await;
    let secret = set(&server, "db", "x").await;
    deploy(&server, "f", json!(["db"])).await.unwrap();
    deploy(&server, "g", json!([])).await.unwrap();
    server.stop().await;

    let server = Server::start(dir.path(), Keys::default().config()).await;
    let text = lacks(&invoke(&server, "f", &json!({})).await);
    assert!(text.contains("'db'") && text.contains(&secret.key), "{text}");
    assert_eq!(given(&server, "g", "DB").await, Value::Null);
    let caller = server.guest().await;
    assert!(
        server.controller.function(&caller, &"guest/f".parse().unwrap()).await.is_ok(),
        "it can still be read"
    );
    // A new key beside what an old one has encrypted would hide that this is lost.
    let refused = set_as(&server, &caller, "new", "x").await.unwrap_err();
    assert!(refused.kind() == ErrorKind::Conflict && refused.to_string().contains(&secret.key), "{refused}");
    server.stop().await;

    let server = Server::start(dir.path(), keys.config()).await;
    assert_eq!(given(&server, "f", "DB").await, json!("x"));
    server.stop().await;
    // With a new key before it, everything is encrypted anew at the start, and the old one is needed no more.
    keys.renew().unwrap();
    Server::start(dir.path(), keys.config()).await.stop().await;
    keys.retire().unwrap();
    let server = Server::start(dir.path(), keys.config()).await;
    assert_eq!(given(&server, "f", "DB").await, json!("x"));
    server.stop().await;
}

#[tokio::test]
async fn an_accepted_call_waits_for_a_lost_key_without_attempts() {
    let dir = tempfile::tempdir().unwrap();
    let keys = Keys::default();
    let server = Server::start(dir.path(), keys.config()).await;
    let secret = set(&server, "db", "x").await;
    deploy(&server, "f", json!(["db"])).await.unwrap();
    server.stop().await;

    let server = Server::start(dir.path(), Keys::default().config()).await;
    let id = accept(&server, "f", &json!({})).await;
    let caller = server.guest().await;
    let why = eventually("it is put off", || async {
        match server.controller.accepted_call(&caller, &caller.namespace.name, id).await.unwrap().phase {
            CallPhase::PutOff { why, .. } => Some(why),
            _ => None,
        }
    })
    .await;
    assert!(why.contains("'db'") && why.contains(&secret.key), "{why}");
    server.stop().await;

    let server = Server::start(dir.path(), keys.config()).await;
    let record = record(&server, id).await;
    assert_eq!(result_of(&record)["environment"]["DB"], json!("x"));
    assert_eq!(record.attempts.len(), 0);
    server.stop().await;
}

#[tokio::test]
async fn another_key_takes_over_while_calls_and_writes_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let keys = Keys::default();
    let server = Server::start(dir.path(), keys.config()).await;
    assert_eq!(server.controller.rotate_secret_key().await.unwrap_err().kind(), ErrorKind::Conflict);
    for number in 0..5 {
        set(&server, &format!("s{number}"), &format!("v{number}")).await;
    }
    deploy(&server, "f", json!(["s0", "s1"])).await.unwrap();
    assert_eq!(given(&server, "f", "S0").await, json!("v0"));
    let first = keys.ids();
    let writes = async {
        for round in 0..20 {
            set(&server, "s1", &format!("written {round}")).await;
        }
    };
    let (rotated, ()) = tokio::join!(server.controller.rotate_secret_key(), writes);
    let rotated = rotated.unwrap();
    assert!(rotated.retired && rotated.lost == 0, "{rotated:?}");
    assert!(keys.ids() == [rotated.key.clone()] && keys.ids() != first);
    let caller = server.guest().await;
    let listed = server.controller.secrets(&caller, &caller.namespace.name).await.unwrap();
    let used: BTreeSet<_> = listed.iter().map(|secret| secret.key.clone()).collect();
    assert_eq!(used, BTreeSet::from([rotated.key]));
    assert_eq!(given(&server, "f", "S0").await, json!("v0"));
    assert_eq!(given(&server, "f", "S1").await, json!("written 19"));
    server.stop().await;
    let server = Server::start(dir.path(), keys.config()).await;
    assert_eq!(given(&server, "f", "S1").await, json!("written 19"));
    server.stop().await;
}

#[tokio::test]
async fn secrets_are_bounded_text_and_need_somewhere_to_keep_their_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Keys::default().config();
    config.secrets.per_namespace = 1;
    config.secrets.max_size = flint_model::ByteSize::bytes(8);
    let server = Server::start(dir.path(), config).await;
    let caller = server.guest().await;
    let namespace = &caller.namespace.name;
    for (value, kind) in [
        (&b"123456789"[..], ErrorKind::TooLarge),
        (b"a\0b", ErrorKind::Invalid),
        (b"\xff", ErrorKind::Invalid),
    ] {
        let refused = server.controller.set_secret(&caller, namespace, name("a"), value).await.unwrap_err();
        assert_eq!(refused.kind(), kind);
        assert!(!refused.to_string().contains("123456789"));
    }
    set(&server, "a", "12345678").await;
    set(&server, "a", "1").await;
    let refused = set_as(&server, &caller, "b", "1").await.unwrap_err();
    assert!(refused.kind() == ErrorKind::Conflict && refused.to_string().contains("secrets.per_namespace"));
    server.stop().await;

    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), support::config()).await;
    let refused = set_as(&server, &server.guest().await, "a", "1").await.unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Conflict && refused.to_string().contains("nowhere to keep"),
        "{refused}"
    );
    assert_eq!(call(&server, "none", &json!({}), BLOCKING).await.unwrap_err().kind(), ErrorKind::NotFound);
    server.stop().await;
}
