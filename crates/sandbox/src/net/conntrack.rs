//! Deletes connection tracking entries by source address. The kernel keeps an entry after its sandbox has
//! ended, and would go on to deliver the remote side's packets to the next sandbox with that address.
//! Implements as much of ctnetlink (`include/uapi/linux/netfilter/nfnetlink_conntrack.h`) as that needs.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use super::netlink::attribute;

/// `NFNL_SUBSYS_CTNETLINK` in the upper byte, the message type in the lower.
const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_ZONE: u16 = 18;
const CTA_TUPLE_IP: u16 = 1;
const CTA_IP_V4_SRC: u16 = 1;
const NESTED: u16 = 0x8000;
/// The upper two bits of an attribute's type are flags.
const KIND: u16 = 0x3fff;

/// The length of `struct nlmsghdr`; `struct nfgenmsg` ([`FAMILY`]) follows.
const HEADER: usize = 16;
const FAMILY: usize = 4;

/// Deletes the entries of IPv4 connections whose source address satisfies `by`, in the calling thread's
/// network namespace.
pub(super) fn forget(by: impl Fn(Ipv4Addr) -> bool) -> io::Result<()> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::NETFILTER))?;
    for connection in connections(&socket, by)? {
        match delete(&socket, &connection) {
            // It has expired meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            other => other?,
        }
    }
    Ok(())
}

/// The attributes that identify each matching entry.
fn connections(socket: &OwnedFd, by: impl Fn(Ipv4Addr) -> bool) -> io::Result<Vec<Vec<u8>>> {
    send(socket, &message(GET, libc::NLM_F_DUMP as u16, &[]), SendFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (length, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length];
        while let Some((kind, body, next)) = first_message(rest) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(found),
                libc::NLMSG_ERROR => return Err(error_of(body)),
                _ => found.extend(body.get(FAMILY..).and_then(|body| name_of(body, &by))),
            }
            rest = next;
        }
    }
}

fn delete(socket: &OwnedFd, connection: &[u8]) -> io::Result<()> {
    send(socket, &message(DELETE, libc::NLM_F_ACK as u16, connection), SendFlags::empty())?;
    let mut answer = [0u8; 4096];
    let (length, _) = recv(socket, &mut answer[..], RecvFlags::empty())?;
    let (_, body, _) = first_message(&answer[..length]).ok_or(io::ErrorKind::InvalidData)?;
    match error_of(body) {
        // Error number 0 is an acknowledgement.
        error if error.raw_os_error() == Some(0) => Ok(()),
        error => Err(error),
    }
}

/// The attributes that identify this entry, if its source address matches.
fn name_of(connection: &[u8], by: impl Fn(Ipv4Addr) -> bool) -> Option<Vec<u8>> {
    let tuple = value(connection, CTA_TUPLE_ORIG)?;
    let source: [u8; 4] = value(value(tuple, CTA_TUPLE_IP)?, CTA_IP_V4_SRC)?.try_into().ok()?;
    if !by(source.into()) {
        return None;
    }
    let mut name = Vec::with_capacity(tuple.len() + 16);
    attribute(&mut name, CTA_TUPLE_ORIG | NESTED, tuple);
    if let Some(zone) = value(connection, CTA_ZONE) {
        attribute(&mut name, CTA_ZONE, zone);
    }
    Some(name)
}

/// A request about IPv4.
fn message(kind: u16, flags: u16, attributes: &[u8]) -> Vec<u8> {
    let length = HEADER + FAMILY + attributes.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend([libc::AF_INET as u8, 0, 0, 0]);
    message.extend(attributes);
    message
}

/// Splits off the first message: its type, its body and the rest.
fn first_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (kind, _) = rest.split_first_chunk::<2>()?;
    let length = u32::from_ne_bytes(*length) as usize;
    let body = bytes.get(HEADER..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16::from_ne_bytes(*kind), body, next))
}

fn error_of(body: &[u8]) -> io::Error {
    match body.split_first_chunk::<4>() {
        Some((number, _)) => io::Error::from_raw_os_error(-i32::from_ne_bytes(*number)),
        None => io::ErrorKind::InvalidData.into(),
    }
}

/// The value of the first attribute of this type.
fn value(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (&[a, b, c, d], _) = attributes.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([c, d]) & KIND == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_named_by_its_tuple_and_zone_if_it_was_made_by_such_an_address() {
        let mut addresses = Vec::new();
        attribute(&mut addresses, CTA_IP_V4_SRC, &[198, 18, 16, 7]);
        attribute(&mut addresses, 2, &[203, 0, 113, 1]);
        let mut tuple = Vec::new();
        attribute(&mut tuple, CTA_TUPLE_IP | NESTED, &addresses);
        let mut connection = Vec::new();
        // Its status attribute, ahead of the rest.
        attribute(&mut connection, 3, &[0, 0, 1, 0x9a]);
        attribute(&mut connection, CTA_TUPLE_ORIG | NESTED, &tuple);
        attribute(&mut connection, CTA_ZONE, &[0, 5]);
        let ours = |address: Ipv4Addr| address == Ipv4Addr::new(198, 18, 16, 7);
        let name = name_of(&connection, ours).unwrap();
        assert_eq!(value(&name, CTA_TUPLE_ORIG), Some(&tuple[..]));
        assert_eq!(value(&name, CTA_ZONE), Some(&[0, 5][..]));
        assert_eq!(name_of(&connection, |address| !ours(address)), None);
        for end in 0..connection.len() {
            let _ = name_of(&connection[..end], ours);
        }
    }

    #[test]
    fn messages_that_come_together_are_taken_apart() {
        let (one, other) = (message(GET, 0, &[]), message(DELETE, 0, &[1, 2, 3, 4]));
        let both = [&one[..], &other[..]].concat();
        let (kind, body, rest) = first_message(&both).unwrap();
        assert_eq!((kind, body.len()), (GET, FAMILY));
        let (kind, body, rest) = first_message(rest).unwrap();
        assert_eq!((kind, &body[FAMILY..], rest.len()), (DELETE, &[1, 2, 3, 4][..], 0));
        assert!(first_message(rest).is_none() && first_message(&both[..10]).is_none());
    }
}
