//! Tests of the probes, with scripted findings.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::{
    Identity,
    noise::scripted::{busy, quiet, slow_memory},
};

fn watch(folder: &Path, script: &[Seen]) -> NoiseWatch {
    let identity = Identity {
        experiment: "x".into(),
        commit: "c".into(),
        program: "p".into(),
        host: json!(1),
        settings: json!(2),
        workloads: None,
    };
    scripted(RunFolder::open(folder, &identity).unwrap(), script)
}

/// A restart of the run with the stored probes, while the first continues.
fn restarted(folder: &Path) -> NoiseWatch {
    scripted(RunFolder::at(folder), &[])
}

fn scripted(folder: RunFolder, script: &[Seen]) -> NoiseWatch {
    let mut watch = NoiseWatch::of(Arc::new(folder));
    watch.script = Some(script.iter().cloned().collect());
    watch
}

/// Measures rounds from `first` on; returns those that count.
async fn rounds(watch: &mut NoiseWatch, first: usize, wanted: usize) -> Vec<usize> {
    let mut made = first - 1;
    while watch.needs_another("p", wanted, made).await.unwrap() {
        made += 1;
        watch.look_before("p", made).await.unwrap();
    }
    watch.counted("p", wanted, made)
}

#[tokio::test]
async fn looking_sees_something() {
    let mut watch = NoiseWatch::start();
    assert!(!watch.noise().is_quiet());
    watch.look("a").await.unwrap();
    let noise = watch.noise();
    assert!(noise.looks == 1 && noise.spread >= 1.0 && (0.0..=1.0).contains(&noise.others));
    assert_eq!(noise.memory_spread, 1.0, "one look does not differ from others");
}

#[tokio::test]
async fn an_interrupted_run_is_judged_by_all_that_it_saw() {
    // Quiet for long and then noisy, and the other way round.
    for (early, late, is_quiet) in [(quiet(), busy(), true), (busy(), quiet(), false)] {
        let whole = [early.clone(), early.clone(), early, late.clone(), late];
        let scratch = tempfile::tempdir().unwrap();
        let mut uninterrupted = watch(&scratch.path().join("a"), &whole);
        for at in 0..4 {
            uninterrupted.look(&at.to_string()).await.unwrap();
        }
        uninterrupted.end().await.unwrap();
        let folder = scratch.path().join("b");
        let mut first = watch(&folder, &whole[..3]);
        for at in 0..3 {
            first.look(&at.to_string()).await.unwrap();
        }
        drop(first);
        // The machine crashed while a line was written.
        let path = folder.join(LOOKS);
        let torn = [std::fs::read(&path).unwrap().as_slice(), b"{\"before\":\"3"].concat();
        std::fs::write(&path, torn).unwrap();
        let mut second = watch(&folder, &whole[3..]);
        second.look("3").await.unwrap();
        second.end().await.unwrap();
        let third = restarted(&folder).noise();
        for noise in [uninterrupted.noise(), second.noise(), third] {
            // After the last one too.
            assert_eq!((noise.looks, noise.others > MOST_OTHERS), (5, !is_quiet), "{noise:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rounds_that_were_noisy_are_measured_again_and_do_not_count() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("run");
    // Probes before each of six rounds and after the last; the fourth round's second probe is the fifth one's
    // first.
    let mut script = vec![quiet(); 7];
    script[1] = busy();
    let mut whole = watch(&folder, &script);
    // The noisy probe is between the first and the second round.
    assert_eq!(rounds(&mut whole, 1, 4).await, [3, 4, 5, 6]);
    let noise = whole.noise();
    assert_eq!((noise.repeated, noise.others), (2, 0.0));
    // A restart measures nothing and counts the same.
    let mut again = restarted(&folder);
    assert!(!again.needs_another("p", 4, 6).await.unwrap());
    assert!(again.needs_another("p", 4, 5).await.unwrap());
    assert_eq!(again.counted("p", 4, 6), [3, 4, 5, 6]);
    assert_eq!((again.noise().repeated, again.noise().looks), (2, noise.looks));
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stays_noisy_is_not_measured_for_ever() {
    let scratch = tempfile::tempdir().unwrap();
    let mut watch = watch(&scratch.path().join("run"), &vec![busy(); 7]);
    assert_eq!(rounds(&mut watch, 1, 4).await, [1, 2, 3, 4]);
    let noise = watch.noise();
    assert_eq!((noise.repeated, noise.others), (0, 0.5));
    assert!(!noise.is_quiet());
}

#[test]
fn stolen_time_is_of_what_was_measured_meanwhile() {
    let mut watch = NoiseWatch::start();
    let look = |after: Option<&str>, stolen| Look {
        after: after.map(str::to_owned),
        before: None,
        seen: None,
        stolen,
        all: 100,
    };
    watch.looks = vec![look(None, 0), look(Some("p try 1"), 50), look(Some("p try 2"), 2)];
    assert!(watch.noisy_looks("p try 1") == 1 && watch.noisy_looks("p try 2") == 0);
    assert!((watch.noise().stolen - 52.0 / 300.0).abs() < 1e-12);
    assert_eq!(watch.counted("p", 1, 2), [2]);
    assert!((watch.noise().stolen - 2.0 / 200.0).abs() < 1e-12);
}

#[test]
fn a_measurement_in_its_own_noise_is_spoilt_on_a_host_that_is_quiet_by_its_median() {
    let mut watch = NoiseWatch::start();
    let look = |after: &str, before: &str, seen: Seen, stolen| Look {
        after: Some(after.to_owned()),
        before: Some(before.to_owned()),
        seen: Some(seen),
        stolen,
        all: 100,
    };
    watch.looks = vec![
        look("", "a", busy(), 0),
        // The first start of the run ended while it measured `a`.
        look("", "a", quiet(), 0),
        look("a", "b", quiet(), 2),
        look("b", "c", quiet(), 20),
        look("c", "d", quiet(), 0),
        look("d", "e", busy(), 0),
        look("e", "f", quiet(), 0),
        look("f", "g", quiet(), 0),
    ];
    let noise = watch.noise();
    assert!(noise.stolen < MOST_STOLEN && noise.others < MOST_OTHERS, "{noise:?}");
    let spoilt = ["a", "b", "c", "d", "e", "f", "g", "z"].map(|what| watch.spoilt(what).is_some());
    assert_eq!(spoilt, [false, true, false, true, true, false, false, false]);
    assert!(watch.spoilt("b").unwrap().contains("the hypervisor took 20 %"));
    assert!(watch.spoilt("e").unwrap().contains("others used 50 %"));
}

#[tokio::test(start_paused = true)]
async fn a_noisy_moment_is_waited_for_to_end_and_is_of_nothing_then() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("run");
    let looks = [quiet(), slow_memory(), slow_memory(), quiet(), quiet()];
    let mut whole = watch(&folder, &looks);
    tokio::time::advance(Duration::from_secs(60)).await;
    whole.look_before("a", 1).await.unwrap();
    // What was measured in between is noisy; what comes next is not.
    assert!(whole.needs_another("a", 1, 1).await.unwrap());
    whole.look_before("b", 1).await.unwrap();
    assert_eq!(whole.waited, 2 * BETWEEN_LOOKS);
    assert!(!whole.needs_another("b", 1, 1).await.unwrap());
    whole.end().await.unwrap();
    assert_eq!((whole.noisy_looks("a try 1"), whole.noisy_looks("b try 1")), (1, 0));
    // Before a, after it, before b, after that; the probe in between belongs to neither.
    for mut watch in [whole, restarted(&folder)] {
        assert_eq!(watch.noise().looks, 4);
        assert!(watch.noise().memory_spread > MOST_MEMORY_SPREAD);
        assert!(!watch.needs_another("b", 1, 1).await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_long_and_all_together_are_a_third_of_the_run_at_most() {
    let scratch = tempfile::tempdir().unwrap();
    let mut watch = watch(&scratch.path().join("run"), &vec![busy(); 60]);
    watch.look_before("a", 1).await.unwrap();
    assert_eq!(watch.waited, Duration::ZERO, "nothing has been done yet");
    tokio::time::advance(Duration::from_secs(60)).await;
    for number in 2..6 {
        watch.look_before("a", number).await.unwrap();
    }
    // Two waits of the maximum length, the third with the rest, the fourth none.
    assert_eq!(watch.waited, 2 * LONGEST_WAIT + 9 * BETWEEN_LOOKS);
    assert!(3 * watch.waited <= watch.begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_look_between_two_measurements_is_of_both_also_after_a_restart() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("run");
    let mut whole = watch(&folder, &[quiet(), busy(), quiet(), quiet()]);
    whole.look_before("a", 1).await.unwrap();
    whole.needs_another("a", 1, 1).await.unwrap();
    whole.look_before("b", 1).await.unwrap();
    whole.needs_another("b", 1, 1).await.unwrap();
    // Long after a measurement, another probe is needed.
    tokio::time::advance(FRESH).await;
    whole.look_before("c", 1).await.unwrap();
    for watch in [whole, restarted(&folder)] {
        let noisy = ["a try 1", "b try 1", "c try 1"].map(|what| watch.noisy_looks(what));
        assert_eq!((noisy, watch.noise().looks), ([1, 1, 0], 4));
    }
}

#[tokio::test(start_paused = true)]
async fn the_quietest_tries_count() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("run");
    // Noisy before and after the first, after the second, and before and after the third.
    let mut watch = watch(&folder, &[busy(), busy(), quiet(), busy(), busy(), busy()]);
    for number in 1..=3 {
        watch.look_before("p", number).await.unwrap();
        assert_eq!(watch.needs_another("p", 1, number).await.unwrap(), number < 3);
        tokio::time::advance(FRESH).await;
    }
    assert_eq!(watch.counted("p", 1, 3), [2]);
    assert_eq!(watch.noise().repeated, 1);
}

#[test]
fn a_look_that_an_earlier_release_kept_is_read() {
    let line = r#"{"after":"a","before":"b","seen":{"others":0.0,"calibrations":[0.5]},"stolen":1,"all":2}"#;
    let look: Look = serde_json::from_str(line).unwrap();
    assert!(look.touches("b") && !look.is_joined() && look.seen.unwrap().walks.is_empty());
}
