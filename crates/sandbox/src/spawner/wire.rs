//! The two messages on a spawner's link, a `SOCK_SEQPACKET` pair: a request with three descriptors, and the
//! end of its program.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use super::REQUEST_MAX;
use crate::outcome::ExitStatus;

const COUNTS: usize = 8;

/// Encodes a request: two counts, then arguments and variables as `execve` takes them, each with its NUL.
pub(crate) fn encode(arguments: &[String], env: &[(String, String)]) -> io::Result<Vec<u8>> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
    let mut bytes = Vec::with_capacity(4096);
    for count in [arguments.len(), env.len()] {
        let count = u32::try_from(count).map_err(|_| invalid("too many strings"))?;
        bytes.extend(count.to_le_bytes());
    }
    for argument in arguments {
        bytes.extend(argument.as_bytes());
        bytes.push(0);
    }
    for (name, value) in env {
        bytes.extend(name.as_bytes());
        bytes.push(b'=');
        bytes.extend(value.as_bytes());
        bytes.push(0);
    }
    if bytes.len() > REQUEST_MAX {
        return Err(invalid(
            "the call's arguments, and variables such as headers, are longer than 256 KB together",
        ));
    }
    if bytes[COUNTS..].iter().filter(|byte| **byte == 0).count() != arguments.len() + env.len() {
        return Err(invalid("an argument or a variable has a NUL byte, which none can have"));
    }
    Ok(bytes)
}

/// A received request: the positions of its C strings in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) arguments: Vec<usize>,
    pub(crate) env: Vec<usize>,
}

impl Request {
    /// `None` if the bytes are not a valid request.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (counts, strings) = bytes.split_at_checked(COUNTS)?;
        let (arguments, env) = counts.split_at_checked(4)?;
        let count = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize);
        let (arguments, env) = (count(arguments)?, count(env)?);
        let mut starts = Vec::with_capacity(strings.len().min(arguments.saturating_add(env)));
        let mut start = COUNTS;
        for string in strings.split_inclusive(|byte| *byte == 0) {
            if string.last() != Some(&0) {
                return None;
            }
            starts.push(start);
            start += string.len();
        }
        if starts.len() != arguments.checked_add(env)? {
            return None;
        }
        let env = starts.split_off(arguments);
        Some(Self { arguments: starts, env })
    }
}

/// Waits for a request; `None` if the server has gone or sent something else.
pub(crate) fn receive(link: BorrowedFd<'_>, buffer: &mut [u8]) -> Option<(Request, [OwnedFd; 3])> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(link, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received.ok()?,
        }
    };
    let mut fds = Vec::with_capacity(3);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return None;
    }
    Some((Request::parse(&buffer[..received.bytes])?, fds.try_into().ok()?))
}

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its exit status, or the errno with which it could not be executed.
    pub(crate) status: Result<ExitStatus, i32>,
    pub(crate) cpu_us: u64,
    pub(crate) memory_peak_bytes: u64,
}

impl Answer {
    pub(crate) const SIZE: usize = 24;

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let value = number(4)?;
        let status = match number(0)? {
            0 => Ok(ExitStatus::Code(value)),
            1 => Ok(ExitStatus::Signal(value)),
            2 => Err(value),
            _ => return None,
        };
        Some(Self { status, cpu_us: long(8)?, memory_peak_bytes: long(16)? })
    }

    fn bytes(&self) -> [u8; Self::SIZE] {
        let (tag, value): (i32, i32) = match self.status {
            Ok(ExitStatus::Code(code)) => (0, code),
            Ok(ExitStatus::Signal(signal)) => (1, signal),
            Ok(ExitStatus::Lost | ExitStatus::Unknown) => (1, libc::SIGKILL),
            Err(errno) => (2, errno),
        };
        let mut bytes = [0; Self::SIZE];
        bytes[..4].copy_from_slice(&tag.to_le_bytes());
        bytes[4..8].copy_from_slice(&value.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.cpu_us.to_le_bytes());
        bytes[16..].copy_from_slice(&self.memory_peak_bytes.to_le_bytes());
        bytes
    }
}

/// Sends the answer; false if the server has gone.
pub(crate) fn answer(link: BorrowedFd<'_>, answer: &Answer) -> bool {
    loop {
        match rustix::io::write(link, &answer.bytes()) {
            Err(rustix::io::Errno::INTR) => {}
            sent => return sent.is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_arrives_as_c_strings() {
        let env = [("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())];
        let bytes = encode(&["x y".to_owned()], &env).unwrap();
        let request = Request::parse(&bytes).unwrap();
        let text =
            |at: &usize| std::ffi::CStr::from_bytes_until_nul(&bytes[*at..]).unwrap().to_str().unwrap();
        assert_eq!(request.arguments.iter().map(text).collect::<Vec<_>>(), ["x y"]);
        assert_eq!(request.env.iter().map(text).collect::<Vec<_>>(), ["A=1", "EMPTY="]);
    }

    #[test]
    fn what_no_program_can_be_given_is_refused() {
        for (arguments, value) in
            [("a\0b".to_owned(), ""), (String::new(), "\0"), ("x".repeat(REQUEST_MAX), "")]
        {
            let error = encode(&[arguments], &[("N".to_owned(), value.to_owned())]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn what_is_no_request_is_none() {
        for bytes in [&b""[..], b"\x01", b"\0\0\0\0", b"\x01\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0abc"] {
            assert_eq!(Request::parse(bytes), None, "{bytes:?}");
        }
        assert_eq!(Request::parse(b"\xff\xff\xff\xff\xff\xff\xff\xffa\0"), None);
        assert!(Request::parse(b"\0\0\0\0\0\0\0\0").is_some());
    }

    #[test]
    fn an_answer_survives_the_link() {
        for status in [Ok(ExitStatus::Code(3)), Ok(ExitStatus::Signal(9)), Err(libc::ENOEXEC)] {
            let answer = Answer { status, cpu_us: 7, memory_peak_bytes: 1 << 40 };
            assert_eq!(Answer::parse(&answer.bytes()), Some(answer));
        }
        assert_eq!(Answer::parse(b"short"), None);
    }
}
