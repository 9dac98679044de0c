//! Summary statistics.

/// The median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The quantile by nearest rank; `None` without values.
pub fn quantile(values: &[f64], quantile: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The median of the ratios `a`/`b` of each round, so that drifts of the machine's speed cancel out.
pub fn median_ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = a.iter().zip(b).filter(|(_, b)| **b != 0.0).map(|(a, b)| a / b).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let at = |q| quantile(&values, q);
        assert_eq!((at(0.5), at(0.9), at(0.99), at(1.0)), (Some(50.0), Some(90.0), Some(99.0), Some(100.0)));
        assert_eq!(
            (quantile(&[7.0], 0.0), quantile(&[7.0], 0.99), quantile(&[], 0.5)),
            (Some(7.0), Some(7.0), None)
        );
    }

    #[test]
    fn medians_of_odd_even_and_no_rounds() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median_ratio(&[2.0, 30.0, 4.0], &[1.0, 10.0, 4.0]), Some(2.0));
        assert_eq!(median_ratio(&[1.0], &[0.0]), None);
    }
}
