//! What happened over time.

use std::fmt::Write as _;

use super::{
    axes::{Scale, frame, x_of, y_of},
    legend, line,
};

/// A line for each of `series`: a name and its points.
pub(crate) fn lines(series: &[(&str, Vec<(f64, f64)>)], x_title: &str, y_title: &str) -> String {
    let points = || series.iter().flat_map(|(_, points)| points.iter());
    let x = Scale::from_zero(points().map(|point| point.0));
    let y = Scale::from_zero(points().map(|point| point.1));
    let mut inside = String::new();
    for (at, (_, points)) in series.iter().enumerate() {
        let mut command = 'M';
        let _ = write!(inside, r#"<path class="{}" d=""#, line(at));
        for point in points.iter().filter(|point| point.0.is_finite() && point.1.is_finite()) {
            let _ = write!(inside, "{command}{:.1} {:.1}", x_of(&x, point.0), y_of(&y, point.1));
            command = 'L';
        }
        inside.push_str(r#""/>"#);
    }
    let names: Vec<_> = series.iter().map(|(name, _)| *name).collect();
    frame(Some((&x, x_title)), Some((&y, y_title)), &inside) + &legend(&names)
}
