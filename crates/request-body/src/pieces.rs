//! Bodies piece by piece: a request's for whoever takes it as it comes, an answer's as somebody writes it.

use std::{
    fmt::Display,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::mpsc;

use crate::{Pace, Unread, discard};

/// An answer's body that somebody writes. An error in it breaks the connection, which is how HTTP/1 says that an answer is not complete.
#[derive(Debug)]
pub struct Pieces<E>(pub mpsc::Receiver<Result<Bytes, E>>);

impl<E> Body for Pieces<E> {
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// Hands a request's body on, as fast as it is taken. Where it has more than `limit` bytes, comes too slowly or breaks off, what `failed` makes of that is the
/// last that is handed on. `whole` is called when all of it has come, before the last piece is handed on.
///
/// Ends with the body, with the connection that it comes from, or soon after the taker.
pub async fn hand_on<B, E>(
    mut body: B,
    limit: u64,
    taker: mpsc::Sender<Result<Bytes, E>>,
    failed: impl Fn(Unread) -> E,
    whole: impl Fn(),
) where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let (mut came, mut pace) = (0_u64, Pace::default());
    loop {
        let frame = tokio::select! {
            frame = pace.frame(&mut body) => frame,
            () = taker.closed() => return discard(body).await,
        };
        let piece = match frame {
            Ok(None) => return whole(),
            Ok(Some(Ok(frame))) => frame.into_data(),
            Ok(Some(Err(error))) => {
                let _ = taker.send(Err(failed(Unread::Broken(error.to_string())))).await;
                return;
            }
            Err(late) => {
                let _ = taker.send(Err(failed(late))).await;
                return discard(body).await;
            }
        };
        // Trailers are nobody's.
        let Ok(piece) = piece else { continue };
        came += piece.len() as u64;
        if body.is_end_stream() {
            whole();
        }
        let too_large = came > limit;
        let handed = if too_large { Err(failed(Unread::TooLarge { size: came })) } else { Ok(piece) };
        if taker.send(handed).await.is_err() || too_large {
            return discard(body).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::atomic::{AtomicBool, Ordering},
    };

    use futures_util::{StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    /// What is handed on of pieces that come, and whether they came whole.
    async fn handed_on(
        comes: Vec<Result<&'static str, io::Error>>,
        stalls: bool,
        limit: u64,
    ) -> (Vec<Result<Bytes, Unread>>, bool) {
        let frames = comes.into_iter().map(|piece| piece.map(|text| Frame::data(Bytes::from(text))));
        let frames = stream::iter(frames.collect::<Vec<_>>());
        let body = match stalls {
            true => StreamBody::new(frames.chain(stream::pending()).boxed()),
            false => StreamBody::new(frames.boxed()),
        };
        let (sender, mut receiver) = mpsc::channel(1);
        let whole = AtomicBool::new(false);
        let handing_on =
            hand_on(body, limit, sender, |unread| unread, || whole.store(true, Ordering::Relaxed));
        let taking = async {
            let mut taken = Vec::new();
            while let Some(piece) = receiver.recv().await {
                taken.push(piece);
            }
            taken
        };
        let ((), taken) = tokio::join!(handing_on, taking);
        (taken, whole.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_handed_on_and_why_it_is_not_whole() {
        let piece = |text: &'static str| Ok(Bytes::from(text));
        assert_eq!(
            handed_on(vec![Ok("ab"), Ok("cd")], false, 4).await,
            (vec![piece("ab"), piece("cd")], true)
        );
        assert_eq!(handed_on(vec![], false, 0).await, (vec![], true));
        let (taken, whole) = handed_on(vec![Ok("ab"), Ok("cd"), Ok("ef")], false, 3).await;
        assert_eq!((taken, whole), (vec![piece("ab"), Err(Unread::TooLarge { size: 4 })], false));
        assert_eq!(handed_on(vec![Ok("ab")], true, 9).await, (vec![piece("ab"), Err(Unread::Late)], false));
        let breaks = vec![Ok("ab"), Err(io::Error::other("reset"))];
        assert_eq!(
            handed_on(breaks, false, 9).await,
            (vec![piece("ab"), Err(Unread::Broken("reset".to_owned()))], false)
        );
    }

    #[tokio::test]
    async fn what_nobody_takes_is_read_and_forgotten() {
        let (sender, receiver) = mpsc::channel(1);
        drop(receiver);
        let body = StreamBody::new(stream::iter(
            (0..100).map(|_| Ok::<_, io::Error>(Frame::data(Bytes::from("x")))),
        ));
        hand_on(body, 1000, sender, |unread| unread, || ()).await;
    }

    #[tokio::test]
    async fn an_answer_ends_as_its_writer_says() {
        let (sender, receiver) = mpsc::channel(4);
        for piece in [Ok("ab"), Ok("c"), Err("broken")] {
            sender.send(piece.map(Bytes::from)).await.unwrap();
        }
        let mut body = Pieces(receiver);
        let data = |frame: Frame<Bytes>| frame.into_data().unwrap();
        assert_eq!(body.frame().await.map(|frame| frame.map(data)), Some(Ok(Bytes::from("ab"))));
        assert_eq!(body.frame().await.map(|frame| frame.map(data)), Some(Ok(Bytes::from("c"))));
        assert_eq!(body.frame().await.map(|frame| frame.map(data)), Some(Err("broken")));
        drop(sender);
        assert!(body.frame().await.is_none());
    }
}
