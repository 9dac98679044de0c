//! Formats log lines: the time padded to 30 characters, the stream, the text.

use flint_model::{LogLine, LogStream};

/// `2026-01-02T03:04:05.123456000Z stdout: text`. Clients split the line at these columns.
pub(crate) fn log_line(line: &LogLine) -> String {
    let stream = match line.stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    };
    format!("{:<30} {stream}: {}", rfc3339_nanos(line.time_us), line.text)
}

/// A time in µs since the epoch, with 9 fractional digits.
fn rfc3339_nanos(time_us: u64) -> String {
    let (seconds, micros) = (time_us / 1_000_000, time_us % 1_000_000);
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(day);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", micros * 1000)
}

/// Year, month and day of a number of days since 1970-01-01 (H. Hinnant, `civil_from_days`, for days that are not negative).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_columns_that_clients_cut_at() {
        let line = |time_us| LogLine { time_us, stream: LogStream::Stdout, text: "hi".into() };
        assert_eq!(log_line(&line(0)), "1970-01-01T00:00:00.000000000Z stdout: hi");
        assert_eq!(log_line(&line(951_827_696_123_456)), "2000-02-29T12:34:56.123456000Z stdout: hi");
        assert_eq!(log_line(&line(1_798_761_599_999_999)), "2026-12-31T23:59:59.999999000Z stdout: hi");
        let shown = log_line(&LogLine { stream: LogStream::Stderr, ..line(1) });
        assert_eq!(&shown[30..], " stderr: hi");
    }
}
