//! The turns of functions at their values, which are in the store beside everything that the server keeps: its
//! own reads and writes, and those of other namespaces, must not wait for one namespace's.

use std::sync::Arc;

use flint_model::NamespaceName;
use flint_shares::{Share, Shares};
use flint_store::StoreError;

/// Most reads at once: of all functions, and of a namespace's.
const READS: (u32, u32) = (16, 4);
/// Most units of writes at once, likewise. What waits when a commit begins is in it, so these bound how long
/// it takes, with 32 MiB or 4,096 keys.
const WRITES: (u32, u32) = (512, 128);
/// So much of a write is one unit.
const BYTES_A_UNIT: usize = 64 << 10;
/// So many of its keys are one, too.
const KEYS_A_UNIT: usize = 8;

/// The reads and writes of values that may be under way. Clones share the limits.
#[derive(Clone)]
pub struct ValueTurns(Arc<Turns>);

struct Turns {
    reads: Shares<NamespaceName>,
    writes: Shares<NamespaceName>,
}

impl Default for ValueTurns {
    fn default() -> Self {
        let shares = |(all, each)| Shares::new(all, each);
        Self(Arc::new(Turns { reads: shares(READS), writes: shares(WRITES) }))
    }
}

impl ValueTurns {
    /// Reads when it is the namespace's turn.
    pub(super) async fn read<T, E>(
        &self,
        namespace: &NamespaceName,
        read: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        to_its_end(self.0.reads.take(namespace, 1).await, read).await
    }

    /// Writes so many keys and bytes when it is the namespace's turn.
    pub(super) async fn write<T, E>(
        &self,
        namespace: &NamespaceName,
        (keys, bytes): (usize, usize),
        write: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        to_its_end(self.0.writes.take(namespace, units(keys, bytes)).await, write).await
    }
}

fn units(keys: usize, bytes: usize) -> u32 {
    u32::try_from(1 + keys / KEYS_A_UNIT + bytes / BYTES_A_UNIT).unwrap_or(u32::MAX)
}

/// Goes on, and keeps its share, when the guest has gone: the store does not stop for that either.
async fn to_its_end<T, E>(
    share: Share,
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let working = tokio::spawn(async move {
        let done = work.await;
        drop(share);
        done
    });
    working.await.unwrap_or_else(|lost| {
        Err(StoreError::Failed { operation: "using values", detail: lost.to_string() }.into())
    })
}

#[cfg(test)]
mod tests {
    use std::{future::pending, time::Duration};

    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    #[tokio::test]
    async fn who_gives_up_does_not_get_another_turn_before_the_store_has_ended() {
        let turns = ValueTurns::default();
        let [greedy, other] = ["greedy", "other"].map(|name| name.parse::<NamespaceName>().unwrap());
        let brief = Duration::from_millis(5);
        let mut ends = Vec::new();
        for _ in 0..READS.1 {
            let (end, ended) = oneshot::channel::<()>();
            let read = async move { Ok::<_, StoreError>(ended.await.is_ok()) };
            assert!(timeout(brief, turns.read(&greedy, read)).await.is_err());
            ends.push(end);
        }
        let nothing = || async { Ok::<_, StoreError>(()) };
        assert!(timeout(brief, turns.read(&greedy, nothing())).await.is_err());
        turns.read(&other, nothing()).await.unwrap();
        turns.write(&greedy, (1, 1), nothing()).await.unwrap();
        drop(ends);
        turns.read(&greedy, nothing()).await.unwrap();
    }

    #[tokio::test]
    async fn large_writes_are_fewer_at_once() {
        let begun = async |keys: usize, bytes: usize| {
            let turns = ValueTurns::default();
            let guest = "guest".parse().unwrap();
            let (brief, mut begun) = (Duration::from_millis(5), 0);
            loop {
                let (begins, has_begun) = oneshot::channel::<()>();
                let write = async move {
                    let _ = begins.send(());
                    pending::<Result<(), StoreError>>().await
                };
                let _ = timeout(brief, turns.write(&guest, (keys, bytes), write)).await;
                match has_begun.await {
                    Ok(()) => begun += 1,
                    Err(_) => return begun,
                }
            }
        };
        assert_eq!(begun(1, 100).await, 128);
        assert_eq!(begun(1, 1 << 20).await, 7);
        assert_eq!(begun(1000, 1000).await, 1);
        // The largest is more than a namespace's share, and has all of it.
        assert_eq!(begun(8, 8 << 20).await, 1);
    }
}
