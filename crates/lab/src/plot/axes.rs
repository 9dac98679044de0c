//! Axes with ticks, and the mapping from values to positions.

use std::fmt::Write as _;

use super::escape;

pub(super) const WIDTH: f64 = 720.0;
pub(super) const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 42.0;
/// Bounds of a scale, far beyond any measurement, so that tick steps are neither zero nor infinite. Values
/// outside are drawn at the edge.
const ENDS: (f64, f64) = (1e-300, 1e300);
/// Maximum number of readable ticks.
const MOST_TICKS: usize = 13;

/// One axis of a plot.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) logarithmic: bool,
}

impl Scale {
    /// Linear, from zero to the largest value.
    pub(super) fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let high = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let high = if high > 0.0 { (high.min(ENDS.1) * 1.05).max(ENDS.0) } else { 1.0 };
        Self { low: 0.0, high, logarithmic: false }
    }

    /// Logarithmic, by decades; positive values only.
    pub(super) fn decades(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = || values.clone().filter(|value| value.is_finite() && *value > 0.0);
        let low = positive().fold(f64::INFINITY, f64::min);
        let high = positive().fold(0.0, f64::max);
        if !low.is_finite() {
            return Self { low: 1.0, high: 10.0, logarithmic: true };
        }
        let (low, high) = (low.clamp(ENDS.0, ENDS.1), high.clamp(ENDS.0, ENDS.1));
        let (low, high) = (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()));
        Self { low, high: if high > low { high } else { low * 10.0 }, logarithmic: true }
    }

    /// The position of a value, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10()),
            false => (value - self.low) / (self.high - self.low),
        };
        share.clamp(0.0, 1.0)
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let (first, last) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
            let decades = usize::try_from(last - first).unwrap_or(0);
            let powers = (first..=last).step_by(decades / MOST_TICKS + 1).take(MOST_TICKS);
            return powers.map(|power| 10_f64.powi(power)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).take(MOST_TICKS).map(|tick| tick as f64 * step).collect()
    }
}

pub(super) fn x_of(scale: &Scale, value: f64) -> f64 {
    LEFT + scale.share(value) * (WIDTH - LEFT - RIGHT)
}

pub(super) fn y_of(scale: &Scale, value: f64) -> f64 {
    HEIGHT - BOTTOM - scale.share(value) * (HEIGHT - TOP - BOTTOM)
}

/// A number for people: few digits, no trailing zeros.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        endless if !endless.is_finite() => return value.to_string(),
        beyond if beyond >= 1e12 || (beyond > 0.0 && beyond < 1e-6) => return format!("{value:.1e}"),
        large if large >= 1e6 => return format!("{}M", number(value / 1e6)),
        large if large >= 1e4 => return format!("{}k", number(value / 1e3)),
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A plot's frame around its contents. An axis without a scale has no ticks.
pub(super) fn frame(x: Option<(&Scale, &str)>, y: Option<(&Scale, &str)>, inside: &str) -> String {
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">"#);
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    if let Some((scale, title)) = y {
        for tick in scale.ticks() {
            let at = y_of(scale, tick);
            let _ = write!(
                svg,
                r#"<path class="grid" d="M{LEFT} {at:.1}H{right}"/><text class="end" x="{:.1}" y="{:.1}">{}</text>"#,
                LEFT - 6.0,
                at + 4.0,
                number(tick)
            );
        }
        let _ = write!(
            svg,
            r#"<text class="mid" transform="translate(14 {:.1}) rotate(-90)">{}</text>"#,
            (TOP + bottom) / 2.0,
            escape(title)
        );
    }
    if let Some((scale, title)) = x {
        for tick in scale.ticks() {
            let at = x_of(scale, tick);
            let _ = write!(
                svg,
                r#"<path class="grid" d="M{at:.1} {TOP}V{bottom}"/><text class="mid" x="{at:.1}" y="{:.1}">{}</text>"#,
                bottom + 16.0,
                number(tick)
            );
        }
        let _ = write!(
            svg,
            r#"<text class="mid" x="{:.1}" y="{:.1}">{}</text>"#,
            (LEFT + right) / 2.0,
            HEIGHT - 6.0,
            escape(title)
        );
    }
    let _ = write!(svg, r#"<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>{inside}</svg>"#);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_values_lie_in_the_frame() {
        let scale = Scale::from_zero([3.0, 47.0].into_iter());
        assert_eq!(scale.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0]);
        let decades = Scale::decades([0.0, 30.0, 4000.0].into_iter());
        assert_eq!(decades.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
        for value in [f64::NAN, -5.0, 0.0, 1e9] {
            for scale in [&scale, &decades] {
                let x = x_of(scale, value);
                assert!(x.is_nan() || (LEFT..=WIDTH - RIGHT).contains(&x), "{value}: {x}");
            }
        }
        for empty in [Scale::from_zero([].into_iter()), Scale::decades([].into_iter())] {
            assert!(empty.high > empty.low && !empty.ticks().is_empty());
        }
        let written = [f64::INFINITY, 1.5e30, -1e-300].map(number);
        assert_eq!(written, ["inf", "1.5e30", "-1.0e-300"]);
        assert_eq!([1234.0, 12_340.0, 2.5e6, 0.05, 3.0].map(number), ["1234", "12.34k", "2.5M", "0.05", "3"]);
    }

    /// Reports are read from files, which may contain any number.
    #[test]
    fn whatever_is_drawn_has_few_ticks_and_an_end() {
        let numbers = [5e-324, 1e-320, 2.3e-308, 1e-300, 1e-9, 1.0, 1e9, 1e300, f64::MAX];
        for a in numbers {
            for b in numbers.map(|b| [b, -b]).concat() {
                for scale in [Scale::from_zero([a, b].into_iter()), Scale::decades([a, b].into_iter())] {
                    let ticks = scale.ticks();
                    assert!((1..=MOST_TICKS).contains(&ticks.len()), "{a} {b}: {scale:?} {ticks:?}");
                    assert!(ticks.iter().all(|tick| x_of(&scale, *tick).is_finite()), "{scale:?} {ticks:?}");
                    assert!(
                        [a, b].iter().all(|value| x_of(&scale, *value).is_finite()),
                        "{a} {b}: {scale:?}"
                    );
                    assert!(number(a).len() < 12 && number(b).len() < 12);
                }
            }
        }
    }
}
