//! The reports of a sandbox's pid 1 to the launcher: small records in a pipe, each written at once.

use std::io;
use std::os::fd::BorrowedFd;

use crate::error::Fault;
use crate::outcome::ExitStatus;

/// One record.
#[derive(Debug, Clone)]
pub(crate) enum Report {
    /// The payload's program has been executed (unless a fault came before).
    Running,
    /// Set-up failed.
    Fault(Fault),
    /// The main process has ended.
    Ended(ExitStatus),
}

/// Writes one record: tag, length, content. Writes to a pipe below 4 KiB (PIPE_BUF) are atomic.
pub(crate) fn write(pipe: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    let (tag, mut body) = match report {
        Report::Running => (b'R', Vec::new()),
        Report::Fault(fault) => (b'F', serde_json::to_vec(fault)?),
        Report::Ended(ExitStatus::Code(code)) => (b'C', code.to_le_bytes().to_vec()),
        Report::Ended(ExitStatus::Signal(signal)) => (b'S', signal.to_le_bytes().to_vec()),
        Report::Ended(ExitStatus::Lost | ExitStatus::Unknown) => (b'S', libc::SIGKILL.to_le_bytes().to_vec()),
    };
    body.truncate(2048);
    let mut bytes = vec![tag];
    bytes.extend((body.len() as u16).to_le_bytes());
    bytes.extend(body);
    rustix::io::write(pipe, &bytes)?;
    Ok(())
}

/// Splits received bytes into records; drops an incomplete or malformed remainder.
pub(crate) fn parse(mut bytes: &[u8]) -> Vec<Report> {
    let mut reports = Vec::new();
    while let [tag, low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let Some((body, next)) = rest.split_at_checked(length) else { break };
        bytes = next;
        let number = || body.try_into().map(i32::from_le_bytes).unwrap_or(-1);
        reports.push(match tag {
            b'R' => Report::Running,
            b'C' => Report::Ended(ExitStatus::Code(number())),
            b'S' => Report::Ended(ExitStatus::Signal(number())),
            b'F' => Report::Fault(serde_json::from_slice(body).unwrap_or_else(|_| Fault::Step {
                step: "set up (the report of the cause was cut short)".into(),
                errno: libc::EIO,
            })),
            _ => break,
        });
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn records_survive_the_pipe() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let fault = Fault::Step { step: "mount /function".into(), errno: 2 };
        for report in [Report::Fault(fault), Report::Running, Report::Ended(ExitStatus::Signal(11))] {
            write(writer.as_fd(), &report).unwrap();
        }
        let mut bytes = [0; 4096];
        let length = rustix::io::read(reader, &mut bytes).unwrap();
        let reports = parse(&bytes[..length]);
        assert!(
            matches!(&reports[0], Report::Fault(Fault::Step { step, errno: 2 }) if step == "mount /function")
        );
        assert!(matches!(reports[1], Report::Running));
        assert!(matches!(reports[2], Report::Ended(ExitStatus::Signal(11))));
        assert!(parse(&bytes[..2]).is_empty());
    }
}
