//! Line charts over time, or over another quantity.

use std::fmt::Write as _;

use super::{
    COLOURS,
    axes::{Scale, frame, x_of, y_of},
    legend, line,
};

/// Up to this number, the points of a line are marked.
const MARKED: usize = 20;

/// A line for each of `series`: a name and its points.
pub(crate) fn lines(series: &[(&str, Vec<(f64, f64)>)], x_title: &str, y_title: &str) -> String {
    let points = || series.iter().flat_map(|(_, points)| points.iter());
    let x = Scale::from_zero(points().map(|point| point.0));
    let y = Scale::from_zero(points().map(|point| point.1));
    let mut inside = String::new();
    for (at, (_, points)) in series.iter().enumerate() {
        let mut command = 'M';
        let _ = write!(inside, r#"<path class="{}" d=""#, line(at));
        let points = || points.iter().filter(|point| point.0.is_finite() && point.1.is_finite());
        for point in points() {
            let _ = write!(inside, "{command}{:.1} {:.1}", x_of(&x, point.0), y_of(&y, point.1));
            command = 'L';
        }
        inside.push_str(r#""/>"#);
        // With few points, marks show what was measured, and make a single point visible.
        for point in points().filter(|_| points().count() <= MARKED) {
            let _ = write!(
                inside,
                r#"<circle class="b{}" cx="{:.1}" cy="{:.1}" r="3"/>"#,
                at % COLOURS,
                x_of(&x, point.0),
                y_of(&y, point.1)
            );
        }
    }
    let names: Vec<_> = series.iter().map(|(name, _)| *name).collect();
    frame(Some((&x, x_title)), Some((&y, y_title)), &inside) + &legend(&names)
}
