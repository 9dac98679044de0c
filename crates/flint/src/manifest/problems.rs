//! Problems of a manifest: where, under which key, and what to do. All are reported at once.

use std::fmt;

use crate::failure::Failure;

/// Maximum number of reported problems; a file of another type would have thousands.
const MOST_TOLD: usize = 50;

/// An error or a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    file: String,
    line: usize,
    /// The path of keys, separated by dots.
    key: String,
    what: String,
    next: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    /// The file being read.
    pub(crate) file: String,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Problems {
    pub(crate) fn of(file: impl Into<String>) -> Self {
        Self { file: file.into(), ..Self::default() }
    }

    /// Adds an error, which prevents the deployment. `next` may be empty.
    pub(crate) fn error(&mut self, line: usize, key: &str, what: impl Into<String>, next: &str) {
        let problem = self.problem(line, key, what.into(), next);
        self.errors.push(problem);
    }

    /// Adds a warning, which does not.
    pub(crate) fn warn(&mut self, line: usize, key: &str, what: impl Into<String>, next: &str) {
        let problem = self.problem(line, key, what.into(), next);
        self.warnings.push(problem);
    }

    /// Adds a failure reported elsewhere, at a position here.
    pub(crate) fn failed(&mut self, line: usize, key: &str, failure: Failure) {
        self.error(line, key, failure.message, failure.hint.as_deref().unwrap_or_default());
    }

    fn problem(&self, line: usize, key: &str, what: String, next: &str) -> Problem {
        let next = (!next.is_empty()).then(|| next.to_owned());
        Problem { file: self.file.clone(), line, key: key.to_owned(), what, next }
    }

    /// Adds problems found elsewhere.
    pub(crate) fn join(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.warnings.extend(other.warnings);
    }

    /// Whether there are no errors.
    pub(crate) fn is_fine(&self) -> bool {
        self.errors.is_empty()
    }

    /// The warnings as text, each with its next step.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let told = |problem: &Problem| match &problem.next {
            Some(next) => format!("{problem} ({next})"),
            None => problem.to_string(),
        };
        self.warnings.iter().map(told).collect()
    }

    /// The errors as one failure; `Ok` if there are none.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let (first, more) = match self.errors.as_slice() {
            [] => return Ok(()),
            [only] => {
                let failure = Failure::new(crate::failure::Exit::Usage, "manifest", only.to_string());
                return Err(match &only.next {
                    Some(next) => failure.hint(next),
                    None => failure,
                });
            }
            all => all.split_at(all.len().min(MOST_TOLD)),
        };
        let mut text = format!("the manifest has {} errors, and nothing was changed", self.errors.len());
        for problem in first {
            text.push_str(&format!("\n  {problem}"));
            if let Some(next) = &problem.next {
                text.push_str(&format!("\n    try: {next}"));
            }
        }
        if !more.is_empty() {
            text.push_str(&format!("\n  and {} more", more.len()));
        }
        Err(Failure::new(crate::failure::Exit::Usage, "manifest", text))
    }
}

/// The one of `known` that `given` was probably meant to be.
pub(crate) fn meant<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = given.to_ascii_lowercase();
    known
        .into_iter()
        .map(|one| (strsim::damerau_levenshtein(&lower, &one.to_ascii_lowercase()), one))
        .filter(|(distance, one)| *distance <= (one.len() / 2).min(2))
        .min()
        .map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_is_a_sentence_and_several_are_a_list() {
        let mut problems = Problems::of("m.yaml");
        assert!(problems.check().is_ok());
        problems.error(3, "packages.p", "is odd", "make it even");
        let failure = problems.check().unwrap_err();
        assert_eq!(
            (failure.message.as_str(), failure.hint.as_deref()),
            ("m.yaml:3: packages.p: is odd", Some("make it even"))
        );
        problems.error(1, "", "is not a map", "");
        let text = problems.check().unwrap_err().message;
        assert!(
            text.contains("2 errors") && text.contains("try: make it even") && text.contains("m.yaml:1: is")
        );
        for _ in 0..100 {
            problems.error(1, "", "again", "");
        }
        assert!(problems.check().unwrap_err().message.ends_with("and 52 more"));
    }

    #[test]
    fn typing_errors_are_guessed_and_other_words_are_not() {
        let known = ["function", "runtime", "inputs", "web"];
        assert_eq!(meant("runtme", known), Some("runtime"));
        assert_eq!(meant("Inputs", known), Some("inputs"));
        assert_eq!(meant("colour", known), None);
        assert_eq!(meant("a", known), None);
    }
}
