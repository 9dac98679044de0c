//! Charts as inline SVG: nothing to load, and colours that follow the page's theme.

mod axes;
mod bars;
mod boxes;
mod cdf;
mod lines;

pub(crate) use bars::{Bar, bars};
pub(crate) use boxes::boxes;
pub(crate) use cdf::cdf;
pub(crate) use lines::lines;

/// Number of colours that the page defines.
pub(crate) const COLOURS: usize = 8;
/// Number of dash patterns that the page defines, which distinguish series beyond the number of colours.
const DASHES: usize = 4;

/// The classes of the line of series `at`.
fn line(at: usize) -> String {
    format!("l{} d{}", at % COLOURS, at / COLOURS % DASHES)
}

/// Escapes text for HTML content and attributes.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A legend: names with their colours.
pub(crate) fn legend(names: &[&str]) -> String {
    let entries = names.iter().enumerate().map(|(at, name)| {
        let (colour, dash) = (at % COLOURS, at / COLOURS % DASHES);
        format!(r#"<span class="key"><i class="b{colour} d{dash}"></i>{}</span>"#, escape(name))
    });
    format!(r#"<p class="legend">{}</p>"#, entries.collect::<String>())
}
