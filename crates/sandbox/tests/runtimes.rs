//! Real language runtimes work inside.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::Host;
use flint_sandbox::{Mount, SandboxSpec};

/// Runs `argv` with room for a JVM and wants `expected` on its output.
async fn expect(host: &Host, argv: &[&str], mounts: &[(&Path, &str)], expected: &str) {
    let mut spec = SandboxSpec::new("runtime", argv.iter().map(|word| (*word).to_owned()).collect());
    spec.limits.memory_bytes = 1 << 30;
    spec.limits.processes = 200;
    // Interpreters built to be shared libraries look for themselves where they were built.
    spec.env.push(("LD_LIBRARY_PATH".into(), "/opt/python/lib".into()));
    for (source, target) in mounts {
        spec.mounts.push(Mount { source: source.to_path_buf(), target: (*target).into(), readonly: true });
    }
    let (exit, output) = host.run(&spec).await.unwrap();
    assert!(exit.status.success() && output.trim() == expected, "{argv:?}: {exit:?}: {output}");
}

/// Whether `program` is there; says so when not.
fn here(program: &str) -> bool {
    let found = Path::new(program).exists();
    if !found {
        println!("not checked: this host has no {program}");
    }
    found
}

#[tokio::test]
async fn node() {
    if !here("/usr/bin/node") {
        return;
    }
    let host = Host::new("node").await;
    let script = "
        const os = require('os'), fs = require('fs'), crypto = require('crypto'), { Worker } = require('worker_threads');
        const { execFileSync } = require('child_process'), net = require('net'), dns = require('dns');
        if (os.availableParallelism() < 1 || os.totalmem() < 1e6) throw 'os';
        fs.writeFileSync('/tmp/x', crypto.randomBytes(8)); os.networkInterfaces();
        process.memoryUsage(); new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0]));
        const server = net.createServer(socket => socket.end('pong')).listen(0, '127.0.0.1', () =>
          net.connect(server.address().port, 'localhost').on('data', data => {
            server.close();
            const worker = new Worker(\"require('worker_threads').parentPort.postMessage(42)\", { eval: true });
            worker.on('message', async answer => {
              const zipped = require('zlib').gzipSync('x'); await fs.promises.readdir('/');
              dns.lookup('localhost', error => console.log('hello', answer, data + '', execFileSync('echo', ['child']) + ''));
            });
          }));";
    expect(&host, &["/usr/bin/node", "-e", script], &[], "hello 42 pong child").await;
    host.launcher.shutdown().await;
}

const PYTHON: &str = "
import ctypes, hashlib, json, multiprocessing, os, socket, sqlite3, ssl, subprocess, tempfile, threading, uuid
with tempfile.NamedTemporaryFile() as file: file.write(os.urandom(8))
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
ssl.create_default_context()
with multiprocessing.get_context('fork').Pool(2) as pool: total = sum(pool.map(abs, [-1, -2]))
server = socket.create_server(('localhost', 0)); socket.create_connection(server.getsockname()).close()
print('hello', total, subprocess.check_output(['echo', 'child'], text=True).strip(), os.cpu_count() > 0)
";

#[tokio::test]
async fn python_of_the_system() {
    if !here("/usr/bin/python3") {
        return;
    }
    let host = Host::new("python").await;
    expect(&host, &["/usr/bin/python3", "-c", PYTHON], &[], "hello 3 child True").await;
    host.launcher.shutdown().await;
}

/// Interpreters outside `/usr` (pyenv, conda, a user's own) come as a mount of their prefix.
#[tokio::test]
async fn python_from_a_prefix() {
    let host = Host::new("prefix").await;
    let mut tried = 0;
    for prefix in python_prefixes() {
        tried += 1;
        let program = "/opt/python/bin/python3";
        expect(&host, &[program, "-c", PYTHON], &[(&prefix, "/opt/python")], "hello 3 child True").await;
    }
    if tried == 0 {
        println!("not checked: no python3 on PATH lives outside /usr");
    }
    host.launcher.shutdown().await;
}

fn python_prefixes() -> Vec<PathBuf> {
    let mut prefixes = Vec::new();
    for name in ["python3", "python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14"]
    {
        let output = Command::new(name).args(["-c", "import sys; print(sys.base_prefix)"]).output();
        if let Ok(output) = output
            && output.status.success()
        {
            let prefix = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
            if !prefix.starts_with("/usr/bin") && prefix != Path::new("/usr") && !prefixes.contains(&prefix) {
                // Siblings of a version-managed interpreter are as good.
                let siblings =
                    prefix.parent().filter(|parent| parent.ends_with("versions")).map(Path::to_owned);
                let all = siblings.and_then(|parent| std::fs::read_dir(parent).ok());
                prefixes.extend(all.into_iter().flatten().flatten().map(|entry| entry.path()).filter(
                    |path| {
                        ["3.9", "3.1"].iter().any(|version| {
                            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(version))
                        }) && path.join("bin/python3").exists()
                    },
                ));
                prefixes.push(prefix);
            }
        }
    }
    prefixes.sort();
    prefixes.dedup();
    prefixes
}

#[tokio::test]
async fn java() {
    let homes: Vec<PathBuf> = std::fs::read_dir("/usr/lib/jvm")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| !entry.path().is_symlink())
        .map(|entry| entry.path())
        .filter(|home| home.join("bin/java").exists() && home.join("bin/javac").exists())
        .collect();
    if homes.is_empty() {
        println!("not checked: no JDK in /usr/lib/jvm");
        return;
    }
    let host = Host::new("java").await;
    let code = tempfile::tempdir().unwrap();
    let source = r#"
        import java.net.*; import java.nio.file.*; import java.util.*; import java.util.concurrent.*;
        public class Hello {
            public static void main(String[] arguments) throws Exception {
                Path file = Files.createTempFile("x", ".y"); Files.writeString(file, UUID.randomUUID().toString());
                ExecutorService pool = Executors.newFixedThreadPool(4);
                int sum = pool.submit(() -> 40).get() + pool.submit(() -> 2).get(); pool.shutdown();
                try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                     Socket socket = new Socket(server.getInetAddress(), server.getLocalPort())) { }
                javax.net.ssl.SSLContext.getDefault(); System.gc();
                String child = new String(new ProcessBuilder("echo", "child").start().getInputStream().readAllBytes()).trim();
                System.out.println("hello " + sum + " " + child + " " + (Runtime.getRuntime().availableProcessors() > 0));
            }
        }"#;
    std::fs::write(code.path().join("Hello.java"), source).unwrap();
    for home in homes {
        let compiled = code.path().join(home.file_name().unwrap());
        let status = Command::new(home.join("bin/javac"))
            .arg("-d")
            .arg(&compiled)
            .arg(code.path().join("Hello.java"))
            .status()
            .unwrap();
        assert!(status.success());
        let program = home.join("bin/java").to_string_lossy().into_owned();
        let argv = [&program, "-Xmx256m", "-cp", "/function/java", "Hello"];
        expect(&host, &argv, &[(&compiled, "/function/java")], "hello 42 child true").await;
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn shell_tools_and_perl() {
    let host = Host::new("tools").await;
    let script = "seq 3 | sort -r | tr '\\n' ' ' | sed 's/ $//'; mkdir -p /tmp/a/b && ln -s b /tmp/a/c && ls /tmp/a | wc -l";
    expect(&host, &["sh", "-c", script], &[], "3 2 12").await;
    if here("/usr/bin/perl") {
        expect(&host, &["/usr/bin/perl", "-e", "print 6 * 7"], &[], "42").await;
    }
    host.launcher.shutdown().await;
}

#[tokio::test]
async fn go() {
    let found = Command::new("go").arg("version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!("not checked: no go on PATH");
        return;
    }
    let host = Host::new("go").await;
    let code = tempfile::tempdir().unwrap();
    let source = r#"package main
        import ("fmt"; "net/http"; "net/http/httptest"; "os/exec"; "runtime"; "sync")
        func main() {
            var group sync.WaitGroup
            for i := 0; i < 50; i++ { group.Add(1); go func() { defer group.Done(); runtime.Gosched() }() }
            group.Wait()
            server := httptest.NewServer(http.NotFoundHandler())
            answer, err := http.Get(server.URL); if err != nil { panic(err) }
            child, err := exec.Command("echo", "child").Output(); if err != nil { panic(err) }
            fmt.Printf("hello %d %s", answer.StatusCode, child)
        }"#;
    std::fs::write(code.path().join("main.go"), source).unwrap();
    let built = Command::new("go")
        .args(["build", "-o", "hello", "main.go"])
        .env("GOFLAGS", "-mod=mod")
        .env("GOTOOLCHAIN", "local")
        .current_dir(code.path())
        .status();
    assert!(built.unwrap().success());
    expect(&host, &["/function/go/hello"], &[(code.path(), "/function/go")], "hello 404 child").await;
    host.launcher.shutdown().await;
}
