//! What a cell costs: making one, admitting a forked process to it, ending it, in microseconds; with LIVING, beside so many forked processes.
//!
//! ```text
//! cargo run --release -p flint-sandbox --example fork_cost -- HELPER [RUNS [LIVING]]
//! ```
//! `HELPER` is `flint-sandbox-test-helper`, built with the tests; it is launcher and zygote.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use flint_sandbox::{
    CellSpec, Launcher, LauncherConfig, Mount, ResourceLimits, Sandbox, SandboxIo, SandboxSpec, SealSpec,
};
use hdrhistogram::Histogram;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair, sockopt,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let helper = std::env::args().nth(1).ok_or("usage: fork_cost HELPER [RUNS [LIVING]]")?;
    let helper = std::fs::canonicalize(helper)?;
    let runs: usize = std::env::args().nth(2).map_or(Ok(1000), |text| text.parse())?;
    let living: usize = std::env::args().nth(3).map_or(Ok(0), |text| text.parse())?;
    let directory = tempfile::tempdir()?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut config = LauncherConfig::new(directory.path(), "forkcost");
        config.exe = Some(helper.clone());
        let launcher = Launcher::spawn(config).await?;
        let mut spec =
            SandboxSpec::new("zygote", ["/function/helper", "zygote", "honest"].map(str::to_owned).to_vec());
        spec.mounts.push(Mount { source: helper, target: "/function/helper".into(), readonly: true });
        spec.cwd = "/function".into();
        spec.zygote = true;
        spec.recycle_key = Some("bench".into());
        let (link, theirs) = pair()?;
        let io = SandboxIo { stdin: None, stdout: null()?, stderr: null()?, link: Some(theirs) };
        let zygote = launcher.start(&spec, io).await?;
        hear(&link)?;
        zygote.seal(&SealSpec::default()).await?;
        let mut others = Vec::with_capacity(living);
        for _ in 0..living {
            others.push(fork(&zygote, &link).await?);
        }
        measure(&zygote, &link, runs, living).await?;
        launcher.shutdown().await;
        Ok(())
    })
}

/// A forked process in a cell of its own, our ends of its link and of its output, and how long each step took.
async fn fork(zygote: &Sandbox, link: &OwnedFd) -> Result<(Sandbox, [OwnedFd; 2], [Duration; 3]), Failure> {
    let spec = CellSpec { id: "clone".into(), limits: ResourceLimits::default(), tmp_bytes: 16 << 20 };
    let began = Instant::now();
    let cell = zygote.cell(&spec).await?;
    let made = Instant::now();
    let (ours, theirs) = pair()?;
    let (output, writer) = std::io::pipe()?;
    cell.expect().await?;
    let fds = [theirs.as_fd(), writer.as_fd(), writer.as_fd(), cell.tmp()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(link, &[std::io::IoSlice::new(b"clone")], &mut control, SendFlags::NOSIGNAL)?;
    let pid = hear(&ours)?;
    let forked = Instant::now();
    let clone = cell.admit(pid).await?;
    Ok((clone, [ours, output.into()], [made - began, forked - made, forked.elapsed()]))
}

async fn measure(zygote: &Sandbox, link: &OwnedFd, runs: usize, living: usize) -> Result<(), Failure> {
    let names = ["cell", "fork until hello", "admit", "of it in the launcher", "end"];
    let mut figures: Vec<Histogram<u64>> = Vec::new();
    for _ in names {
        figures.push(Histogram::new(3)?);
    }
    for run in 0..runs + 50 {
        let (clone, _ours, [cell, forked, admitted]) = fork(zygote, link).await?;
        let began = Instant::now();
        clone.kill();
        clone.wait().await;
        let times = [cell, forked, admitted, Duration::from_micros(clone.setup_us()), began.elapsed()];
        if run >= 50 {
            for (figures, time) in figures.iter_mut().zip(times) {
                figures.record(time.as_micros() as u64)?;
            }
        }
    }
    println!("one at a time beside {living}, {runs} runs, microseconds:");
    for (name, figures) in names.iter().zip(figures) {
        println!(
            "  {name:22} min {:5}  p50 {:5}  p90 {:5}  p99 {:5}",
            figures.min(),
            figures.value_at_quantile(0.5),
            figures.value_at_quantile(0.9),
            figures.value_at_quantile(0.99)
        );
    }
    Ok(())
}

fn null() -> std::io::Result<OwnedFd> {
    Ok(std::fs::OpenOptions::new().write(true).open("/dev/null")?.into())
}

fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_passcred(&ours, true)?;
    Ok((ours, theirs))
}

/// One message's sender.
fn hear(link: &OwnedFd) -> Result<u32, Failure> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0u8; 64];
    recvmsg(link, &mut [std::io::IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty())?;
    let pid = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_nonzero().get() as u32),
        _ => None,
    });
    Ok(pid.ok_or("no credentials")?)
}
