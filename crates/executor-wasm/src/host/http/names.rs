//! Looks up the addresses of names, each on a thread of its own.
//!
//! The system's resolver holds its thread until it has an answer: with a nameserver that gives none, for half
//! a minute. The server's threads for blocking work are for files and the store, and must not wait with it.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    thread,
};

use flint_model::NamespaceName;
use flint_shares::Shares;
use tokio::sync::oneshot;

/// Most lookups at once...
const ALL: u32 = 64;
/// ...and of one namespace, whose nameserver may be the one that gives no answer.
const EACH: u32 = 8;

type Resolver = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// The lookups that are under way.
pub(super) struct Names {
    shares: Shares<NamespaceName>,
    resolver: Resolver,
}

impl Names {
    pub(super) fn new() -> Self {
        Self::by(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
    }

    fn by(resolver: Resolver) -> Self {
        Self { shares: Shares::new(ALL, EACH), resolver }
    }

    /// The addresses of a host. Waits for its turn, and then for the answer.
    pub(super) async fn look_up(
        &self,
        namespace: &NamespaceName,
        host: &str,
        port: u16,
    ) -> io::Result<Vec<SocketAddr>> {
        let share = self.shares.take(namespace, 1).await;
        let (answer, answered) = oneshot::channel();
        let (host, resolver) = (host.to_owned(), self.resolver);
        thread::Builder::new().name("flint-names".to_owned()).spawn(move || {
            // The thread goes on when its caller has given up.
            let _share = share;
            let _ = answer.send(resolver(&host, port));
        })?;
        answered.await.unwrap_or_else(|_| Err(io::Error::other("the resolver panicked")))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            OnceLock,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

    use futures_util::future::join_all;
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn a_nameserver_that_is_silent_holds_up_its_namespace_and_nobody_else() {
        static ANSWER: OnceLock<()> = OnceLock::new();
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let names = Names::by(|host, port| {
            if host == "silent" {
                ASKED.fetch_add(1, Ordering::SeqCst);
                ANSWER.wait();
            }
            Ok(vec![([192, 0, 2, 1], port).into()])
        });
        let [guest, other] = ["guest", "other"].map(|name| name.parse::<NamespaceName>().unwrap());
        let brief = Duration::from_millis(50);
        // Giving up frees no thread, so it frees no place either.
        for _ in 0..2 {
            let lookups = (0..2 * EACH).map(|_| timeout(brief, names.look_up(&guest, "silent", 80)));
            assert!(join_all(lookups).await.iter().all(Result::is_err));
        }
        // A thread may begin long after it was made.
        let all_ask = async {
            while ASKED.load(Ordering::SeqCst) < EACH {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(60), all_ask).await.expect("as many ask as may");
        assert!(timeout(brief, names.look_up(&guest, "quick", 80)).await.is_err());
        assert_eq!(ASKED.load(Ordering::SeqCst), EACH);
        let found = names.look_up(&other, "quick", 443).await.unwrap();
        assert_eq!(found, ["192.0.2.1:443".parse().unwrap()]);
        // Blocking work goes on meanwhile, on however few threads.
        assert_eq!(tokio::task::spawn_blocking(|| 1).await.unwrap(), 1);
        ANSWER.set(()).unwrap();
        assert!(names.look_up(&guest, "quick", 80).await.is_ok());
    }

    #[tokio::test]
    async fn the_systems_resolver_is_asked() {
        let guest = "guest".parse().unwrap();
        let found = Names::new().look_up(&guest, "localhost", 80).await.unwrap();
        assert!(found.iter().all(|address| address.ip().is_loopback()), "{found:?}");
        assert!(Names::new().look_up(&guest, "no such name", 80).await.is_err());
    }
}
