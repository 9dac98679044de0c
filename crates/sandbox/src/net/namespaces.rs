//! Makes network namespaces, keeps some in stock, and opens sockets in them. Only the launcher moves between
//! them, which is single-threaded.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::egress::{Egress, EgressConfig};
use super::loopback;
use crate::descriptors::keep;
use crate::error::Fault;
use crate::spec::Network;
use crate::sys;

/// Most connections that wait to be accepted on a socket that [`Namespaces::listen`] made.
const BACKLOG: i32 = 64;

/// The network of one sandbox.
#[derive(Debug)]
pub(crate) struct SandboxNet {
    pub(crate) namespace: OwnedFd,
    /// The server has, or had, a listening socket in it, so it must not be reused by another sandbox.
    pub(crate) is_listened_in: bool,
    /// Its number among the sandboxes with egress, if it has egress.
    egress: Option<u32>,
    /// Whether egress is open.
    open: bool,
}

/// The launcher's own network namespace and a stock of empty ones.
#[derive(Debug)]
pub(crate) struct Namespaces {
    host: OwnedFd,
    spare: Vec<OwnedFd>,
    stock: usize,
    egress: Egress,
}

impl Namespaces {
    /// `stock`: how many namespaces to keep ready.
    pub(crate) fn new(stock: usize, egress: EgressConfig) -> io::Result<Self> {
        Ok(Self { host: current()?, spare: Vec::new(), stock, egress: Egress::new(egress) })
    }

    /// A network for a new sandbox; egress is closed for now.
    pub(crate) fn take(&mut self, kind: Network) -> Result<SandboxNet, Fault> {
        let namespace = match self.spare.pop() {
            Some(namespace) => namespace,
            None => self.make().map_err(|error| Fault::step("make a network namespace", &error))?,
        };
        let egress = match kind {
            Network::None => None,
            Network::Egress => Some(self.egress.connect(self.host.as_fd(), namespace.as_fd())?),
        };
        Ok(SandboxNet { namespace, is_listened_in: false, egress, open: false })
    }

    /// Opens or closes egress, where there is any.
    pub(crate) fn set_open(&self, net: &mut SandboxNet, open: bool) -> Result<(), Fault> {
        let Some(number) = net.egress.filter(|_| net.open != open) else { return Ok(()) };
        self.egress.set_open(self.host.as_fd(), net.namespace.as_fd(), number, open)?;
        net.open = open;
        Ok(())
    }

    /// Gives up a network whose sandbox has ended.
    pub(crate) fn release(&mut self, net: SandboxNet) {
        if let Some(number) = net.egress {
            self.egress.release(number);
        }
    }

    /// Whether [`Self::look_at_host`] should be called now and then.
    pub(crate) fn watches_host(&self) -> bool {
        self.egress.is_guarded()
    }

    /// Sees whether others want what egress keeps from them by now.
    pub(crate) fn look_at_host(&mut self) {
        self.egress.leave_to_others();
    }

    /// Removes what was changed on the host.
    pub(crate) fn end(&mut self) {
        self.egress.end();
    }

    /// Adds one namespace to the stock if there is room; returns whether there is room for more.
    pub(crate) fn restock(&mut self) -> bool {
        if self.spare.len() >= self.stock {
            return false;
        }
        match self.make() {
            Ok(namespace) => self.spare.push(namespace),
            Err(_) => return false,
        }
        self.spare.len() < self.stock
    }

    fn make(&self) -> io::Result<OwnedFd> {
        sys::unshare(UnshareFlags::NEWNET)?;
        let made = loopback::up().and_then(|()| current());
        sys::enter(self.host.as_fd(), LinkNameSpaceType::Network)?;
        made.map(keep)
    }

    /// A non-blocking socket that listens on `port` of the loopback in a sandbox's network. From then on the
    /// network must not be reused: whoever holds the socket may still hold it when this sandbox has ended.
    pub(crate) fn listen(&self, net: &mut SandboxNet, port: u16) -> io::Result<OwnedFd> {
        net.is_listened_in = true;
        sys::enter(net.namespace.as_fd(), LinkNameSpaceType::Network)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
        sys::enter(self.host.as_fd(), LinkNameSpaceType::Network)?;
        let socket = socket?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    }

    /// A non-blocking socket that is connected or connecting to `port` on the loopback of `namespace`.
    pub(crate) fn connect(&self, namespace: BorrowedFd<'_>, port: u16, v6: bool) -> io::Result<OwnedFd> {
        let (family, address) = if v6 {
            (AddressFamily::INET6, IpAddr::V6(Ipv6Addr::LOCALHOST))
        } else {
            (AddressFamily::INET, IpAddr::V4(Ipv4Addr::LOCALHOST))
        };
        sys::enter(namespace, LinkNameSpaceType::Network)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None);
        // A socket belongs to the network namespace in which it was made.
        sys::enter(self.host.as_fd(), LinkNameSpaceType::Network)?;
        let socket = socket?;
        match connect(&socket, &SocketAddr::new(address, port)) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error.into()),
        }
    }
}

fn current() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/ns/net")?.into())
}
