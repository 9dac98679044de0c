//! Decides which finished segments expire.

use flint_model::Timestamp;

use crate::Retention;

/// A segment's properties that matter to retention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Its latest start, in ms since the epoch.
    pub(crate) newest: u64,
    /// Its size on disk.
    pub(crate) bytes: u64,
}

/// For each finished segment, oldest first, whether it expires. `writing` is the size of the active one.
pub(crate) fn expired(finished: &[Extent], writing: u64, now: Timestamp, retention: &Retention) -> Vec<bool> {
    let oldest = retention.max_age.map_or(0, |age| now.as_millis().saturating_sub(age.as_millis() as u64));
    let most = retention.max_bytes.map_or(u64::MAX, |bytes| bytes.as_u64());
    let mut gone: Vec<bool> = finished.iter().map(|extent| extent.newest < oldest).collect();
    let mut total = writing;
    // From the newest down: once the bound is reached, everything older expires too.
    for (extent, gone) in finished.iter().zip(&mut gone).rev() {
        if !*gone {
            total = total.saturating_add(extent.bytes);
            *gone = total > most;
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flint_model::ByteSize;

    use super::*;

    #[test]
    fn the_old_go_by_age_and_the_oldest_by_size() {
        let extents = [10, 20, 30].map(|newest| Extent { newest: newest * 1000, bytes: 100 });
        let now = Timestamp::from_millis(35_000);
        let after = |age: Option<u64>, bytes: Option<u64>| {
            let retention =
                Retention { max_age: age.map(Duration::from_secs), max_bytes: bytes.map(ByteSize::bytes) };
            expired(&extents, 50, now, &retention)
        };
        assert_eq!(after(None, None), [false, false, false]);
        assert_eq!(after(Some(20), None), [true, false, false]);
        assert_eq!(after(None, Some(250)), [true, false, false]);
        assert_eq!(after(None, Some(150)), [true, true, false]);
        assert_eq!(after(None, Some(0)), [true, true, true]);
        assert_eq!(after(Some(1), Some(0)), [true, true, true]);
    }
}
