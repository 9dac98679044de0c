//! The Mann–Whitney U test, which compares two arms without assumptions about their distributions.

use serde::{Deserialize, Serialize};

/// The two-sided Mann–Whitney U test of two samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MannWhitney {
    /// Pairs in which the first sample's value is larger; ties count half.
    pub u: f64,
    /// The probability of a difference at least this large if there is none.
    pub p: f64,
    /// Values in the first sample.
    pub n1: usize,
    /// Values in the second one.
    pub n2: usize,
    /// Effect size, rank-biserial: −1 if the whole first sample is below the second, 0 without a difference,
    /// 1 if all of it is above.
    pub rank_biserial: f64,
}

/// Up to this size of the smaller sample, without ties, p is computed exactly instead of approximated.
const EXACT: usize = 8;
/// The exact count needs about n1² · n2² steps.
const EXACT_LARGER: usize = 200;

impl MannWhitney {
    /// Compares `a` with `b`; `None` if one of them is empty.
    pub fn test(a: &[f64], b: &[f64]) -> Option<Self> {
        let (n1, n2) = (a.len(), b.len());
        if n1 == 0 || n2 == 0 {
            return None;
        }
        let mut all: Vec<(f64, bool)> =
            a.iter().map(|&value| (value, true)).chain(b.iter().map(|&value| (value, false))).collect();
        all.sort_by(|x, y| x.0.total_cmp(&y.0));
        let (mut ranks_of_a, mut ties, mut at) = (0.0, 0.0, 0);
        while at < all.len() {
            let same = all[at..].iter().take_while(|other| other.0 == all[at].0).count().max(1);
            // Ranks count from 1; ties get their mean rank.
            let rank = at as f64 + (same as f64 + 1.0) / 2.0;
            ranks_of_a += rank * all[at..at + same].iter().filter(|one| one.1).count() as f64;
            ties += (same as f64).powi(3) - same as f64;
            at += same;
        }
        let (m, n) = (n1 as f64, n2 as f64);
        let u = ranks_of_a - m * (m + 1.0) / 2.0;
        let p = if ties == 0.0 && n1.min(n2) <= EXACT && n1.max(n2) <= EXACT_LARGER {
            exact(u, n1, n2)
        } else {
            normal(u, m, n, ties)
        };
        Some(Self { u, p, n1, n2, rank_biserial: 2.0 * u / (m * n) - 1.0 })
    }
}

/// Normal approximation with corrections for ties and continuity.
fn normal(u: f64, m: f64, n: f64, ties: f64) -> f64 {
    let total = m + n;
    let spread = (m * n / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)))).sqrt();
    let mean = m * n / 2.0;
    let z = (u.max(m * n - u) - mean - 0.5) / spread;
    if z.is_nan() || z <= 0.0 { 1.0 } else { (2.0 * upper_tail(z)).min(1.0) }
}

/// The share of all arrangements of the samples in which U is at least as far from its mean.
fn exact(u: f64, n1: usize, n2: usize) -> f64 {
    // ways[i][k]: the number of arrangements of i values of the smaller sample among those of the larger one
    // seen so far, with U = k.
    let (few, many) = (n1.min(n2), n1.max(n2));
    let mut ways = vec![vec![0.0; few * many + 1]; few + 1];
    ways[0][0] = 1.0;
    for larger in 0..=many {
        for i in 1..=few {
            for k in larger..=few * many {
                // The smaller sample's next value lies above `larger` of the larger one's.
                ways[i][k] += ways[i - 1][k - larger];
            }
        }
    }
    let counts = &ways[few];
    let total: f64 = counts.iter().sum();
    let far = u.max((n1 * n2) as f64 - u) as usize;
    let tail: f64 = counts[far..].iter().sum();
    (2.0 * tail / total).min(1.0)
}

/// The tail probability of the standard normal distribution beyond `z` > 0: Laplace's continued fraction
/// where it converges fast, the series elsewhere.
fn upper_tail(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if z > 3.0 {
        let fraction = (1..=100).rev().fold(z, |below, k| z + f64::from(k) / below);
        return density / fraction;
    }
    let (mut term, mut sum) = (z, z);
    for k in 1..100 {
        term *= z * z / f64::from(2 * k + 1);
        sum += term;
    }
    0.5 - density * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values by scipy 1.17.1: `mannwhitneyu(a, b, alternative='two-sided', method=…)`.
    fn is(a: &[f64], b: &[f64], u: f64, p: f64, effect: f64) {
        let test = MannWhitney::test(a, b).unwrap();
        assert!((test.u - u).abs() < 1e-12, "U {} {u}", test.u);
        assert!((test.p - p).abs() < 1e-9, "p {} {p}", test.p);
        assert!((test.rank_biserial - effect).abs() < 1e-12, "effect {} {effect}", test.rank_biserial);
        let turned = MannWhitney::test(b, a).unwrap();
        assert!((turned.p - p).abs() < 1e-9 && (turned.rank_biserial + effect).abs() < 1e-12);
    }

    #[test]
    fn few_values_are_counted_out() {
        // method='exact'
        let (men, women) = ([19.0, 22.0, 16.0, 29.0, 24.0], [20.0, 11.0, 17.0, 12.0]);
        is(&men, &women, 17.0, 0.111_111_111_111_111_1, 0.7);
        is(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.0, 0.1, -1.0);
        let a: Vec<f64> = (1..=8).map(f64::from).collect();
        let b = [1.5, 2.5, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0];
        is(&a, &b, 13.0, 0.015_540_015_540_015_54, -0.675);
    }

    #[test]
    fn many_values_and_ties_are_approximated() {
        // method='asymptotic'
        let a = [1.0, 2.0, 2.0, 3.0, 5.0, 5.0, 7.0, 8.0, 9.0];
        let b = [2.0, 3.0, 3.0, 6.0, 8.0, 9.0, 10.0, 11.0, 12.0, 12.0];
        is(&a, &b, 23.0, 0.077_600_656_412_987_6, -0.488_888_888_888_888_93);
        let a: Vec<f64> = (1..31).map(f64::from).collect();
        let b: Vec<f64> = (1..26).map(|i| f64::from(i) + 5.5).collect();
        is(&a, &b, 300.0, 0.207_929_272_481_644_17, -0.2);
        is(&[1.0; 3], &[1.0; 3], 4.5, 1.0, 0.0);
    }

    #[test]
    fn the_tail_is_that_of_the_tables() {
        // scipy.stats.norm.sf
        for (z, p) in
            [(0.5, 0.308_537_538_725_986_9), (1.959_963_984_540_054, 0.025), (6.0, 9.865_876_450_376_98e-10)]
        {
            assert!((upper_tail(z) / p - 1.0).abs() < 1e-9, "{z}: {}", upper_tail(z));
        }
        assert!((upper_tail(3.0) / upper_tail(3.000_000_001) - 1.0).abs() < 1e-7);
        assert_eq!(MannWhitney::test(&[], &[1.0]), None);
    }
}
