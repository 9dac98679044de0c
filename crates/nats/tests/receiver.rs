//! Receiving from a real server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_nats::{
    ConnectOptions, HeaderMap,
    jetstream::{
        self,
        stream::{Config, RetentionPolicy},
    },
};
use flint_model::{Deliver, NatsLogin, NatsSource, StreamPosition};
use flint_nats::{Batch, Bounds, Name, Reach, Receiver};
use support::Server;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
};

const BOUNDS: Bounds = Bounds { messages: 10, bytes: 1 << 20 };
const ONE: Name<'_> = Name { trigger: "guest/t", store: "one" };

async fn open(server: &Server, source: &NatsSource) -> Receiver {
    Receiver::open(source, ONE, None, &server.reach()).await.unwrap()
}

/// Texts of so many messages, which are done with them.
async fn texts(receiver: &mut Receiver, count: usize) -> Vec<String> {
    let mut texts = Vec::new();
    while texts.len() < count {
        let batch = receiver.next(BOUNDS).await.unwrap();
        texts.extend(texts_of(&batch));
        receiver.done(batch).await;
    }
    texts
}

fn texts_of(batch: &Batch) -> Vec<String> {
    batch.messages.iter().map(|message| String::from_utf8(message.payload.to_vec()).unwrap()).collect()
}

fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[tokio::test]
async fn messages_of_a_subject_come_in_order() {
    let server = Server::start(&[]).await;
    let mut receiver = open(&server, &server.source("orders.*")).await;
    assert!(receiver.beginning().is_none());
    let client = server.client().await;
    let mut headers = HeaderMap::new();
    headers.append("B", "2");
    headers.append("A", "1");
    client.publish_with_headers("orders.new", headers, "0".into()).await.unwrap();
    client.publish("elsewhere", "x".into()).await.unwrap();
    for number in 1..25 {
        client.publish("orders.old", number.to_string().into()).await.unwrap();
    }
    client.flush().await.unwrap();
    let batch = receiver.next(Bounds { messages: 1, bytes: 1 << 20 }).await.unwrap();
    let first = &batch.messages[0];
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!((first.subject.as_str(), first.sequence), ("orders.new", None));
    assert_eq!(first.headers, [header("A", "1"), header("B", "2")]);
    assert_eq!(texts(&mut receiver, 24).await, numbers(1..25));
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let server = Server::start(&[]).await;
    let mut receiver = open(&server, &server.source("s")).await;
    let client = server.client().await;
    for _ in 0..30 {
        client.publish("s", vec![b'x'; 1000].into()).await.unwrap();
    }
    client.flush().await.unwrap();
    let (mut seen, mut largest) = (0, 0);
    while seen < 30 {
        let batch = receiver.next(Bounds { messages: 10, bytes: 3500 }).await.unwrap();
        assert!((1..=4).contains(&batch.messages.len()), "{}", batch.messages.len());
        largest = largest.max(batch.messages.len());
        seen += batch.messages.len();
    }
}

#[tokio::test]
async fn what_waits_is_bounded_and_what_is_missed_is_counted() {
    const SENT: u64 = 3000;
    let server = Server::start(&[]).await;
    let mut receiver = open(&server, &server.source("s")).await;
    let client = server.client().await;
    for _ in 0..SENT {
        client.publish("s", vec![b'x'; 10_000].into()).await.unwrap();
    }
    client.flush().await.unwrap();
    // Nobody takes them, and they are more than what may wait.
    while receiver.missed() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut taken = 0;
    while taken + receiver.missed() < SENT {
        tokio::select! {
            batch = receiver.next(BOUNDS) => taken += batch.unwrap().messages.len() as u64,
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
    assert_eq!(taken + receiver.missed(), SENT);
    assert!(taken > 0);
}

#[tokio::test]
async fn large_messages_of_a_stream_come_in_portions() {
    let (server, source) = with_stream(RetentionPolicy::Limits, 0).await;
    let mut receiver = open(&server, &source).await;
    let context = jetstream::new(server.client().await);
    for number in 0..40_u8 {
        context.publish("orders.new", vec![number; 700_000].into()).await.unwrap().await.unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < 40 {
        let batch = receiver.next(BOUNDS).await.unwrap();
        seen.extend(batch.messages.iter().map(|message| message.payload[0]));
        receiver.done(batch).await;
    }
    assert_eq!(seen, (0..40).collect::<Vec<u8>>());
}

#[tokio::test]
async fn of_a_group_one_gets_each_message() {
    let server = Server::start(&[]).await;
    let grouped = NatsSource { queue: Some("g".to_owned()), ..server.source("s") };
    let (mut one, mut two) = (open(&server, &grouped).await, open(&server, &grouped).await);
    let client = server.client().await;
    for number in 0..40 {
        client.publish("s", number.to_string().into()).await.unwrap();
    }
    client.flush().await.unwrap();
    let mut got = Vec::new();
    while got.len() < 40 {
        let batch = tokio::select! {
            batch = one.next(BOUNDS) => batch,
            batch = two.next(BOUNDS) => batch,
        };
        got.extend(texts_of(&batch.unwrap()));
    }
    got.sort_by_key(|text| text.parse::<usize>().unwrap());
    assert_eq!(got, numbers(0..40));
}

#[tokio::test]
async fn one_has_to_be_known_where_that_is_asked_for() {
    let server = Server::start(&["--user", "u", "--pass", "p"]).await;
    let login = |name: &str, password: &str| NatsSource {
        login: NatsLogin::User { name: name.to_owned(), password: password.to_owned() },
        ..server.source("s")
    };
    for wrong in [server.source("s"), login("u", "wrong")] {
        let error = Receiver::open(&wrong, ONE, None, &server.reach()).await.err().unwrap().to_string();
        assert!(error.contains("authorization violation"), "{error}");
    }
    let mut receiver = open(&server, &login("u", "p")).await;
    let known = ConnectOptions::with_user_and_password("u".to_owned(), "p".to_owned());
    let client = server.client_with(known).await;
    client.publish("s", "0".into()).await.unwrap();
    client.flush().await.unwrap();
    assert_eq!(texts(&mut receiver, 1).await, ["0"]);

    let guarded = Server::start(&["--auth", "secret"]).await;
    let token = NatsSource { login: NatsLogin::Token("secret".to_owned()), ..guarded.source("s") };
    drop(open(&guarded, &token).await);
}

#[tokio::test]
async fn what_is_not_allowed_or_not_there_is_said() {
    let mut server = Server::start(&[]).await;
    let source = server.source("s");
    let private = Reach { private: false, ..server.reach() };
    for (reach, text) in [(Reach::default(), "makes no connections"), (private, "feeds.nats_allow_private")] {
        let error = Receiver::open(&source, ONE, None, &reach).await.err().unwrap().to_string();
        assert!(error.contains(text), "{error}");
    }
    let secured = NatsSource { tls: true, ..source.clone() };
    assert!(Receiver::open(&secured, ONE, None, &server.reach()).await.is_err(), "it speaks no TLS");
    let nowhere = NatsSource { stream: Some("NONE".to_owned()), ..source.clone() };
    let error = Receiver::open(&nowhere, ONE, None, &server.reach()).await.err().unwrap().to_string();
    assert!(error.contains("the stream 'NONE' cannot be read") && error.contains("not found"), "{error}");
    // The second of two servers does when the first is not there.
    let mut two = source.clone();
    two.servers.insert(0, format!("127.0.0.1:{}", 1).parse().unwrap());
    let reach =
        Reach { hosts: vec!["127.0.0.1:1".parse().unwrap(), server.url().parse().unwrap()], private: true };
    drop(Receiver::open(&two, ONE, None, &reach).await.unwrap());
    server.kill();
    assert!(Receiver::open(&source, ONE, None, &server.reach()).await.is_err());
}

#[tokio::test]
async fn a_connection_that_ends_says_so() {
    let mut server = Server::start(&[]).await;
    let mut receiver = open(&server, &server.source("s")).await;
    server.kill();
    assert!(receiver.next(BOUNDS).await.is_err());
    server.restart().await;
    let mut receiver = open(&server, &server.source("s")).await;
    let client = server.client().await;
    client.publish("s", "0".into()).await.unwrap();
    client.flush().await.unwrap();
    assert_eq!(texts(&mut receiver, 1).await, ["0"]);
}

#[tokio::test]
async fn a_subscription_that_is_refused_is_not_taken_for_one() {
    let config = tempfile::NamedTempFile::new().unwrap();
    let users = r#"authorization { users = [
        { user: "u", password: "p", permissions: { publish: ">", subscribe: ["allowed"] } }
    ] }"#;
    std::fs::write(config.path(), users).unwrap();
    let server = Server::start(&["-c", config.path().to_str().unwrap()]).await;
    let source = |subject: &str, queue: Option<&str>| NatsSource {
        login: NatsLogin::User { name: "u".to_owned(), password: "p".to_owned() },
        queue: queue.map(str::to_owned),
        ..server.source(subject)
    };
    for queue in [None, Some("g")] {
        let error = match Receiver::open(&source("denied", queue), ONE, None, &server.reach()).await {
            Ok(mut receiver) => receiver.next(BOUNDS).await.unwrap_err(),
            Err(error) => error,
        };
        let error = error.to_string().to_lowercase();
        assert!(error.contains(r#"permissions violation for subscription to "denied""#), "{error}");
    }
    let mut receiver = open(&server, &source("allowed", None)).await;
    let known = ConnectOptions::with_user_and_password("u".to_owned(), "p".to_owned());
    let client = server.client_with(known).await;
    client.publish("allowed", "0".into()).await.unwrap();
    client.flush().await.unwrap();
    assert_eq!(texts(&mut receiver, 1).await, ["0"]);
}

#[tokio::test]
async fn a_server_that_ends_every_connection_is_not_connected_to_again_and_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = listener.local_addr().unwrap().to_string();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // The first one lasts until the subscription is answered.
            let answers = if counted.fetch_add(1, Ordering::Relaxed) == 0 { 2 } else { 1 };
            let info = "INFO {\"server_id\":\"x\",\"max_payload\":1024,\"headers\":true}\r\n";
            stream.write_all(info.as_bytes()).await.unwrap();
            let mut lines = BufReader::new(&mut stream).lines();
            for _ in 0..answers {
                while lines.next_line().await.unwrap().is_some_and(|line| line != "PING") {}
                lines.get_mut().get_mut().write_all(b"PONG\r\n").await.unwrap();
            }
        }
    });
    let source: NatsSource =
        serde_json::from_value(serde_json::json!({"servers": [url], "subject": "s"})).unwrap();
    let reach = Reach { hosts: vec![url.parse().unwrap()], private: true };
    // The end may come before or after it is known to be subscribed.
    let error = match Receiver::open(&source, ONE, None, &reach).await {
        Ok(mut receiver) => receiver.next(BOUNDS).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("cannot be reached any more"), "{error}");
    assert!(connections.load(Ordering::Relaxed) <= 2, "one, and a late one of its client");
    server.abort();
}

/// A server with a stream `ORDERS` of `orders.>`, with so many messages on `orders.new`.
async fn with_stream(retention: RetentionPolicy, messages: usize) -> (Server, NatsSource) {
    let server = Server::start(&[]).await;
    let context = jetstream::new(server.client().await);
    let subjects = vec!["orders.>".to_owned()];
    let config = Config { name: "ORDERS".to_owned(), subjects, retention, ..Config::default() };
    context.create_stream(config).await.unwrap();
    publish(&server, 0..messages).await;
    let source = NatsSource { stream: Some("ORDERS".to_owned()), ..server.source("orders.new") };
    (server, source)
}

async fn publish(server: &Server, range: std::ops::Range<usize>) {
    let context = jetstream::new(server.client().await);
    for number in range {
        context.publish("orders.new", number.to_string().into()).await.unwrap().await.unwrap();
        context.publish("orders.other", "x".into()).await.unwrap().await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_is_read_from_its_beginning_or_from_now_on() {
    let (server, source) = with_stream(RetentionPolicy::Limits, 3).await;
    let mut new = open(&server, &source).await;
    assert_eq!(new.beginning().unwrap().sequence, 6);
    let other = Name { trigger: "guest/other", ..ONE };
    let mut all = open_as(&server, &NatsSource { deliver: Deliver::All, ..source.clone() }, other).await;
    assert_eq!(all.beginning().unwrap().sequence, 0);
    publish(&server, 3..6).await;
    assert_eq!(texts(&mut new, 3).await, numbers(3..6));
    assert_eq!(texts(&mut all, 6).await, numbers(0..6));
}

async fn open_as(server: &Server, source: &NatsSource, name: Name<'_>) -> Receiver {
    Receiver::open(source, name, None, &server.reach()).await.unwrap()
}

#[tokio::test]
async fn a_stream_is_read_on_after_a_position_whatever_was_given_before() {
    for retention in [RetentionPolicy::Limits, RetentionPolicy::Interest, RetentionPolicy::WorkQueue] {
        let (mut server, source) = with_stream(retention, 0).await;
        let mut receiver = open(&server, &source).await;
        let mut position = receiver.beginning().unwrap().clone();
        publish(&server, 0..6).await;
        // Two are done, and of what else was given nothing is known: as when the reader was killed.
        let first = receiver.next(Bounds { messages: 2, bytes: 1 << 20 }).await.unwrap();
        let mut done = texts_of(&first);
        position.sequence = first.messages.last().unwrap().sequence.unwrap();
        receiver.done(first).await;
        let _undone = receiver.next(BOUNDS).await.unwrap();
        drop(receiver);
        // What comes while nobody reads is kept.
        publish(&server, 6..8).await;
        server.restart().await;
        while done.len() < 8 {
            let mut receiver = Receiver::open(&source, ONE, Some(&position), &server.reach()).await.unwrap();
            let batch = receiver.next(Bounds { messages: 2, bytes: 1 << 20 }).await.unwrap();
            for (message, text) in batch.messages.iter().zip(texts_of(&batch)) {
                if message.sequence.unwrap() > position.sequence {
                    position.sequence = message.sequence.unwrap();
                    done.push(text);
                }
            }
            receiver.done(batch).await;
        }
        assert_eq!(done, numbers(0..8), "{retention:?}");
    }
}

#[tokio::test]
async fn what_a_queue_has_of_another_subject_was_not_read_before() {
    let (server, source) = with_stream(RetentionPolicy::WorkQueue, 3).await;
    let mut receiver = open(&server, &source).await;
    assert_eq!(texts(&mut receiver, 3).await, numbers(0..3));
    let position = StreamPosition { sequence: 5, ..receiver.beginning().unwrap().clone() };
    drop(receiver);
    let open_at = async |source: &NatsSource| {
        Receiver::open(source, ONE, Some(&position), &server.reach()).await.unwrap()
    };
    assert_eq!(open_at(&source).await.beginning(), Some(&position));
    let other = NatsSource { subject: "orders.other".to_owned(), ..source.clone() };
    let mut receiver = open_at(&other).await;
    // They are the second, the fourth and the sixth.
    assert!(receiver.beginning().unwrap().sequence < 2);
    assert_eq!(texts(&mut receiver, 3).await, ["x"; 3]);
}

#[tokio::test]
async fn another_stream_of_a_name_is_counted_anew() {
    let (server, source) = with_stream(RetentionPolicy::Limits, 2).await;
    let source = NatsSource { deliver: Deliver::All, ..source };
    let this = open(&server, &source).await.beginning().unwrap().stream.clone();
    // Or the same one, when it has lost what it had.
    for (stream, sequence) in [("an earlier one".to_owned(), 1), (this, 100)] {
        let position = StreamPosition { stream, sequence };
        let mut receiver = Receiver::open(&source, ONE, Some(&position), &server.reach()).await.unwrap();
        assert_eq!(texts(&mut receiver, 2).await, numbers(0..2));
    }
}

#[tokio::test]
async fn a_reader_leaves_no_other_behind() {
    let (server, source) = with_stream(RetentionPolicy::Limits, 1).await;
    for _ in 0..3 {
        drop(open(&server, &source).await);
        assert_eq!(consumers(&server).await, 1);
    }
    open(&server, &source).await.forget().await;
    assert_eq!(consumers(&server).await, 0);
}

/// How many readers the stream has.
async fn consumers(server: &Server) -> usize {
    let context = jetstream::new(server.client().await);
    context.get_stream("ORDERS").await.unwrap().cached_info().state.consumer_count
}

#[tokio::test]
async fn triggers_of_one_path_on_two_servers_leave_each_other_alone() {
    let (server, source) = with_stream(RetentionPolicy::Interest, 0).await;
    let two = Name { store: "two", ..ONE };
    let mut one = open(&server, &source).await;
    let position = one.beginning().unwrap().clone();
    let mut other = open_as(&server, &source, two).await;
    publish(&server, 0..2).await;
    assert_eq!(texts(&mut one, 2).await, numbers(0..2));
    // Also when one of them comes back, or goes for good.
    drop(one);
    let one = Receiver::open(&source, ONE, Some(&position), &server.reach()).await.unwrap();
    assert_eq!(consumers(&server).await, 2);
    one.forget().await;
    assert_eq!(consumers(&server).await, 1);
    publish(&server, 2..4).await;
    assert_eq!(texts(&mut other, 4).await, numbers(0..4));

    let (server, source) = with_stream(RetentionPolicy::WorkQueue, 3).await;
    let mut one = open(&server, &source).await;
    let refused = Receiver::open(&source, two, None, &server.reach()).await.err().unwrap().to_string();
    assert!(refused.contains("the stream 'ORDERS' cannot be read"), "{refused}");
    assert_eq!(texts(&mut one, 3).await, numbers(0..3));
}

#[tokio::test]
async fn what_an_earlier_build_left_is_not_in_the_way() {
    let (server, source) = with_stream(RetentionPolicy::WorkQueue, 3).await;
    let context = jetstream::new(server.client().await);
    let stream = context.get_stream("ORDERS").await.unwrap();
    let name = format!("flint-{}-x", &blake3::hash(b"guest/t").to_hex()[..20]);
    let config = jetstream::consumer::pull::Config {
        durable_name: Some(name),
        filter_subject: source.subject.clone(),
        ..Default::default()
    };
    stream.create_consumer(config).await.unwrap();
    // It may be that of another server, unless something was read before.
    assert!(Receiver::open(&source, ONE, None, &server.reach()).await.is_err());
    let position = StreamPosition { stream: "any".to_owned(), sequence: 1 };
    let mut receiver = Receiver::open(&source, ONE, Some(&position), &server.reach()).await.unwrap();
    assert_eq!(texts(&mut receiver, 3).await, numbers(0..3));
}
