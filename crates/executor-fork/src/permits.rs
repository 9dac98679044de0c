//! Permits to make zygotes that no call waits for: so many at once, of which those of one namespace get at most
//! half, at least one, so that one with hundreds to make holds up no other. What a zygote loads and is warmed
//! up with takes as long as the function's code likes: after [`LONGEST`] it goes on beside those whose turn
//! comes then, and counts for its own namespace only.

use std::{future::Future, pin::pin, time::Duration};

use flint_model::NamespaceName;
use flint_shares::Shares;

/// How long one holds up others.
const LONGEST: Duration = Duration::from_secs(30);

pub(crate) struct Permits(Shares<NamespaceName>);

impl Permits {
    pub(crate) fn new(most: usize) -> Self {
        Self(Shares::halves(most))
    }

    /// Makes something when it is the namespace's turn.
    pub(crate) async fn make<T>(&self, namespace: &NamespaceName, making: impl Future<Output = T>) -> T {
        let share = self.0.take(namespace, 1).await;
        let mut making = pin!(making);
        tokio::select! {
            made = making.as_mut() => return made,
            () = tokio::time::sleep(LONGEST) => drop(share.all),
        }
        making.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Makes something that takes that long; the names of what is made are noted as it is finished.
    fn making(
        permits: &Arc<Permits>,
        made: &Arc<Mutex<Vec<&'static str>>>,
        name: &'static str,
        takes: Duration,
    ) -> tokio::task::JoinHandle<()> {
        let (permits, made) = (Arc::clone(permits), Arc::clone(made));
        tokio::spawn(async move {
            let namespace = NamespaceName::parse(&name[..1]).unwrap();
            permits.make(&namespace, tokio::time::sleep(takes)).await;
            made.lock().unwrap().push(name);
        })
    }

    async fn order(permits: usize, all: &[(&'static str, Duration)]) -> Vec<&'static str> {
        let (permits, made) = (Arc::new(Permits::new(permits)), Arc::default());
        let mut tasks = Vec::new();
        for (name, takes) in all {
            tasks.push(making(&permits, &made, name, *takes));
            tokio::task::yield_now().await;
        }
        for task in tasks {
            task.await.unwrap();
        }
        let made = made.lock().unwrap();
        made.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn one_with_many_to_make_holds_up_nobody_else() {
        let second = Duration::from_secs(1);
        let all = ["a1", "a2", "a3", "a4", "b1", "c1"].map(|name| (name, second));
        assert_eq!(order(1, &all).await, ["a1", "b1", "c1", "a2", "a3", "a4"]);
        // Half of two is for others, whatever one namespace has to make.
        let slow = [("a1", LONGEST / 2), ("a2", second), ("b1", second), ("b2", second), ("c1", second)];
        assert_eq!(order(2, &slow).await, ["b1", "c1", "b2", "a1", "a2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_very_long_goes_on_beside_others_and_holds_up_its_own_namespace() {
        let second = Duration::from_secs(1);
        let all = [("a1", LONGEST * 100), ("a2", second), ("b1", second)];
        assert_eq!(order(1, &all).await, ["b1", "a1", "a2"]);
    }
}
