//! Collects responses for verification by a workload's own program after the timed part. The program takes
//! some tenths of a second, and would be measured too if it ran meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::ensure;
use bytes::Bytes;
use flint_lab::Random;

use super::manifest::{Manifest, Values};

/// Number of responses kept per timed part: the first, from a cold start, and an even sample of all later
/// ones.
const KEPT: usize = 4;

/// Collects responses of one place; clones share the collection.
#[derive(Clone)]
pub(super) struct Shown(Arc<Mutex<Sample>>);

struct Sample {
    random: Random,
    seen: usize,
    answers: Vec<Bytes>,
}

impl Shown {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Sample { random: Random::new(1), seen: 0, answers: Vec::new() })))
    }

    /// Adds a response.
    pub(super) fn see(&self, answer: &Bytes) {
        let mut sample = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sample.seen += 1;
        if sample.answers.len() < KEPT {
            sample.answers.push(answer.clone());
            return;
        }
        // Reservoir sampling: each later response is kept with equal probability; the first stays.
        let later = sample.seen - 1;
        let at = 1 + sample.random.below(later);
        if let Some(kept) = sample.answers.get_mut(at) {
            *kept = answer.clone();
        }
    }

    /// Verifies the responses collected since the last time; the error counts the wrong ones.
    pub(super) fn judge(&self, manifest: &Manifest, size: &str, values: &Values) -> anyhow::Result<()> {
        let sample = {
            let mut sample = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            sample.seen = 0;
            std::mem::take(&mut sample.answers)
        };
        if !manifest.has_oracle() || sample.is_empty() {
            return Ok(());
        }
        let params = manifest.params(size, values)?;
        let wrong: Vec<_> = sample
            .iter()
            .filter_map(|answer| manifest.ask_oracle(size, &params, answer, values).err())
            .collect();
        ensure!(
            wrong.is_empty(),
            "{} of {} answers that the workload's program was shown are wrong: {:#}",
            wrong.len(),
            sample.len(),
            wrong[0]
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload whose rules accept every object, but whose program only one response.
    fn picky() -> Manifest {
        let says = "import json, sys; sys.exit(0 if json.load(sys.stdin)['answer'] == {'image': 'right'} else 'not that picture')";
        let variant = serde_json::json!({ "name": "node", "entry": "f",
            "functions": [{ "name": "f", "code": "f.js", "kind": "nodejs" }] });
        let mut manifest: Manifest = serde_json::from_value(serde_json::json!({
            "name": "resize", "suite": "s", "variants": [variant],
            "sizes": { "test": { "params": {}, "expect": { "/image": { "matches": "[A-Za-z]+" } } } },
            "oracle": { "program": ["python3", "-c", says] }
        }))
        .unwrap();
        manifest.folder = std::env::temp_dir();
        manifest
    }

    #[test]
    fn a_program_that_is_shown_wrong_answers_counts_them() {
        let (shown, manifest) = (Shown::new(), picky());
        let judge = || shown.judge(&manifest, "test", &Values::new()).map_err(|error| error.to_string());
        let see = |text: &'static str| shown.see(&Bytes::from_static(text.as_bytes()));
        (0..3).for_each(|_| see(r#"{"image":"right"}"#));
        assert_eq!(judge(), Ok(()));
        // Not only the first one is verified, nor one that was verified before.
        see(r#"{"image":"right"}"#);
        see(r#"{"image":"AAAA"}"#);
        let why = judge().unwrap_err();
        assert!(why.starts_with("1 of 2 answers that the workload's program was shown are wrong"), "{why}");
        assert!(why.contains("not that picture"), "{why}");
        assert_eq!(judge(), Ok(()));
    }

    #[test]
    fn the_first_and_an_even_sample_of_the_others_are_kept() {
        let mut kept = [0; 100];
        let shown = Shown::new();
        for _ in 0..2000 {
            (0..100_u8).for_each(|call| shown.see(&Bytes::copy_from_slice(&[call])));
            let mut sample = shown.0.lock().unwrap();
            assert_eq!((sample.answers.len(), sample.answers[0][0]), (KEPT, 0));
            sample.answers.drain(..).for_each(|answer| kept[usize::from(answer[0])] += 1);
            sample.seen = 0;
        }
        // 60.6 times each on average.
        assert!(kept[1..].iter().all(|times| (25..110).contains(times)), "{kept:?}");
    }
}
