//! Stacked bars: the components of a call's time.

use std::fmt::Write as _;

use super::{
    COLOURS,
    axes::{Scale, WIDTH, number},
    escape, legend,
};

/// Width of the names, which are beside their bars: below them they would overlap or have to be tilted.
const LEFT: f64 = 220.0;
const RIGHT: f64 = 24.0;
/// Height of a bar with its gap.
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const BOTTOM: f64 = 42.0;
/// Maximum number of characters of a name.
const LONGEST: usize = 28;
/// Number of characters kept at the end of a shortened name.
const ENDING: usize = 10;

/// A bar: its name and its parts from the left.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) parts: Vec<f64>,
}

/// Stacked bars; `parts` names their components.
pub(crate) fn bars(bars: &[Bar], parts: &[&str], unit: &str) -> String {
    let scale = Scale::from_zero(bars.iter().map(|bar| bar.parts.iter().sum()));
    let x_of = |value: f64| LEFT + scale.share(value) * (WIDTH - LEFT - RIGHT);
    let bottom = ROW * bars.len() as f64 + 4.0;
    let height = bottom + BOTTOM;
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img">"#);
    for tick in scale.ticks() {
        let at = x_of(tick);
        let _ = write!(
            svg,
            r#"<path class="grid" d="M{at:.1} 0V{bottom}"/><text class="mid" x="{at:.1}" y="{:.1}">{}</text>"#,
            bottom + 16.0,
            number(tick)
        );
    }
    for (at, bar) in bars.iter().enumerate() {
        let top = ROW * at as f64 + (ROW - BAR) / 2.0;
        let mut sum = 0.0;
        for (part, value) in bar.parts.iter().enumerate() {
            let (left, right) = (x_of(sum), x_of(sum + value));
            sum += value;
            let _ = write!(
                svg,
                r#"<rect class="b{}" x="{left:.1}" y="{top:.1}" width="{:.1}" height="{BAR}"><title>{}: {} {} {}</title></rect>"#,
                part % COLOURS,
                right - left,
                escape(&bar.name),
                escape(parts.get(part).unwrap_or(&"")),
                number(*value),
                escape(unit),
            );
        }
        let _ = write!(
            svg,
            r#"<text class="end" x="{:.1}" y="{:.1}">{}</text>"#,
            LEFT - 8.0,
            top + BAR - 3.0,
            escape(&shortened(&bar.name))
        );
    }
    let _ = write!(
        svg,
        r#"<text class="mid" x="{:.1}" y="{:.1}">{}</text><path class="axis" d="M{LEFT} 0V{bottom}H{:.1}"/></svg>"#,
        (LEFT + WIDTH - RIGHT) / 2.0,
        height - 6.0,
        escape(unit),
        WIDTH - RIGHT
    );
    svg + &legend(parts)
}

/// Shortens a name in its middle, since rows also differ at the end.
fn shortened(name: &str) -> String {
    let signs: Vec<char> = name.chars().collect();
    match signs.len() > LONGEST {
        true => {
            let (first, last) = (&signs[..LONGEST - ENDING - 1], &signs[signs.len() - ENDING..]);
            first.iter().chain(&['…']).chain(last).collect()
        }
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_line_of_its_own_and_room_on_it() {
        let named = |at| Bar { name: format!("{at} {}", "long ".repeat(20)), parts: vec![1.0, 2.0] };
        let svg = bars(&(0..30).map(named).collect::<Vec<_>>(), &["a", "b"], "ms");
        let texts = svg.split(r#"<text class="end""#).skip(1);
        let y = |text: &str| text.split(r#" y=""#).nth(1)?.split('"').next()?.parse::<f64>().ok();
        let lines: Vec<f64> = texts.clone().filter_map(y).collect();
        assert!(lines.len() == 30 && lines.windows(2).all(|two| two[1] - two[0] >= ROW - 0.1), "{lines:?}");
        for text in texts {
            let name = text.split(['>', '<']).nth(1).unwrap();
            // A character is some 7.4 wide in the widest common font.
            assert!(name.chars().count() as f64 * 7.4 < LEFT - 8.0, "{name}");
        }
        assert!(svg.contains(">ms</text>"));
        let shown = ["cold", "next"].map(|word| shortened(&format!("functions-framework-unwarmed {word}")));
        assert_eq!(shown, ["functions-framewo…armed cold", "functions-framewo…armed next"]);
    }
}
