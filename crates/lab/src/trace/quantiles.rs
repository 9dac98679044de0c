//! A distribution given by some of its quantiles.

/// Values at ascending probabilities.
#[derive(Clone, Debug)]
pub struct Quantiles {
    points: Vec<(f64, f64)>,
    /// Interpolate between the values' logarithms, for distributions that span orders of magnitude.
    logarithmic: bool,
}

const AZURE_2019: &str = include_str!("../../data/azure/quantiles2019.csv");

impl Quantiles {
    /// A column of the quantiles of 2019: `avg_exec_ms`, `app_mem_mb`, `app_daily_invocations`, `app_iat_cv` or `functions_per_app`.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn azure2019(column: &str, logarithmic: bool) -> Self {
        let mut lines = AZURE_2019.lines();
        let head = lines.next().unwrap_or_default();
        let at = head.split(',').position(|name| name == column).expect("a column of the table");
        let points = lines
            .filter_map(|line| {
                let mut fields = line.split(',');
                let p = fields.next()?.parse().ok()?;
                Some((p, fields.nth(at - 1)?.parse().ok()?))
            })
            .collect();
        Self { points, logarithmic }
    }

    /// The quantile `p`.
    pub fn at(&self, p: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 < p);
        let (Some(&below), Some(&above)) = (self.points.get(after.wrapping_sub(1)), self.points.get(after))
        else {
            // Beyond the first and the last point nothing is known.
            let end = if after == 0 { self.points.first() } else { self.points.last() };
            return end.map_or(0.0, |point| point.1);
        };
        let share = (p - below.0) / (above.0 - below.0);
        if self.logarithmic && below.1 > 0.0 {
            (below.1.ln() + share * (above.1.ln() - below.1.ln())).exp()
        } else {
            below.1 + share * (above.1 - below.1)
        }
    }

    /// The points themselves: probability and value.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_points_are_met_and_others_lie_between() {
        let daily = Quantiles::azure2019("app_daily_invocations", true);
        assert!((daily.at(0.5) - 74.0).abs() < 1e-9 && (daily.at(0.9) - 4504.0).abs() < 1e-9);
        assert!((daily.at(0.505) - (74.0_f64 * 87.0).sqrt()).abs() < 1e-9);
        assert_eq!((daily.at(0.0), daily.at(1.0)), (1.0, 6.488_88e7));
        let variation = Quantiles::azure2019("app_iat_cv", false);
        assert_eq!((variation.at(0.1), variation.at(0.5)), (0.0, 0.523_076));
        let points = daily.points();
        assert!(points.len() == 103 && points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
    }
}
