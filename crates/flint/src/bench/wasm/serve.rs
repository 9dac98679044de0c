//! The peer: `wasmtime serve` with the same component.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

/// How long it may take to listen.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A running `wasmtime serve`; dropping it ends it.
pub(super) struct Serve {
    process: Child,
    pub(super) address: SocketAddr,
    /// Which release.
    pub(super) version: String,
}

impl Serve {
    /// As its users start it.
    pub(super) fn start(component: &Path) -> anyhow::Result<Self> {
        let version = Command::new("wasmtime")
            .arg("--version")
            .output()
            .context("wasmtime is not installed (cargo install wasmtime-cli --version 48.0.8 --locked)")?;
        let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
        let address = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .context("finding a free port")?;
        let process = Command::new("wasmtime")
            .args(["serve", "--addr", &address.to_string()])
            .arg(component)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting wasmtime serve")?;
        let mut serve = Self { process, address, version };
        serve.wait_until_ready()?;
        Ok(serve)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < READY_WITHIN {
            if let Some(status) = self.process.try_wait()? {
                bail!("wasmtime serve ended with {status}");
            }
            if std::net::TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("wasmtime serve did not listen within {} s", READY_WITHIN.as_secs())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
