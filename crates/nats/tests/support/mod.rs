//! A real server of NATS, on a free port, with data of its own.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use async_nats::{Client, ConnectOptions};
use flint_model::NatsSource;
use flint_nats::Reach;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpSocket;

pub struct Server {
    child: Option<Child>,
    pub port: u16,
    /// Bound to it and not listening: it is given to nobody else, also while the server is down.
    reserved: TcpSocket,
    arguments: Vec<String>,
    dir: TempDir,
}

/// Debian has it where not everybody's PATH leads.
fn program() -> &'static str {
    let usual = "/usr/sbin/nats-server";
    if Path::new(usual).exists() { usual } else { "nats-server" }
}

impl Server {
    /// Starts one with JetStream, and what `arguments` say.
    pub async fn start(arguments: &[&str]) -> Self {
        let reserved = TcpSocket::new_v4().unwrap();
        reserved.set_reuseaddr(true).unwrap();
        reserved.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let port = reserved.local_addr().unwrap().port();
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut server = Self { child: None, port, reserved, arguments, dir: tempfile::tempdir().unwrap() };
        server.restart().await;
        server
    }

    /// Starts it again, where it was, on what it has kept.
    pub async fn restart(&mut self) {
        self.kill();
        let child = Command::new(program())
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"])
            .arg(self.dir.path())
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server runs: ./bootstrap.sh installs it (Debian: apt-get install nats-server)");
        self.child = Some(child);
        for _ in 0..6000 {
            if tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nats-server does not listen");
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn url(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Somebody who sends.
    pub async fn client(&self) -> Client {
        self.client_with(ConnectOptions::new()).await
    }

    pub async fn client_with(&self, options: ConnectOptions) -> Client {
        options.connect(self.url()).await.unwrap()
    }

    /// What allows connections to it.
    pub fn reach(&self) -> Reach {
        Reach { hosts: vec![self.url().parse().unwrap()], private: true }
    }

    /// A source of a subject of its.
    pub fn source(&self, subject: &str) -> NatsSource {
        serde_json::from_value(json!({"servers": [self.url()], "subject": subject})).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
