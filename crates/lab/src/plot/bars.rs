//! Of what the time of a call is made.

use std::fmt::Write as _;

use super::{
    COLOURS,
    axes::{Scale, WIDTH, frame, number, y_of},
    escape, legend,
};

/// A bar: its name and its parts from the bottom up.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) parts: Vec<f64>,
}

/// Stacked bars; `parts` names what they are made of.
pub(crate) fn bars(bars: &[Bar], parts: &[&str], unit: &str) -> String {
    let y = Scale::from_zero(bars.iter().map(|bar| bar.parts.iter().sum()));
    let step = (WIDTH - 90.0) / bars.len().max(1) as f64;
    let mut inside = String::new();
    for (at, bar) in bars.iter().enumerate() {
        let left = 70.0 + step * at as f64 + step * 0.15;
        let mut sum = 0.0;
        for (part, value) in bar.parts.iter().enumerate() {
            let (bottom, top) = (y_of(&y, sum), y_of(&y, sum + value));
            sum += value;
            let _ = write!(
                inside,
                r#"<rect class="b{}" x="{left:.1}" y="{top:.1}" width="{:.1}" height="{:.1}"><title>{}: {} {}</title></rect>"#,
                part % COLOURS,
                step * 0.7,
                bottom - top,
                escape(&bar.name),
                escape(parts.get(part).unwrap_or(&"")),
                number(*value),
            );
        }
        let _ = write!(
            inside,
            r#"<text class="name" transform="translate({:.1} {:.1}) rotate(-35)">{}</text>"#,
            left + step * 0.4,
            y_of(&y, 0.0) + 14.0,
            escape(&bar.name)
        );
    }
    frame(None, Some((&y, unit)), &inside) + &legend(parts)
}
