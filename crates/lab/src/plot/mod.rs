//! Pictures of results as inline SVG: nothing to load, and colours that follow the page's theme.

mod axes;
mod bars;
mod boxes;
mod cdf;
mod lines;

pub(crate) use bars::{Bar, bars};
pub(crate) use boxes::boxes;
pub(crate) use cdf::cdf;
pub(crate) use lines::lines;

/// Colours that the page defines.
pub(crate) const COLOURS: usize = 8;
/// Kinds of lines that the page defines: where there are more series than colours, these tell them apart.
const DASHES: usize = 4;

/// The classes of the line of series `at`.
fn line(at: usize) -> String {
    format!("l{} d{}", at % COLOURS, at / COLOURS % DASHES)
}

/// Text that is safe between tags and in attributes.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The names of what is drawn, with their colours.
pub(crate) fn legend(names: &[&str]) -> String {
    let entries = names.iter().enumerate().map(|(at, name)| {
        let (colour, dash) = (at % COLOURS, at / COLOURS % DASHES);
        format!(r#"<span class="key"><i class="b{colour} d{dash}"></i>{}</span>"#, escape(name))
    });
    format!(r#"<p class="legend">{}</p>"#, entries.collect::<String>())
}
