//! What a function must not reach.

use serde_json::json;
use tokio::net::TcpListener;

use super::Subject;

/// The host's secrets and Flint's own folders.
pub async fn the_host_is_out_of_sight(subject: &Subject) {
    let instance = subject.start().await;
    let mut paths =
        vec!["/etc/shadow".to_owned(), "/root/.ssh".into(), "/proc/1/root/etc/shadow".into(), "/home".into()];
    paths.extend(subject.folders.iter().map(|folder| folder.display().to_string()));
    for path in paths {
        let answer = subject.call(&instance, "read", json!({ "path": path })).await.json();
        assert!(answer["read"].as_str().is_none_or(str::is_empty), "{path}: {answer}");
    }
    // Only its own code is visible.
    let answer = subject.call(&instance, "read", json!({ "path": "/function" })).await.json();
    assert!(answer["read"].as_str().is_some_and(|names| !names.contains("..")), "{answer}");
    instance.stop().await;
}

/// Neither the function's code nor the system's files can be written.
pub async fn the_code_is_read_only(subject: &Subject) {
    let instance = subject.start().await;
    for path in ["/function/x", "/usr/bin/x", "/etc/x", "/x"] {
        let answer = subject.call(&instance, "write", json!({ "path": path })).await.json();
        assert!(answer.get("refused").is_some(), "{path}: {answer}");
    }
    let answer = subject.call(&instance, "write", json!({ "path": "/tmp/x" })).await.json();
    assert_eq!(answer, json!({ "written": true }));
    instance.stop().await;
}

/// Servers on the host's loopback cannot be reached.
pub async fn the_hosts_loopback_is_out_of_reach(subject: &Subject) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let instance = subject.start().await;
    for host in ["127.0.0.1", "localhost", "::1"] {
        let answer = subject.call(&instance, "connect", json!({ "host": host, "port": port })).await.json();
        assert!(answer.get("refused").is_some(), "{host}: {answer}");
    }
    instance.stop().await;
}
