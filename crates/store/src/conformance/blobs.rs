//! What every [`Blobs`] does.

use std::time::{Duration, Instant};

use bytes::Bytes;
use flint_model::Digest;
use futures_util::future::join_all;

use super::sample::LONG;
use crate::Blobs;

/// Content is found under its BLAKE3 hash.
pub async fn content_comes_back_by_its_hash(blobs: &dyn Blobs) {
    // The hash of no bytes, from the BLAKE3 paper's reference implementation.
    let empty: Digest = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262".parse().unwrap();
    assert_eq!(blobs.get(empty).await.unwrap(), None);
    assert_eq!(blobs.put(Bytes::new()).await.unwrap(), empty);
    assert_eq!(blobs.get(empty).await.unwrap(), Some(Bytes::new()));
    let content = Bytes::from((0..=255).collect::<Vec<u8>>());
    let digest = blobs.put(content.clone()).await.unwrap();
    assert_ne!(digest, empty);
    assert_eq!(blobs.get(digest).await.unwrap(), Some(content));
}

/// Storing twice, also at the same time, is storing once.
pub async fn the_same_content_is_stored_once(blobs: &dyn Blobs) {
    let contents: Vec<_> = (0..4).map(|at| Bytes::from(vec![at; 100_000])).collect();
    let digests = join_all((0..32).map(|at| blobs.put(contents[at % 4].clone()))).await;
    for (at, digest) in digests.into_iter().enumerate() {
        assert_eq!(blobs.get(digest.unwrap()).await.unwrap().as_ref(), Some(&contents[at % 4]));
    }
    assert_eq!(blobs.collect(&[], Duration::ZERO).await.unwrap(), 4);
}

/// Collection spares what is kept, and what was stored or stored again within the grace.
pub async fn what_is_kept_or_young_stays(blobs: &dyn Blobs) {
    let kept = blobs.put(Bytes::from_static(b"kept")).await.unwrap();
    let again = blobs.put(Bytes::from_static(b"again")).await.unwrap();
    let old = blobs.put(Bytes::from_static(b"old")).await.unwrap();
    assert_eq!(blobs.collect(&[kept], LONG).await.unwrap(), 0, "all are young");
    const GRACE: Duration = Duration::from_secs(1);
    loop {
        tokio::time::sleep(GRACE + GRACE / 5).await;
        let stored = Instant::now();
        assert_eq!(blobs.put(Bytes::from_static(b"again")).await.unwrap(), again);
        let removed = blobs.collect(&[kept], GRACE).await.unwrap();
        // Where storing and collecting took longer than the grace, nothing was young.
        if stored.elapsed() < GRACE {
            assert_eq!(removed, 1);
            break;
        }
        for content in [&b"old"[..], b"again"] {
            blobs.put(Bytes::from_static(content)).await.unwrap();
        }
    }
    assert_eq!(blobs.get(old).await.unwrap(), None);
    for digest in [kept, again] {
        assert!(blobs.get(digest).await.unwrap().is_some());
    }
    assert_eq!(blobs.collect(&[kept, kept], Duration::ZERO).await.unwrap(), 1);
    assert_eq!(blobs.get(kept).await.unwrap(), Some(Bytes::from_static(b"kept")));
    // What was removed can be stored again.
    assert_eq!(blobs.put(Bytes::from_static(b"old")).await.unwrap(), old);
    assert!(blobs.get(old).await.unwrap().is_some());
}

/// Code of the greatest size allowed by default, 48 MB.
pub async fn a_large_one_comes_back(blobs: &dyn Blobs) {
    let content = Bytes::from((0..48 << 20).map(|at: u32| (at >> 10) as u8).collect::<Vec<_>>());
    let digest = blobs.put(content.clone()).await.unwrap();
    assert!(blobs.get(digest).await.unwrap() == Some(content));
}
