//! As much of rtnetlink as a veth pair needs (rtnetlink(7), veth(4)).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;

const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;

const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;

/// A routing socket in the network namespace in which it was made.
pub(super) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub(super) fn new() -> io::Result<Self> {
        // Protocol 0 is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket })
    }

    /// Makes a veth pair: `name` here, `peer` in the namespace `there`.
    pub(super) fn add_pair(&self, name: &str, peer: &str, there: BorrowedFd<'_>) -> io::Result<()> {
        let mut far_end = interface(0, 0);
        attribute(&mut far_end, IFLA_IFNAME, &string(peer));
        attribute(&mut far_end, IFLA_NET_NS_FD, &there.as_raw_fd().to_ne_bytes());
        let mut data = Vec::new();
        attribute(&mut data, VETH_PEER, &far_end);
        let mut info = Vec::new();
        attribute(&mut info, INFO_KIND, b"veth");
        attribute(&mut info, INFO_DATA, &data);
        let mut body = interface(0, 0);
        attribute(&mut body, IFLA_IFNAME, &string(name));
        attribute(&mut body, IFLA_LINKINFO, &info);
        self.request(RTM_NEWLINK, CREATE, &body)
    }

    pub(super) fn set_up(&self, index: u32) -> io::Result<()> {
        self.request(RTM_NEWLINK, 0, &interface(index, libc::IFF_UP as u32))
    }

    pub(super) fn delete(&self, index: u32) -> io::Result<()> {
        self.request(RTM_DELLINK, 0, &interface(index, 0))
    }

    /// Gives an interface the address `local` with the peer address `peer`, which also adds a route to the
    /// peer.
    pub(super) fn add_address(&self, index: u32, local: Ipv4Addr, peer: Ipv4Addr) -> io::Result<()> {
        // struct ifaddrmsg: family, prefix length, flags, scope, index.
        let mut body = vec![libc::AF_INET as u8, 32, 0, 0];
        body.extend(index.to_ne_bytes());
        attribute(&mut body, IFA_LOCAL, &local.octets());
        attribute(&mut body, IFA_ADDRESS, &peer.octets());
        self.request(RTM_NEWADDR, CREATE, &body)
    }

    /// Adds a default route to `gateway` through an interface.
    pub(super) fn add_default_route(&self, index: u32, gateway: Ipv4Addr) -> io::Result<()> {
        self.request(RTM_NEWROUTE, CREATE, &default_route(index, gateway))
    }

    /// Removes that route.
    pub(super) fn remove_default_route(&self, index: u32, gateway: Ipv4Addr) -> io::Result<()> {
        self.request(RTM_DELROUTE, 0, &default_route(index, gateway))
    }

    fn request(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let length = 16 + body.len() as u32;
        let mut message = Vec::with_capacity(length as usize);
        // struct nlmsghdr: length, type, flags, sequence number, port.
        message.extend(length.to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((flags | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut answer = [0u8; 4096];
        let (length, _) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
        // An acknowledgement is an error message with error number 0.
        match answer[..length].get(16..20) {
            Some(&[a, b, c, d]) => match i32::from_ne_bytes([a, b, c, d]) {
                0 => Ok(()),
                negative => Err(io::Error::from_raw_os_error(-negative)),
            },
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// struct ifinfomsg: family, padding, type, index, flags, mask of flags to change.
fn interface(index: u32, up: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend(up.to_ne_bytes());
    body.extend(up.to_ne_bytes());
    body
}

/// struct rtmsg: family, dst length, src length, tos, table (main), protocol (static), scope (universe), type (unicast), flags.
fn default_route(index: u32, gateway: Ipv4Addr) -> Vec<u8> {
    let mut body = vec![libc::AF_INET as u8, 0, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    attribute(&mut body, RTA_DST, &[0; 4]);
    attribute(&mut body, RTA_GATEWAY, &gateway.octets());
    attribute(&mut body, RTA_OIF, &index.to_ne_bytes());
    body
}

/// struct rtattr: length, type; the value padded to four bytes.
pub(super) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

fn string(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// Index of the interface `name` in the calling thread's network namespace.
pub(super) fn index_of(name: &str) -> io::Result<u32> {
    Ok(rustix::net::netdevice::name_to_index(
        rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?,
        name,
    )?)
}

/// Names of all interfaces in the calling thread's network namespace.
pub(super) fn names() -> io::Result<Vec<String>> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    Ok(table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect())
}
