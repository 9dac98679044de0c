//! Sending a large answer, which has its room only until its client has read it.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;

use crate::{Room, patience_in_all};

/// What is handed out at once. It is copied, because a piece of the whole would keep all of that in memory.
const PIECE: usize = 64 << 10;

/// The body of an answer that holds its room until it is sent, its client is gone, or the client reads too slowly: then the connection ends.
#[derive(Debug)]
pub struct Answer {
    held: Arc<Mutex<Option<Held>>>,
    /// Bytes that were not handed out yet.
    left: usize,
    /// Ends a slow answer: a body whose client does not read is not polled, so it cannot notice by itself.
    clock: AbortHandle,
}

#[derive(Debug)]
struct Held {
    rest: Bytes,
    _room: Room,
}

impl Answer {
    /// Must be called within a Tokio runtime.
    pub fn new(whole: Bytes, room: Room) -> Self {
        let (left, within) = (whole.len(), patience_in_all(whole.len()));
        let held = Arc::new(Mutex::new(Some(Held { rest: whole, _room: room })));
        let late = Arc::clone(&held);
        let clock = tokio::spawn(async move {
            tokio::time::sleep(within).await;
            let _ = take(&late);
        });
        Self { held, left, clock: clock.abort_handle() }
    }
}

fn take(held: &Mutex<Option<Held>>) -> Option<Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(Held { rest, .. }) = held.as_mut() else {
                let late = io::Error::new(io::ErrorKind::TimedOut, "the answer was read too slowly");
                return Poll::Ready(Some(Err(late)));
            };
            let piece = Bytes::copy_from_slice(&rest.split_to(PIECE.min(rest.len())));
            if rest.is_empty() {
                *held = None;
            }
            piece
        };
        self.left -= piece.len();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.clock.abort();
        // The task may have begun to be ended only, and what it shares is large.
        let _ = take(&self.held);
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::{NoRoom, Uploads};

    const SIZE: usize = 3 << 20;

    async fn answer(rooms: &Uploads) -> Result<Answer, NoRoom> {
        let room = rooms.answer("guest", SIZE as u64).await?.unwrap();
        Ok(Answer::new(Bytes::from(vec![b'x'; SIZE]), room))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_its_room_until_it_is_sent_or_its_client_is_gone() {
        let rooms = Uploads::default();
        let (first, second) = (answer(&rooms).await.unwrap(), answer(&rooms).await.unwrap());
        assert_eq!(answer(&rooms).await.unwrap_err(), NoRoom);
        assert_eq!(first.size_hint().exact(), Some(SIZE as u64));
        assert_eq!(first.collect().await.unwrap().to_bytes().len(), SIZE);
        let mut third = answer(&rooms).await.unwrap();
        let piece = third.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((piece.len(), third.size_hint().exact()), (PIECE, Some((SIZE - PIECE) as u64)));
        assert_eq!(answer(&rooms).await.unwrap_err(), NoRoom);
        drop(second);
        let fourth = answer(&rooms).await.unwrap();
        drop(third);
        assert!(answer(&rooms).await.is_ok());
        drop(fourth);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_read_loses_the_room() {
        let rooms = Uploads::default();
        let mut unread = [answer(&rooms).await.unwrap(), answer(&rooms).await.unwrap()];
        assert!(unread[0].frame().await.unwrap().is_ok());
        tokio::time::sleep(crate::WITHIN).await;
        assert!(answer(&rooms).await.is_ok());
        for late in &mut unread {
            assert_eq!(late.frame().await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
    }
}
