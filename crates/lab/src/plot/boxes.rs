//! Box plots: median, quartiles and tails.

use std::fmt::Write as _;

use super::{
    COLOURS,
    axes::{Scale, WIDTH, frame, y_of},
    legend, line,
};
use crate::quantile;

/// A box for each of `series`; whiskers reach to the 1st and 99th percentile.
pub(crate) fn boxes(series: &[(&str, &[f64])], unit: &str) -> String {
    let y = Scale::decades(series.iter().flat_map(|(_, values)| values.iter().copied()));
    let step = (WIDTH - 90.0) / series.len().max(1) as f64;
    let mut inside = String::new();
    for (at, (_, values)) in series.iter().enumerate() {
        let of = |q| quantile(values, q).map(|value| y_of(&y, value));
        let (Some(low), Some(q1), Some(median), Some(q3), Some(high)) =
            (of(0.01), of(0.25), of(0.5), of(0.75), of(0.99))
        else {
            continue;
        };
        let middle = 70.0 + step * (at as f64 + 0.5);
        let half = (step * 0.3).min(28.0);
        let (left, width) = (middle - half, 2.0 * half);
        let _ = write!(
            inside,
            r#"<g class="{2}"><path d="M{middle:.1} {low:.1}V{q1:.1}M{middle:.1} {q3:.1}V{high:.1}"/><rect class="b{0} pale" x="{left:.1}" y="{q3:.1}" width="{width:.1}" height="{1:.1}"/><path class="thick" d="M{left:.1} {median:.1}h{width:.1}"/></g>"#,
            at % COLOURS,
            (q1 - q3).max(0.5),
            line(at),
        );
    }
    let names: Vec<_> = series.iter().map(|(name, _)| *name).collect();
    frame(None, Some((&y, unit)), &inside) + &legend(&names)
}
