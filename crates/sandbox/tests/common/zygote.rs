//! A sandbox whose main process forks on request, and what it forks.

use std::io::{IoSlice, IoSliceMut, PipeReader};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

use flint_sandbox::{
    Cell, CellSpec, Error, ResourceLimits, Result, Sandbox, SandboxIo, SandboxSpec, SealSpec,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

use super::Host;

/// The main process and our end of its link.
pub struct Zygote {
    pub sandbox: Sandbox,
    pub link: OwnedFd,
    /// What it and its clones say: nobody reads it, but as long as somebody could, it can be said.
    outputs: Mutex<Vec<PipeReader>>,
}

/// A forked process and our end of its link.
pub struct Clone {
    pub sandbox: Sandbox,
    pub link: OwnedFd,
    pub pid: u32,
}

pub fn spec(mode: &str) -> SandboxSpec {
    let mut spec = super::helper(&["zygote", mode]);
    spec.zygote = true;
    spec.cwd = "/function".into();
    spec.recycle_key = Some("tenant".into());
    spec
}

pub fn cell_spec() -> CellSpec {
    let limits = ResourceLimits { memory_bytes: 64 << 20, processes: 16, ..ResourceLimits::default() };
    CellSpec { id: "clone".into(), limits, tmp_bytes: 4 << 20 }
}

fn pair() -> (OwnedFd, OwnedFd) {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_passcred(&ours, true).unwrap();
    (ours, theirs)
}

impl Zygote {
    /// Starts it, and waits until it is ready to be sealed.
    pub async fn start(host: &Host, spec: &SandboxSpec) -> Self {
        let (ours, theirs) = pair();
        let (output, writer) = std::io::pipe().unwrap();
        let io = SandboxIo {
            stdin: None,
            stdout: writer.try_clone().unwrap().into(),
            stderr: writer.into(),
            link: Some(theirs),
        };
        let sandbox = host.launcher.start(spec, io).await.unwrap();
        let zygote = Self { sandbox, link: ours, outputs: Mutex::new(Vec::new()) };
        let ready = hear(&zygote.link).await;
        if ready.0 != "ready" {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut &output, &mut text).unwrap();
            panic!("the zygote says {ready:?}: {text}");
        }
        zygote.outputs.lock().unwrap().push(output);
        zygote
    }

    pub async fn sealed(host: &Host, mode: &str) -> Self {
        let zygote = Self::start(host, &spec(mode)).await;
        zygote.sandbox.seal(&SealSpec::default()).await.unwrap();
        zygote
    }

    /// Has it fork for this cell; gives the clone's process id (or another's that says so) and its link.
    pub async fn fork(&self, cell: &Cell) -> (u32, OwnedFd) {
        let (ours, theirs) = pair();
        cell.expect().await.unwrap();
        // A pipe, as clones have it: its zygote may hold it a little longer than the clone takes to say hello.
        let (output, writer) = std::io::pipe().unwrap();
        self.outputs.lock().unwrap().push(output);
        let fds = [theirs.as_fd(), writer.as_fd(), writer.as_fd(), cell.tmp()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&self.link, &[IoSlice::new(b"clone")], &mut control, SendFlags::NOSIGNAL).unwrap();
        drop((theirs, writer));
        let (text, pid) = hear(&ours).await;
        assert_eq!(text, "hello");
        (pid.unwrap(), ours)
    }

    pub async fn spawn_with(&self, spec: &CellSpec) -> Result<Clone> {
        let cell = self.sandbox.cell(spec).await?;
        let (pid, link) = self.fork(&cell).await;
        let sandbox = cell.admit(pid).await?;
        Ok(Clone { sandbox, link, pid })
    }

    pub async fn spawn(&self) -> Result<Clone> {
        self.spawn_with(&cell_spec()).await
    }

    /// What is found when it is to be sealed.
    pub async fn reasons(host: &Host, mode: &str) -> String {
        let zygote = Self::start(host, &spec(mode)).await;
        match zygote.sandbox.seal(&SealSpec::default()).await {
            Err(Error::NotForkable { reasons, .. }) => reasons.join("\n"),
            other => panic!("{mode}: {other:?}"),
        }
    }
}

impl Clone {
    /// Tells it to do something; gives its answer.
    pub async fn ask(&self, command: &str) -> String {
        self.tell(command);
        hear(&self.link).await.0
    }

    pub fn tell(&self, command: &str) {
        let mut control = SendAncillaryBuffer::default();
        sendmsg(&self.link, &[IoSlice::new(command.as_bytes())], &mut control, SendFlags::NOSIGNAL).unwrap();
    }
}

/// One message and its sender's process id; an empty one at the end.
pub async fn hear(link: &OwnedFd) -> (String, Option<u32>) {
    let link = link.try_clone().unwrap();
    tokio::task::spawn_blocking(move || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0u8; 4096];
        let received = recvmsg(&link, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty());
        let length = received.map_or(0, |received| received.bytes);
        let pid = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero().get() as u32),
            _ => None,
        });
        (String::from_utf8_lossy(&bytes[..length]).into_owned(), pid)
    })
    .await
    .unwrap()
}
