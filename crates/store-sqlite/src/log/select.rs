//! Executes queries over many sorted runs: counts, and pages of the merged order.
//!
//! A run is a sorted list with random access: of a finished segment, of the active one, or of pending
//! records. Counts and skips never walk a run but ask for ranks, so that 10 million records cost as much as
//! ten.

use std::{cell::OnceCell, cmp::Reverse, collections::BinaryHeap, fs::File, sync::Arc};

use super::{
    frame::Location,
    key::Key,
    mend::Unreadable,
    pending::Stored,
    sealed::{Sealed, Span},
    sorted::SortedKeys,
};

/// Where a record was found.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// Accepted, not yet durable.
    Pending(Arc<Stored>),
    /// In the active segment, by record number.
    Active(u32),
    /// In a finished segment.
    Sealed(Arc<Sealed>, Location),
}

/// One sorted list.
pub(crate) enum Run<'a> {
    /// Sorted by key.
    Pending(Vec<(Key, Arc<Stored>)>),
    Active(&'a SortedKeys),
    Sealed {
        segment: &'a Arc<Sealed>,
        /// Opened when first needed, which is rare for a count.
        index: OnceCell<File>,
        span: Span,
        named: bool,
    },
}

fn index_of<'a>(segment: &Arc<Sealed>, index: &'a OnceCell<File>) -> Result<&'a File, Unreadable> {
    Ok(match index.get() {
        Some(file) => file,
        None => {
            let file = segment.open_index().map_err(Unreadable::of(segment))?;
            index.get_or_init(|| file)
        }
    })
}

/// An entry of a finished segment's list.
fn sealed_entry(
    segment: &Arc<Sealed>,
    index: &OnceCell<File>,
    span: &Span,
    named: bool,
    at: usize,
) -> Result<(Key, Location), Unreadable> {
    segment.entry(index_of(segment, index)?, span, named, at as u64).map_err(Unreadable::of(segment))
}

impl Run<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Pending(records) => records.len(),
            Self::Active(keys) => keys.len(),
            Self::Sealed { span, .. } => span.count as usize,
        }
    }

    /// The entry at a place below [`Self::len`].
    fn get(&self, at: usize) -> Result<(Key, Found), Unreadable> {
        match self {
            Self::Pending(records) => {
                let (key, record) = &records[at];
                Ok((*key, Found::Pending(Arc::clone(record))))
            }
            Self::Active(keys) => {
                let (key, record) = keys.get(at).expect("a list is as long as it says");
                Ok((key, Found::Active(record)))
            }
            Self::Sealed { segment, index, span, named } => {
                let (key, location) = sealed_entry(segment, index, span, *named, at)?;
                Ok((key, Found::Sealed(Arc::clone(segment), location)))
            }
        }
    }

    fn key(&self, at: usize) -> Result<Key, Unreadable> {
        match self {
            Self::Sealed { segment, index, span, named } => {
                Ok(sealed_entry(segment, index, span, *named, at)?.0)
            }
            _ => Ok(self.get(at)?.0),
        }
    }

    /// The rank of `key`: how many keys are less; known to be within `low..=high`.
    fn rank(&self, key: Key, mut low: usize, mut high: usize) -> Result<usize, Unreadable> {
        match self {
            Self::Active(keys) => Ok(keys.rank(key).clamp(low, high)),
            Self::Sealed { span, .. } if key <= span.least => Ok(low),
            Self::Sealed { span, .. } if key > span.greatest => Ok(high),
            _ => {
                while low < high {
                    let middle = low + (high - low) / 2;
                    if self.key(middle)? < key { low = middle + 1 } else { high = middle }
                }
                Ok(low)
            }
        }
    }
}

/// The part of a run between two keys.
pub(crate) struct Window<'a> {
    run: Run<'a>,
    low: usize,
    high: usize,
    /// The key taken last.
    taken: Option<Key>,
}

impl<'a> Window<'a> {
    /// The keys from `least` up to `end`, excluded.
    pub(crate) fn new(run: Run<'a>, least: Key, end: Option<Key>) -> Result<Self, Unreadable> {
        let low = run.rank(least, 0, run.len())?;
        let high = match end {
            Some(end) => run.rank(end, low, run.len())?,
            None => run.len(),
        };
        Ok(Self { run, low, high, taken: None })
    }

    /// How many keys it has.
    pub(crate) fn len(&self) -> usize {
        self.high - self.low
    }

    /// Its least key. Unless the window cuts off the beginning of its run, this takes no disk access.
    fn least(&self) -> Result<Key, Unreadable> {
        match &self.run {
            Run::Sealed { span, .. } if self.low == 0 => Ok(span.least),
            run => run.key(self.low),
        }
    }

    /// Its greatest key; likewise.
    fn greatest(&self) -> Result<Key, Unreadable> {
        match &self.run {
            Run::Sealed { span, .. } if self.high as u64 == span.count => Ok(span.greatest),
            run => run.key(self.high - 1),
        }
    }

    /// Takes its greatest key.
    fn pop(&mut self) -> Result<Option<(Key, Found)>, Unreadable> {
        if self.len() == 0 {
            return Ok(None);
        }
        self.high -= 1;
        let (key, found) = self.run.get(self.high)?;
        if let Run::Sealed { segment, .. } = &self.run
            && self.taken.replace(key).is_some_and(|taken| taken <= key)
        {
            return Err(Unreadable::of(segment)(segment.unsorted()));
        }
        Ok(Some((key, found)))
    }
}

/// The records at places `skip..skip + limit` of all windows merged, greatest key first.
pub(crate) fn page(
    mut windows: Vec<Window<'_>>,
    skip: usize,
    limit: usize,
) -> Result<Vec<(Key, Found)>, Unreadable> {
    windows.retain(|window| window.len() > 0);
    let total: usize = windows.iter().map(Window::len).sum();
    let Some(below) = total.checked_sub(skip).filter(|below| *below > 0) else { return Ok(Vec::new()) };
    let surplus = if skip == 0 { 0 } else { cut(&mut windows, below)? };
    windows.retain(|window| window.len() > 0); // the cut may have emptied some
    announce(&windows, limit.saturating_add(surplus))?;
    // The greatest key of every window. Its record is fetched only when the window's turn comes: most pages
    // come from one or two windows, and the other indexes are not read.
    let mut heads = BinaryHeap::new();
    for (number, window) in windows.iter().enumerate() {
        heads.push((window.greatest()?, number));
    }
    let mut heads_found: Vec<Option<(Key, Found)>> = Vec::new();
    heads_found.resize_with(windows.len(), || None);
    let mut records = Vec::with_capacity(limit.min(below));
    let mut place = 0;
    while let Some((_, number)) = heads.pop().filter(|_| records.len() < limit) {
        let found = match heads_found[number].take() {
            Some(found) => Some(found),
            None => windows[number].pop()?,
        };
        heads_found[number] = windows[number].pop()?;
        heads.extend(heads_found[number].as_ref().map(|(key, _)| (*key, number)));
        if place >= surplus {
            records.extend(found);
        }
        place += 1;
    }
    Ok(records)
}

/// From this number of segments on, a page of a name reads a little of each index.
const SCATTERED: usize = 4;

/// Asks the kernel to prefetch the parts of indexes that the page of the latest `places` will read, if it
/// reads a little of many: read one after the other, each would wait for the disk.
fn announce(windows: &[Window<'_>], places: usize) -> Result<(), Unreadable> {
    let mut latest_first = Vec::new();
    for window in windows {
        if let Run::Sealed { segment, index, span, named: true } = &window.run {
            latest_first.push((window.greatest()?, window, segment, index, span));
        }
    }
    latest_first.sort_unstable_by_key(|(greatest, ..)| Reverse(*greatest));
    let mut before = 0;
    latest_first.retain(|(_, window, ..)| {
        let reached = before < places;
        before += window.len();
        reached
    });
    if latest_first.len() < SCATTERED {
        return Ok(());
    }
    let read_of =
        |window: &Window<'_>| window.high.saturating_sub(places).max(window.low) as u64..window.high as u64;
    for (_, window, segment, index, span) in &latest_first {
        segment.announce_places(index_of(segment, index)?, span, &read_of(window));
    }
    for (_, window, segment, index, span) in latest_first {
        let announced = segment.announce_entries(index_of(segment, index)?, span, &read_of(window));
        announced.map_err(Unreadable::of(segment))?;
    }
    Ok(())
}

/// A cut need not be exact: this many excess keys are skipped one by one.
const CLOSE: usize = 16;

/// Lowers the upper bound of every window so that together they keep the `below` least keys and few more;
/// returns how many more.
fn cut(windows: &mut [Window<'_>], below: usize) -> Result<usize, Unreadable> {
    let mut search =
        Search { bounds: windows.iter().map(|window| (window.low, window.high)).collect(), windows, below };
    let (mut least, mut greatest) = (u64::MAX, 0);
    for window in search.windows.iter() {
        least = least.min(window.least()?.start);
        greatest = greatest.max(window.greatest()?.start);
    }
    // First the millisecond of the last key to keep, then its id within that.
    let start =
        search.halve(least.into(), greatest.into(), |start| Key::new(start as u64, u128::MAX).next())? as u64;
    search.halve(0, u128::MAX, |id| Key::new(start, id).next())?;
    let Search { bounds, windows, below } = search;
    let mut kept = 0;
    for (window, (_, high)) in windows.iter_mut().zip(bounds) {
        window.high = high;
        kept += window.len();
    }
    Ok(kept - below)
}

/// A binary search for the least value up to which there are at least `below` keys.
struct Search<'w, 'a> {
    windows: &'w mut [Window<'a>],
    /// The range of places that contains each window's cut.
    bounds: Vec<(usize, usize)>,
    below: usize,
}

impl Search<'_, '_> {
    /// Narrows the bounds to the values within `low..=high`; `end` is the first key beyond a value.
    fn halve(
        &mut self,
        mut low: u128,
        mut high: u128,
        end: impl Fn(u128) -> Option<Key>,
    ) -> Result<u128, Unreadable> {
        while low < high && self.bounds.iter().map(|(from, to)| to - from).sum::<usize>() > CLOSE {
            let middle = low + (high - low) / 2;
            let mut ranks = Vec::with_capacity(self.bounds.len());
            let mut count = 0;
            for (window, (from, to)) in self.windows.iter().zip(&self.bounds) {
                let rank = match end(middle) {
                    Some(end) if from < to => window.run.rank(end, *from, *to)?,
                    Some(_) | None => *to,
                };
                count += rank - window.low;
                ranks.push(rank);
            }
            let enough = count >= self.below;
            for (bound, rank) in self.bounds.iter_mut().zip(ranks) {
                if enough { bound.1 = rank } else { bound.0 = rank }
            }
            if enough { high = middle } else { low = middle + 1 }
        }
        Ok(low)
    }
}
