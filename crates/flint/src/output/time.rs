//! Formats times and sizes for people.

use flint_model::Timestamp;

/// µs as `812 µs`, `12.3 ms` or `4.56 s`.
pub(crate) fn human_duration(us: u64) -> String {
    let value = us as f64;
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{:.2} ms", value / 1e3),
        10_000..1_000_000 => format!("{:.1} ms", value / 1e3),
        _ => format!("{:.2} s", value / 1e6),
    }
}

/// Bytes as `12 B`, `3.4 KB`, `56 MB`.
pub(crate) fn human_size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for larger in ["KB", "MB", "GB", "TB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    match value < 10.0 && unit != "B" {
        true => format!("{value:.1} {unit}"),
        false => format!("{value:.0} {unit}"),
    }
}

/// Milliseconds since 1970 as `3 s ago`.
pub(crate) fn ago(millis: u64) -> String {
    let seconds = Timestamp::now().as_millis().saturating_sub(millis) / 1000;
    match seconds {
        0..1 => "now".to_owned(),
        1..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// Milliseconds since 1970 as `2026-08-05T12:34:56.789Z`.
pub(crate) fn clock(millis: u64) -> String {
    let (days, within) = (millis / 86_400_000, millis % 86_400_000);
    // Days since 1970 to a date: H. Hinnant, https://howardhinnant.github.io/date_algorithms.html#civil_from_days
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (seconds, ms) = (within / 1000, within % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_read_well() {
        assert_eq!(
            [812, 1_234, 12_340, 4_560_000].map(human_duration),
            ["812 µs", "1.23 ms", "12.3 ms", "4.56 s"]
        );
        assert_eq!([12, 3_482, 58_720_256].map(human_size), ["12 B", "3.4 KB", "56 MB"]);
        assert_eq!(clock(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(clock(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(clock(1_785_933_296_789), "2026-08-05T12:34:56.789Z");
    }
}
