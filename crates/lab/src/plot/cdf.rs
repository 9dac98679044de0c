//! Cumulative distributions: the share of calls that took at most a given time.

use std::fmt::Write as _;

use super::{
    axes::{Scale, frame, x_of, y_of},
    legend, line,
};

/// A step line for each of `series`: a name and its values, ascending.
pub(crate) fn cdf(series: &[(&str, &[f64])], unit: &str) -> String {
    let x = Scale::decades(series.iter().flat_map(|(_, values)| values.iter().copied()));
    let y = Scale { low: 0.0, high: 1.0, logarithmic: false };
    let mut inside = String::new();
    for (at, (_, values)) in series.iter().enumerate() {
        let Some(first) = values.first() else { continue };
        let _ =
            write!(inside, r#"<path class="{}" d="M{:.1} {:.1}"#, line(at), x_of(&x, *first), y_of(&y, 0.0));
        for (rank, value) in values.iter().enumerate() {
            let share = (rank + 1) as f64 / values.len() as f64;
            let _ = write!(inside, "H{:.1}V{:.1}", x_of(&x, *value), y_of(&y, share));
        }
        inside.push_str(r#""/>"#);
    }
    let names: Vec<_> = series.iter().map(|(name, _)| *name).collect();
    frame(Some((&x, unit)), Some((&y, "share of calls")), &inside) + &legend(&names)
}
