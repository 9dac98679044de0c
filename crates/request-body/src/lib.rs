//! Reading a request's body, whole or piece by piece, within bounds of size, time and memory, and bounding how many large bodies and large answers there
//! are at once: what all fronts have in common.

#![forbid(unsafe_code)]

mod answer;
mod arriving;
mod pieces;
mod uploads;

use std::{error::Error, time::Duration};

pub use answer::Answer;
use arriving::FREE;
pub use arriving::{Arrival, Arriving};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, LengthLimitError, Limited};
pub use pieces::{Pieces, hand_on};
use tokio::time::{Instant, timeout, timeout_at};
pub use uploads::{NoRoom, Room, Uploads};

/// How long a body may take to arrive, and a large answer to be read, beside a second for each [`LEAST`] bytes: a stalled client must not hold its
/// room for long.
const GRACE: Duration = Duration::from_secs(20);
/// Bytes a second that a client has to keep up with on average.
const LEAST: u32 = 64 << 10;
/// How long a body that is collected whole may take in all.
const WITHIN: Duration = Duration::from_secs(120);

/// How much of a body that is too large is read before it is refused, and how long that may take.
const DISCARDED: u64 = 64 * 1024 * 1024;
const DISCARDED_WITHIN: Duration = Duration::from_secs(10);

/// Why a body could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Unread {
    /// It is too large.
    #[error("the request's body has {size} bytes or more")]
    TooLarge {
        /// What it was said to have, or else the least that it has.
        size: u64,
    },
    /// It did not arrive in time.
    #[error(
        "the request's body came too slowly: it has {} seconds, and one more for each {} KiB, at most {}",
        GRACE.as_secs(),
        LEAST >> 10,
        WITHIN.as_secs()
    )]
    Late,
    /// There is no room for it among those that arrive.
    #[error(
        "too many requests with large bodies are arriving, at this server or for this namespace: send it again later"
    )]
    NoRoom,
    /// The connection ended first, or what came is not HTTP.
    #[error("the request's body ended early: {0}")]
    Broken(String),
}

impl Unread {
    /// After how many seconds to try again, where that makes sense.
    pub fn retry_after(&self) -> Option<u32> {
        (*self == Self::NoRoom).then_some(NoRoom::RETRY_AFTER)
    }
}

/// All of a body, if it has at most `limit` bytes, and room. Without an `arrival` it has room by other means: one of [`Uploads`], or an operator who
/// sends it.
pub async fn read<B>(mut body: B, limit: u64, arrival: Option<Arrival<'_>>) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let said = body.size_hint().lower();
    if said > limit {
        discard(body).await;
        return Err(Unread::TooLarge { size: said });
    }
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    match collect(Limited::new(&mut body, most), arrival).await {
        Ok(Ok(whole)) => Ok(whole),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            discard(body).await;
            Err(Unread::TooLarge { size: limit.saturating_add(1) })
        }
        Ok(Err(error)) => Err(Unread::Broken(error.to_string())),
        Err(unread) => {
            if unread == Unread::NoRoom {
                discard(body).await;
            }
            Err(unread)
        }
    }
}

/// How long `length` bytes may take.
fn patience(length: u64) -> Duration {
    GRACE + Duration::from_secs(1).mul_f64(length as f64 / f64::from(LEAST))
}

/// The pace of a body that is handed on piece by piece. Only the time spent waiting for its sender counts, not for whoever takes the pieces.
#[derive(Debug, Default)]
struct Pace {
    came: u64,
    waited: Duration,
}

impl Pace {
    /// The next part of the body; [`Unread::Late`] when its sender has used up its time.
    async fn frame<B>(&mut self, body: &mut B) -> Result<Option<Result<Frame<Bytes>, B::Error>>, Unread>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let began = Instant::now();
        let left = patience(self.came).saturating_sub(self.waited);
        let frame = timeout(left, body.frame()).await.map_err(|_| Unread::Late)?;
        self.waited += began.elapsed();
        if let Some(Ok(frame)) = &frame {
            self.came += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(frame)
    }
}

/// Collects a body; fails when it comes too slowly, or finds no room.
async fn collect<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
    mut arrival: Option<Arrival<'_>>,
) -> Result<Result<Bytes, B::Error>, Unread> {
    let mut may_have = |bytes| {
        let may = arrival.as_mut().is_none_or(|arrival| arrival.may_have(bytes));
        may.then_some(()).ok_or(Unread::NoRoom)
    };
    let began = Instant::now();
    let most = body.size_hint().upper().and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let (mut first, mut all) = (Bytes::new(), BytesMut::new());
    loop {
        let length = first.len().max(all.len());
        let frame =
            timeout_at(began + patience_in_all(length), body.frame()).await.map_err(|_| Unread::Late)?;
        let data = match frame {
            None => break,
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return Ok(Err(error)),
        };
        // Most bodies are of one piece.
        if length == 0 {
            if !body.is_end_stream() {
                may_have(data.len())?;
            }
            first = data;
            continue;
        }
        let needed = length + data.len();
        if needed > all.capacity() {
            let capacity = capacity(needed, most);
            may_have(capacity)?;
            let mut larger = BytesMut::with_capacity(capacity);
            larger.extend_from_slice(if all.is_empty() { &first } else { &all });
            (first, all) = (Bytes::new(), larger);
        }
        all.extend_from_slice(&data);
    }
    Ok(Ok(if all.is_empty() { first } else { all.freeze() }))
}

/// The same of a body that somebody holds whole.
fn patience_in_all(length: usize) -> Duration {
    patience(length as u64).min(WITHIN)
}

/// The memory for a body that needs so much now, and at most `most` in the end: twice as much, unless less is free or enough.
fn capacity(needed: usize, most: usize) -> usize {
    let twice = needed.saturating_mul(2);
    let ahead = if needed <= FREE { twice.min(FREE) } else { twice };
    ahead.min(most).max(needed)
}

/// Reads the rest of a body and discards it: a client that is still writing would not see its answer. Within bounds; the connection of a client
/// that sends more is closed.
async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let reading = async {
        let mut left = DISCARDED;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // Late or not, this is enough.
    let _ = timeout(DISCARDED_WITHIN, reading).await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{FutureExt, Stream, StreamExt, stream};
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn pieces(
        pieces: impl Stream<Item = Result<Bytes, std::io::Error>> + Unpin,
    ) -> impl Body<Data = Bytes, Error = std::io::Error> + Unpin {
        StreamBody::new(pieces.map(|piece| piece.map(Frame::data)))
    }

    fn letters(count: usize) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Unpin {
        stream::iter((0..count).map(|_| Ok(Bytes::from_static(b"x"))))
    }

    async fn all_of<B>(body: B, limit: u64) -> Result<Bytes, Unread>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        read(body, limit, None).await
    }

    #[tokio::test]
    async fn a_body_is_read_whole_or_refused_with_its_size() {
        let full = |length: usize| Full::new(Bytes::from(vec![b'x'; length]));
        assert_eq!(all_of(full(5), 5).await.unwrap().len(), 5);
        assert_eq!(all_of(full(9), 5).await, Err(Unread::TooLarge { size: 9 }), "as it was said");
        assert_eq!(all_of(pieces(letters(5)), 5).await.unwrap().len(), 5);
        assert_eq!(
            all_of(pieces(letters(9)), 5).await,
            Err(Unread::TooLarge { size: 6 }),
            "as far as it was read"
        );
        let nothing = StreamBody::new(stream::empty::<Result<Frame<Bytes>, Infallible>>());
        assert_eq!(all_of(nothing, 0).await, Ok(Bytes::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_stops_in_the_middle_is_not_waited_for() {
        let stops = || pieces(letters(3).chain(stream::pending()));
        assert_eq!(all_of(stops(), 5).await, Err(Unread::Late));
        // The refusal comes also when the rest of what is too large does not.
        assert_eq!(all_of(stops(), 2).await, Err(Unread::TooLarge { size: 3 }));
        // So many KiB a second for a minute.
        let at = |kib: u64| {
            let piece = Bytes::from(vec![b'x'; 10 << 10]);
            Box::pin(stream::iter(0..60 * kib / 10).then(move |_| {
                let piece = piece.clone();
                async move {
                    tokio::time::sleep(Duration::from_secs(10) / kib as u32).await;
                    Ok(piece)
                }
            }))
        };
        assert_eq!(all_of(pieces(at(30)), 1 << 30).await, Err(Unread::Late));
        assert_eq!(all_of(pieces(at(100)), 1 << 30).await.unwrap().len(), 6000 << 10);
        let breaks = letters(1).chain(stream::iter([Err(std::io::Error::other("reset"))]));
        assert_eq!(all_of(pieces(breaks), 5).await, Err(Unread::Broken("reset".to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn who_stalls_many_bodies_leaves_room_to_others() {
        const KB: usize = 1 << 10;
        let arriving = Arriving::new(1 << 20);
        let stalls = |kb: usize| {
            let come = stream::iter((0..kb).map(|_| Ok(Bytes::from(vec![b'x'; KB]))));
            pieces(come.chain(stream::pending()))
        };
        let reading = |namespace, kb| Box::pin(read(stalls(kb), 1 << 20, Some(arriving.arrival(namespace))));
        let mut held: Vec<_> = (0..10).map(|_| reading("a", 64)).collect();
        for body in &mut held {
            assert_eq!(body.now_or_never(), None);
        }
        let refused = reading("a", 64).await;
        assert_eq!(refused, Err(Unread::NoRoom));
        assert_eq!(refused.unwrap_err().retry_after(), Some(5));
        let comes = |length: usize| {
            let come = (0..length / KB).map(|_| Ok(Bytes::from(vec![b'x'; KB])));
            pieces(stream::iter(come.collect::<Vec<_>>()))
        };
        for (namespace, length) in [("b", 64 * KB), ("a", FREE)] {
            let whole = read(comes(length), 1 << 20, Some(arriving.arrival(namespace))).await;
            assert_eq!(whole.unwrap().len(), length);
        }
        drop(held);
        let whole = read(comes(512 * KB), 1 << 20, Some(arriving.arrival("a"))).await;
        assert_eq!(whole.unwrap().len(), 512 * KB);
    }

    #[tokio::test(start_paused = true)]
    async fn of_what_is_handed_on_only_its_sender_can_be_late() {
        let mut body = pieces(letters(3).chain(stream::pending()));
        let mut pace = Pace::default();
        for _ in 0..3 {
            assert!(pace.frame(&mut body).await.unwrap().unwrap().is_ok());
            // Whoever takes it does so slowly.
            tokio::time::sleep(WITHIN).await;
        }
        assert_eq!(pace.frame(&mut body).await.unwrap_err(), Unread::Late);
        // Small pieces now and then, each of them in time.
        let drops = stream::repeat(()).then(|()| async {
            tokio::time::sleep(GRACE / 3).await;
            Ok(Bytes::from_static(b"x"))
        });
        let mut body = pieces(Box::pin(drops));
        let mut pace = Pace::default();
        for _ in 0..2 {
            assert!(pace.frame(&mut body).await.unwrap().unwrap().is_ok());
        }
        let late = async { while pace.frame(&mut body).await.is_ok() {} };
        late.await;
    }
}
