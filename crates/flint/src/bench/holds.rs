//! Decides whether a promise applies to a measurement: measurements under other conditions are shown, but not
//! judged.

use flint_lab::{FEWEST, Unjudged};

use super::run::Size;

/// The originals' size. A chain of a thousand requests differs from a chain of ten.
const SIZE: Size = Size::Small;

/// Whether a measurement meets the promise's conditions. Keeps the first deviation; missing data do not
/// deviate.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds(Option<String>);

impl Holds {
    /// Requires the usual size of inputs.
    pub(super) fn of_the_size(self, size: Option<&str>) -> Self {
        let usual = SIZE.as_str();
        let why =
            |size: &str| format!("it is promised of the size {usual}, and this run is of the size {size}");
        self.unless(size.filter(|size| *size != usual).map(why))
    }

    /// Requires enough single calls, since a median of four is little more than one of them. `fewest` is the
    /// minimum per arm.
    pub(super) fn of_values(self, fewest: Option<usize>) -> Self {
        let why = |few: usize| format!("there are too few values, {few}: it takes {FEWEST}, by --repeat");
        self.unless(fewest.filter(|few| *few < FEWEST).map(why))
    }

    /// Requires a minimum number of concurrent instances, since fewer share less. `most` is the number of
    /// `arm`.
    pub(super) fn of_instances(self, least: u64, arm: &str, most: Option<u64>) -> Self {
        let why =
            |few: u64| format!("it is promised of {least} instances or more, and there were {few} of {arm}");
        self.unless(most.filter(|few| *few < least).map(why))
    }

    /// Requires a minimum number of copies of a function, since fewer share less.
    pub(super) fn of_copies(self, least: usize, copies: usize) -> Self {
        let why = || format!("it is promised of {least} copies or more, and there were {copies}");
        self.unless((copies < least).then(why))
    }

    /// Requires so many calls in steady state, since the slowest of a few are chance.
    pub(super) fn of_steady_calls(self, least: usize, calls: Option<usize>) -> Self {
        let why = |few: usize| {
            format!("it is promised of {least} calls or more in steady state, and there were {few}")
        };
        self.unless(calls.filter(|few| *few < least).map(why))
    }

    /// Requires a speed-up of the trace's time of at most this: what a start takes is not sped up.
    pub(super) fn of_compression(self, most: f64, compression: f64) -> Self {
        let why =
            || format!("it is promised of times divided by {most} at most, and these are by {compression}");
        self.unless((compression > most).then(why))
    }

    /// Requires this procedure; `other` is what the command line selects instead.
    pub(super) fn of_the_procedure(self, procedure: &str, other: Option<&str>) -> Self {
        self.unless(other.map(|other| format!("it is promised of {procedure}, and this is {other}")))
    }

    /// Why it is not judged, if a condition is not met.
    pub(super) fn unjudged(self) -> Option<Unjudged> {
        self.0.map(Unjudged::NotMeasured)
    }

    fn unless(self, differs: Option<String>) -> Self {
        Self(self.0.or(differs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(holds: Holds) -> Option<String> {
        holds.unjudged().map(|why| why.to_string())
    }

    #[test]
    fn what_is_promised_is_judged_and_so_is_what_nothing_is_known_of() {
        let promised = Holds::default()
            .of_the_size(Some("small"))
            .of_values(Some(5))
            .of_instances(20, "a", Some(20))
            .of_copies(20, 20)
            .of_steady_calls(100, Some(100))
            .of_compression(60.0, 60.0)
            .of_the_procedure("p", None);
        assert_eq!(said(promised), None);
        let unknown = Holds::default().of_the_size(None).of_values(None).of_instances(20, "a", None);
        let unknown = unknown.of_steady_calls(100, None);
        assert_eq!(said(unknown), None);
    }

    #[test]
    fn what_differs_is_said_and_of_several_the_first() {
        let all = || Holds::default();
        let cases = [
            (
                all().of_the_size(Some("large")).of_values(Some(4)),
                "it is promised of the size small, and this run is of the size large",
            ),
            (
                all().of_the_size(Some("small")).of_values(Some(4)),
                "there are too few values, 4: it takes 5, by --repeat",
            ),
            (
                all().of_instances(20, "a", Some(20)).of_instances(20, "b", Some(19)),
                "it is promised of 20 instances or more, and there were 19 of b",
            ),
            (all().of_copies(20, 19), "it is promised of 20 copies or more, and there were 19"),
            (
                all().of_steady_calls(100, Some(99)),
                "it is promised of 100 calls or more in steady state, and there were 99",
            ),
            (
                all().of_compression(60.0, 300.0),
                "it is promised of times divided by 60 at most, and these are by 300",
            ),
            (all().of_the_procedure("p", Some("--set q")), "it is promised of p, and this is --set q"),
        ];
        for (holds, why) in cases {
            assert_eq!(said(holds), Some(format!("not measured: {why}")));
        }
    }
}
