//! The lower bound: a runtime shim driven directly over its socket, without sandbox, HTTP or any of Flint.

use std::{
    os::fd::{AsRawFd as _, OwnedFd},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use flint_executor::link::{Decoder, Frame, FrameKind, Init, InvokeHead, encode_headed, split_headed};
use flint_lab::{Arm, ArmError, Connection};
use rustix::{
    io::{FdFlags, fcntl_setfd},
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

/// A shim to start, and the call to make.
pub(super) struct ShimArm {
    /// The program and its arguments.
    argv: Vec<String>,
    /// The function's code.
    code: PathBuf,
    /// The arguments of each call.
    arguments: Bytes,
    /// Verifies a call's result.
    check: Check,
    /// The started shims, killed with the arm.
    processes: Mutex<Vec<Child>>,
}

/// Verifies a result.
pub(super) type Check = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

struct ShimConnection {
    link: UnixStream,
    decoder: Decoder,
    out: BytesMut,
    arguments: Bytes,
    check: Check,
}

fn wrong(error: impl std::fmt::Display) -> ArmError {
    ArmError::WrongAnswer(error.to_string())
}

#[async_trait]
impl Arm for ShimArm {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        // The shim inherits its end. Ours is not inherited: the link closes when this process ends, however
        // that happens, and the shim ends with it.
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(std::io::Error::from)?;
        fcntl_setfd(&theirs, FdFlags::empty()).map_err(std::io::Error::from)?;
        let (program, arguments) = self.argv.split_first().ok_or_else(|| wrong("no program"))?;
        let process = Command::new(program)
            .args(arguments)
            .env("FLINT_LINK_FD", theirs.as_raw_fd().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        drop(theirs);
        // Killed when the arm is dropped; a poisoned lock still has the list.
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).push(process);
        let mut connection = ShimConnection {
            link: stream(ours)?,
            decoder: Decoder::default(),
            out: BytesMut::new(),
            arguments: self.arguments.clone(),
            check: Arc::clone(&self.check),
        };
        connection.initialise(&self.code.to_string_lossy()).await?;
        Ok(Box::new(connection))
    }
}

impl ShimArm {
    /// A shim that is started on connection.
    pub(super) fn new(argv: Vec<String>, code: PathBuf, arguments: Bytes, check: Check) -> Self {
        Self { argv, code, arguments, check, processes: Mutex::default() }
    }

    /// The processes that were started.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Child::id).collect()
    }
}

impl Drop for ShimArm {
    fn drop(&mut self) {
        for process in self.processes.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // Both fail only if it has ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn stream(socket: OwnedFd) -> Result<UnixStream, ArmError> {
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    Ok(UnixStream::from_std(socket)?)
}

impl ShimConnection {
    async fn initialise(&mut self, code: &str) -> Result<(), ArmError> {
        self.expect(FrameKind::Hello).await?;
        let init = Init {
            code,
            main: Some("main"),
            env: serde_json::Map::new(),
            namespace: "bench",
            name: "hello",
            version: "0.0.1",
            concurrency: None,
        };
        let payload = serde_json::to_vec(&init).map_err(wrong)?;
        Frame::new(FrameKind::Init, 0, payload).encode(&mut self.out);
        self.send().await?;
        self.expect(FrameKind::Ready).await.map(drop)
    }

    async fn send(&mut self) -> Result<(), ArmError> {
        self.link.write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    async fn expect(&mut self, kind: FrameKind) -> Result<Bytes, ArmError> {
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(wrong)? {
                if frame.kind != kind {
                    let said = String::from_utf8_lossy(&frame.payload).into_owned();
                    return Err(wrong(format!(
                        "{} instead of {}: {said}",
                        frame.kind.as_str(),
                        kind.as_str()
                    )));
                }
                return Ok(frame.payload);
            }
            if self.link.read_buf(self.decoder.buffer()).await? == 0 {
                return Err(ArmError::Broken(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

#[async_trait]
impl Connection for ShimConnection {
    async fn call(&mut self) -> Result<(), ArmError> {
        let head = InvokeHead {
            activation: "0192e4b0f5a97c3d8e1f2a3b4c5d6e7f",
            deadline: u64::MAX >> 11,
            method: None,
            path: None,
            query: None,
            headers: Vec::new(),
            transaction: None,
            api_key: None,
            api_host: None,
            warmup: false,
        };
        encode_headed(&mut self.out, FrameKind::Invoke, true, 1, Some(&head), &self.arguments)
            .map_err(wrong)?;
        self.send().await?;
        let payload = self.expect(FrameKind::Result).await?;
        let (_, body) = split_headed(FrameKind::Result, payload).map_err(wrong)?;
        if !(self.check)(&body) {
            return Err(wrong(String::from_utf8_lossy(&body)));
        }
        Ok(())
    }
}
