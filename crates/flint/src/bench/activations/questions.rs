//! The queries, and the number of records in their responses.

use std::ops::Range;

use anyhow::{Context as _, ensure};
use flint_lab::{HttpAnswer, Random};
use flint_model::ActivationId;
use serde_json::Value;

use super::fill::{Action, Records};

/// The maximum page size.
const PAGE: u64 = 200;

/// A query.
#[derive(Clone, Debug)]
pub(super) enum Question {
    /// A page of the list, or its size.
    List {
        /// Only of this action.
        action: Option<Action>,
        /// Only of this time range, as places of records.
        between: Option<Range<u64>>,
        skip: u64,
        limit: u64,
        form: Form,
    },
    /// A record by its id.
    One(ActivationId),
}

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Summaries,
    /// Whole records, with their logs.
    Docs,
    Count,
}

/// A kind of query; each one drawn is different.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Whether it is also measured with an empty cache.
    pub(super) uncached: bool,
    draw: fn(&Records, &mut Random) -> Question,
}

impl Kind {
    /// Queries of this kind, deterministic by seed.
    pub(super) fn questions(&self, records: &Records, seed: u64, count: usize) -> Vec<Question> {
        let part = self.name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        let mut random = Random::new(seed).part(part);
        (0..count).map(|_| (self.draw)(records, &mut random)).collect()
    }
}

fn list(action: Option<Action>, between: Option<Range<u64>>, form: Form) -> Question {
    Question::List { action, between, skip: 0, limit: PAGE, form }
}

fn after(skip: u64, action: Option<Action>) -> Question {
    Question::List { action, between: None, skip, limit: PAGE, form: Form::Summaries }
}

/// A random time range.
fn part(records: &Records, random: &mut Random) -> Option<Range<u64>> {
    let mut any = || random.below(records.records as usize) as u64;
    let (one, other) = (any(), any());
    Some(one.min(other)..one.max(other) + 1)
}

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "latest-30",
        uncached: false,
        draw: |_, _| Question::List {
            action: None,
            between: None,
            skip: 0,
            limit: 30,
            form: Form::Summaries,
        },
    },
    Kind { name: "latest-200-docs", uncached: true, draw: |_, _| list(None, None, Form::Docs) },
    Kind {
        name: "poll",
        uncached: false,
        // Like `wsk activation poll` when there is nothing new.
        draw: |records, _| list(None, Some(records.records..records.records), Form::Docs),
    },
    Kind {
        name: "action",
        uncached: true,
        draw: |_, random| list(Some(Action::common(random)), None, Form::Summaries),
    },
    Kind {
        name: "action-docs",
        uncached: true,
        draw: |_, random| list(Some(Action::common(random)), None, Form::Docs),
    },
    Kind {
        name: "part",
        uncached: false,
        draw: |records, random| list(None, part(records, random), Form::Summaries),
    },
    Kind {
        name: "part-of-action",
        uncached: true,
        draw: |records, random| list(Some(Action::common(random)), part(records, random), Form::Summaries),
    },
    Kind {
        name: "skip",
        uncached: true,
        draw: |records, random| after(random.below((records.records - PAGE) as usize) as u64, None),
    },
    Kind {
        name: "skip-of-action",
        uncached: true,
        draw: |records, random| {
            let action = Action::common(random);
            after(random.below((records.records / 100 - PAGE) as usize) as u64, Some(action))
        },
    },
    Kind {
        name: "oldest",
        uncached: true,
        draw: |records, random| after(records.records - 1 - random.below(PAGE as usize) as u64, None),
    },
    Kind { name: "rare", uncached: true, draw: |_, _| list(Some(Action::RARE), None, Form::Summaries) },
    Kind { name: "rare-docs", uncached: true, draw: |_, _| list(Some(Action::RARE), None, Form::Docs) },
    Kind {
        name: "part-of-rare",
        uncached: false,
        draw: |records, random| list(Some(Action::RARE), part(records, random), Form::Docs),
    },
    Kind { name: "absent", uncached: false, draw: |_, _| list(Some(Action::ABSENT), None, Form::Docs) },
    Kind { name: "count", uncached: false, draw: |_, _| list(None, None, Form::Count) },
    Kind {
        name: "count-action",
        uncached: false,
        draw: |_, random| list(Some(Action::common(random)), None, Form::Count),
    },
    Kind {
        name: "count-part",
        uncached: false,
        draw: |records, random| list(None, part(records, random), Form::Count),
    },
    Kind {
        name: "count-part-of-action",
        uncached: true,
        draw: |records, random| list(Some(Action::common(random)), part(records, random), Form::Count),
    },
    Kind {
        name: "count-absent",
        uncached: false,
        draw: |_, _| list(Some(Action::ABSENT), None, Form::Count),
    },
    Kind {
        name: "by-id",
        uncached: true,
        draw: |records, random| Question::One(records.ids[random.below(records.ids.len())]),
    },
];

impl Question {
    /// The path of the query, as `wsk` and the npm client build it.
    pub(super) fn path(&self, records: &Records) -> String {
        let collection = "/api/v1/namespaces/_/activations";
        let (action, between, skip, limit, form) = match self {
            Self::One(id) => return format!("{collection}/{id}"),
            Self::List { action, between, skip, limit, form } => (action, between, skip, limit, form),
        };
        let mut path = match form {
            Form::Summaries => format!("{collection}?limit={limit}&skip={skip}"),
            Form::Docs => format!("{collection}?docs=true&limit={limit}&skip={skip}"),
            Form::Count => format!("{collection}?count=true"),
        };
        if let Some(action) = action {
            path.push_str("&name=");
            path.push_str(&action.name().replace('/', "%2F"));
        }
        if let Some(places) = between {
            path.push_str(&format!("&since={}", records.start(places.start)));
            if !places.is_empty() {
                path.push_str(&format!("&upto={}", records.start(places.end - 1)));
            }
        }
        path
    }

    /// The number of items in the response, or that it states.
    fn items(&self, records: &Records) -> u64 {
        let Self::List { action, between, skip, limit, form } = self else { return 1 };
        let places = between.clone().unwrap_or(0..records.records);
        let all = match action {
            Some(action) => records.count(*action, places),
            None => places.end - places.start,
        };
        match form {
            Form::Count => all,
            Form::Summaries | Form::Docs => all.saturating_sub(*skip).min(*limit),
        }
    }

    /// Verifies a response.
    pub(super) fn check(&self, records: &Records, answer: &HttpAnswer) -> anyhow::Result<()> {
        let what = self.path(records);
        ensure!(answer.status == 200, "{what} was answered with status {}", answer.status);
        let body: Value = serde_json::from_slice(&answer.body).context("reading an answer")?;
        let (items, whole) = match self {
            Self::One(id) => (vec![body], Some(id)),
            Self::List { form: Form::Count, .. } => {
                let count = body["activations"].as_u64();
                let expected = self.items(records);
                ensure!(count == Some(expected), "{what} was answered with {body} instead of {expected}");
                return Ok(());
            }
            Self::List { .. } => (body.as_array().context("the answer is no list")?.clone(), None),
        };
        let expected = self.items(records);
        ensure!(items.len() as u64 == expected, "{what}: {} items instead of {expected}", items.len());
        let starts: Vec<_> = items.iter().filter_map(|item| item["start"].as_u64()).collect();
        ensure!(starts.len() == items.len() && starts.is_sorted_by(|a, b| a > b), "{what}: not latest first");
        let docs = matches!(self, Self::One(_) | Self::List { form: Form::Docs, .. });
        let has_logs = |item: &Value| item["logs"].as_array().is_some_and(|logs| logs.len() == 3);
        ensure!(!docs || items.iter().all(has_logs), "{what}: records without their logs");
        let right = whole.is_none_or(|id| items[0]["activationId"] == id.to_string());
        ensure!(right, "{what}: another record");
        Ok(())
    }
}
