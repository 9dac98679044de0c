//! Streams answers while their guest goes on.

use std::sync::{Arc, Mutex, PoisonError, atomic::Ordering};

use flint_executor::{BodySender, CallEnd, Invoked, LastWord, body_channel};
use flint_model::NamespaceName;
use flint_runtimes::outcome;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    answer,
    drive::{Metered, Spent},
    exchange::Exchange,
    executor::House,
    fault,
    running::{Running, developer, fault_of, usage, usage_of},
};

/// Answers with the head, and streams the body in a task that is kept in `relaying`, for this namespace.
pub(crate) fn stream(
    house: &Arc<House>,
    relaying: &Mutex<Option<JoinHandle<()>>>,
    whose: NamespaceName,
    running: Running,
    mut exchange: Exchange,
    spent: Spent,
) -> Invoked {
    let head = match exchange.take_head() {
        Some((status, headers)) => match outcome::http(status, headers) {
            Ok(head) => head,
            Err(fault) => return running.done(Err(fault), usage(&spent, None)),
        },
        None => answer::ok("application/octet-stream"),
    };
    let (sender, body) = body_channel();
    let (ended, end) = oneshot::channel();
    let house = Arc::clone(house);
    let task = tokio::spawn(async move {
        let _ = ended.send(relay(&house, &whose, running, exchange, spent, sender).await);
    });
    *relaying.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    Invoked::Streaming { head, body, end }
}

/// Streams the rest of an answer to the end of the call.
async fn relay(
    house: &House,
    whose: &NamespaceName,
    running: Running,
    mut exchange: Exchange,
    before: Spent,
    sender: BodySender,
) -> CallEnd {
    // The body does not end before this is dropped, which a guest that goes on after its answer must not
    // delay.
    let last_word = Arc::new(Mutex::new(Some(LastWord::of(&sender))));
    let (held, streamed) = (Arc::clone(&last_word), Arc::clone(&exchange.streamed));
    let take = |word: &Mutex<Option<LastWord>>| word.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (work, spent) = Metered::new(Box::pin(async move {
        let taken = exchange.relay(sender).await;
        if taken {
            if exchange.answered()
                && let Some(word) = take(&held)
            {
                word.complete();
            }
            exchange.finish().await;
        }
        exchange
    }));
    let driven = house.long.drive(Box::pin(work), &running.pace, whose).await;
    let (cpu, streamed) = (before.so_far() + spent.so_far(), streamed.load(Ordering::Relaxed));
    let (ended, broken) = match driven {
        Ok(exchange) => (exchange.ended, exchange.broken),
        Err(cut) => {
            let fault = fault_of(cut);
            if let Some(word) = take(&last_word) {
                word.broken(&fault);
            }
            return CallEnd { streamed, ..running.end(Some(fault), usage_of(cpu, None)) };
        }
    };
    let Some(ended) = ended else {
        // The caller has gone and the guest was dropped: nobody is left to report a fault to.
        return CallEnd { streamed, ..running.end(None, usage_of(cpu, None)) };
    };
    let usage = usage_of(cpu, Some(ended.memory));
    let fault = match (ended.outcome, broken) {
        (Err(error), _) => {
            let last_words = running.logs.last_error_line();
            Some(running.breach.or(fault::of(&error, ended.starved, last_words)))
        }
        (Ok(()), Some(why)) => Some(running.breach.or(developer(why))),
        (Ok(()), None) => None,
    };
    if let Some(word) = take(&last_word) {
        match &fault {
            Some(fault) => word.broken(fault),
            None => word.complete(),
        }
    }
    CallEnd { streamed, ..running.end(fault, usage) }
}
