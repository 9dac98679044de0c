//! Starts one sandbox: gathers its parts, clones its pid 1, and goes on with other work while pid 1 sets
//! itself up.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};

use super::{Launcher, Live, OOM, PIDFD, REPORTS, Slot};
use crate::cgroup::{Controller, moves};
use crate::descriptors::{self, keep};
use crate::error::Fault;
use crate::inside::{FIRST_FREE, Job, init};
use crate::inspect::Zygote;
use crate::root::{RootKind, Template};
use crate::spec::{Mount, SandboxSpec};
use crate::state::State;
use crate::sys::{self, Forked};
use crate::wire::{self, Descriptors, Event, Request};

/// Clones are in their zygote's cgroup until they are admitted to a cell: so many more processes it may hold.
const FORKS_UNDER_WAY: u32 = 256;

/// The descriptors that pid 1 takes with it when it leaves the launcher's descriptor table. They must stay
/// open until it has left, which its first report tells, or its end.
pub(super) struct Lent {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    link: Option<OwnedFd>,
    report: OwnedFd,
    users: OwnedFd,
    mounts: Vec<OwnedFd>,
    tmp: Option<OwnedFd>,
}

impl Lent {
    /// Whether pid 1 takes all of these descriptors with it.
    fn survives_leaving(&self) -> bool {
        [&self.stdin, &self.stdout, &self.stderr, &self.report, &self.users]
            .into_iter()
            .chain(&self.link)
            .chain(&self.mounts)
            .chain(&self.tmp)
            .all(descriptors::survives_leaving)
    }
}

/// The newly cloned pid 1 of a sandbox.
struct Cloned {
    pid: u32,
    pidfd: OwnedFd,
    reports: OwnedFd,
    /// `None` if it started with a descriptor table of its own.
    lent: Option<Lent>,
}

impl Launcher {
    /// Starts a sandbox. `stdin`, `link`: whether these are among the descriptors.
    pub(super) fn start(
        &mut self,
        sid: u64,
        spec: &SandboxSpec,
        [stdin, link]: [bool; 2],
        listen: Option<u16>,
        fds: Descriptors,
    ) {
        let began = Instant::now();
        let Ok(fds) = fds else {
            let fault = Fault::out_of_descriptors("the sandbox launcher");
            return self.tell(&Event::Failed { sid, fault }, &[]);
        };
        let mut fds = fds.into_iter();
        let mut next = |wanted: bool| if wanted { fds.next() } else { None };
        let (stdin, stdout, stderr, link) = (next(stdin), next(true), next(true), next(link));
        let result = match (stdout, stderr) {
            (Some(stdout), Some(stderr)) => {
                self.launch(sid, spec, began, listen, [stdin, Some(stdout), Some(stderr), link])
            }
            _ => Err(Fault::Invalid { what: "stdout and stderr did not arrive".into() }),
        };
        if let Err(fault) = result {
            self.tell(&Event::Failed { sid, fault }, &[]);
        }
    }

    /// Starts a sandbox whose request came in a memfd.
    pub(super) fn start_aside(&mut self, sid: u64, length: usize, fds: Descriptors) {
        let Ok(mut fds) = fds else {
            let fault = Fault::out_of_descriptors("the sandbox launcher");
            return self.tell(&Event::Failed { sid, fault }, &[]);
        };
        let invalid = |error: &dyn std::fmt::Display| Fault::Invalid {
            what: format!("the request that was laid aside cannot be read: {error}"),
        };
        let bytes = match fds.is_empty() {
            true => Err(invalid(&"it did not arrive")),
            false => wire::take_up(fds.remove(0), length).map_err(|error| invalid(&error)),
        };
        let request = bytes
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|bytes| serde_json::from_slice::<Request<'_>>(bytes).map_err(|error| invalid(&error)));
        match request {
            Ok(Request::Start { spec, stdin, link, listen, .. }) => {
                self.start(sid, &spec, [stdin, link], listen, Ok(fds))
            }
            Ok(_) => self.tell(&Event::Failed { sid, fault: invalid(&"it is another one") }, &[]),
            Err(fault) => self.tell(&Event::Failed { sid, fault }, &[]),
        }
    }

    fn launch(
        &mut self,
        sid: u64,
        spec: &SandboxSpec,
        began: Instant,
        listen: Option<u16>,
        io: [Option<OwnedFd>; 4],
    ) -> Result<(), Fault> {
        let mounts = self.open_mounts(spec)?;
        if spec.zygote && self.config.favor_cgroup_moves {
            // Tried once only. If it fails, admissions are slow, which `flint doctor` reports.
            self.config.favor_cgroup_moves = false;
            let _ = moves::make_cheap();
        }
        let tmp = if spec.zygote { Some(own_tmp(spec.tmp_bytes)?) } else { None };
        let zygote = tmp.as_ref().map(|(_, device)| Zygote::new(*device));
        let tmp = tmp.map(|(tmp, _)| tmp);
        let mut slot = self
            .slots
            .take(spec.recycle_key.as_deref(), spec.network)
            .map_err(|error| Fault::step("make a user namespace", &error))?;
        // Bound before anything runs inside that could take the port.
        let made = self
            .listen_before(&mut slot, spec, listen)
            .and_then(|listener| Ok((listener, self.clone_init(&mut slot, spec, mounts, tmp, io)?)));
        match made {
            Ok((listener, Cloned { pid, pidfd, reports, lent })) => {
                let oom = slot.leaf.as_ref().and_then(|leaf| leaf.oom_event());
                for (fd, kind) in [(Some(pidfd.as_fd()), PIDFD), (Some(reports.as_fd()), REPORTS), (oom, OOM)]
                {
                    if let Some(fd) = fd {
                        let _ =
                            epoll::add(&self.epoll, fd, EventData::new_u64(sid * 4 + kind), EventFlags::IN);
                    }
                }
                let live = Live {
                    pidfd,
                    reports,
                    slot,
                    lent,
                    began,
                    setup_us: 0,
                    running: false,
                    listener,
                    fault: None,
                    status: None,
                    oom: false,
                    pid,
                    kind: RootKind::of(spec),
                    key: spec.recycle_key.clone(),
                    background: spec.background,
                    zygote,
                };
                self.live.insert(sid, live);
                self.starting.push_back(sid);
                Ok(())
            }
            Err(fault) => {
                self.discard(slot);
                Err(fault)
            }
        }
    }

    /// Listens on a port of the new sandbox's loopback, if that is asked for.
    fn listen_before(
        &mut self,
        slot: &mut Slot,
        spec: &SandboxSpec,
        port: Option<u16>,
    ) -> Result<Option<OwnedFd>, Fault> {
        let Some(port) = port else { return Ok(None) };
        let net = match &mut slot.net {
            Some(net) => net,
            none => none.insert(self.networks.take(spec.network)?),
        };
        let listener = self.networks.listen(net, port);
        listener.map(Some).map_err(|error| Fault::step(format!("listen on port {port} inside"), &error))
    }

    /// Clones pid 1 of the sandbox.
    fn clone_init(
        &mut self,
        slot: &mut Slot,
        spec: &SandboxSpec,
        mounts: Vec<OwnedFd>,
        tmp: Option<OwnedFd>,
        [stdin, stdout, stderr, link]: [Option<OwnedFd>; 4],
    ) -> Result<Cloned, Fault> {
        let at = |step: &'static str| move |error: rustix::io::Errno| Fault::step(step, &error.into());
        if let (None, Some(tree)) = (&slot.leaf, &self.tree) {
            let name = self.leaves.to_string();
            self.leaves += 1;
            slot.leaf = Some(tree.leaf(&name).map_err(|error| Fault::step("create a cgroup", &error))?);
        }
        // The sandbox's own pid 1 counts as well.
        let extra = match spec {
            SandboxSpec { zygote: true, .. } => 1 + FORKS_UNDER_WAY,
            SandboxSpec { spawner: true, .. } => 2,
            _ => 1,
        };
        if let Some(leaf) = &mut slot.leaf {
            leaf.begin(&spec.limits, extra)
                .map_err(|error| Fault::step("set the limits of the cgroup", &error))?;
        }
        if slot.net.is_none() {
            slot.net = Some(self.networks.take(spec.network)?);
        }
        if let Some(net) = &mut slot.net {
            self.networks.set_open(net, !spec.network_closed)?;
        }
        let (Some(stdout), Some(stderr), Some(net)) = (stdout, stderr, &slot.net) else {
            return Err(Fault::Invalid { what: "stdout and stderr did not arrive".into() });
        };
        let stdin = match stdin {
            Some(stdin) => stdin,
            None => rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(at("open /dev/null"))?,
        };
        let (reports, report) = pipe_with(PipeFlags::CLOEXEC).map_err(at("create a pipe"))?;
        rustix::io::ioctl_fionbio(&reports, true).map_err(at("make a pipe non-blocking"))?;
        let reports = keep(reports);
        let template = self.templates.get(&RootKind::of(spec)).ok_or(Fault::Ended)?;
        let users = fcntl_dupfd_cloexec(&slot.users, FIRST_FREE).map_err(at("copy a user namespace"))?;
        let lent = Lent { stdin, stdout, stderr, link, report, users, mounts, tmp };
        // With so many starts under way that these descriptors reach the range of long-lived ones, pid 1 gets
        // a copy of the whole table.
        let in_launchers_table = lent.survives_leaving();
        let lacks = |controller| self.tree.as_ref().is_none_or(|tree| tree.place(controller).is_none());
        let job = Job {
            spec,
            in_launchers_table,
            leaf: slot.leaf.as_ref(),
            template: template.namespace(),
            network: net.namespace.as_fd(),
            users: lent.users.as_fd(),
            init_uid: self.slots.init_uid(slot),
            stdin: lent.stdin.as_fd(),
            stdout: lent.stdout.as_fd(),
            stderr: lent.stderr.as_fd(),
            link: lent.link.as_ref().map(AsFd::as_fd),
            report: lent.report.as_fd(),
            mounts: &lent.mounts,
            tmp: lent.tmp.as_ref().map(AsFd::as_fd),
            limit_by_uid: lacks(Controller::Pids),
            limit_data: lacks(Controller::Memory),
        };
        let group = slot.leaf.as_ref().and_then(|leaf| leaf.clone_into());
        let table = if in_launchers_table { libc::CLONE_FILES } else { 0 };
        // SAFETY: the launcher is single-threaded.
        match unsafe { sys::clone3(libc::CLONE_NEWPID | table, group) } {
            Ok(Forked::Child) => init::run(&job),
            Ok(Forked::Parent { pid, pidfd }) => Ok(Cloned {
                pid: pid as u32,
                pidfd: keep(pidfd),
                reports,
                lent: in_launchers_table.then_some(lent),
            }),
            Err(error) => Err(Fault::step("clone", &error)),
        }
    }

    /// Detached copies of the caller's mounts, whose targets now exist in the root.
    fn open_mounts(&mut self, spec: &SandboxSpec) -> Result<Vec<OwnedFd>, Fault> {
        let kind = RootKind::of(spec);
        if !self.templates.contains_key(&kind) {
            let place = State::root_place(&self.state, kind);
            let template = Template::build(&place, kind, &self.config.dns, self.rootless)
                .map_err(|error| Fault::step("build the root file system", &error))?;
            self.templates.insert(kind, template);
        }
        let template = self.templates.get_mut(&kind).ok_or(Fault::Ended)?;
        spec.mounts.iter().map(|mount| open_mount(template, mount)).collect()
    }
}

/// A tmpfs without a mount point, and its device number.
pub(super) fn own_tmp(bytes: u64) -> Result<(OwnedFd, u64), Fault> {
    let make = || {
        let tmp = crate::fresh::tmpfs(bytes)?;
        let device = rustix::fs::fstat(&tmp)?.st_dev;
        Ok((tmp, device))
    };
    make().map_err(|error| Fault::step("make a tmpfs", &error))
}

/// A detached copy of `mount`'s source with the requested restrictions. Its target exists afterwards.
pub(super) fn open_mount(template: &mut Template, mount: &Mount) -> Result<OwnedFd, Fault> {
    if !mount.source.is_absolute() {
        return Err(Fault::Invalid {
            what: format!("mount source {} is not absolute", mount.source.display()),
        });
    }
    let attributes = sys::NOSUID | sys::NODEV | if mount.readonly { sys::RDONLY } else { 0 };
    let step =
        |error: std::io::Error| Fault::step(format!("open {} to mount it", mount.source.display()), &error);
    let tree = sys::detached_copy(&mount.source, attributes).map_err(step)?;
    let stat = rustix::fs::fstat(&tree).map_err(|error| step(error.into()))?;
    let directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    template.prepare_target(&mount.target, directory)?;
    Ok(tree)
}
