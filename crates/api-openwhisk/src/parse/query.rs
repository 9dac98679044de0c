//! Parses query parameters.

use std::borrow::Cow;

use flint_model::Timestamp;
use flint_store::{ActivationQuery, Page};

use super::{action_filter, percent_decode};

/// Maximum page size, also used for a limit of 0.
const LARGEST_PAGE: usize = 200;

/// Default page size.
const USUAL_PAGE: usize = 30;

/// A parameter with an invalid value.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("The query parameter '{parameter}' was malformed:\n{detail}")]
pub struct QueryError {
    /// The parameter.
    pub parameter: &'static str,
    /// What is wrong with its value.
    pub detail: String,
}

/// A decoded query. Of duplicate parameters the first counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Parses the text after the `?`. Malformed percent-encoding stays as it is.
    pub fn parse(text: &'a str) -> Self {
        let decode = |part: &'a str| {
            let decoded = match part.contains('+') {
                true => percent_decode(&part.replace('+', " ")).map(|text| Cow::Owned(text.into_owned())),
                false => percent_decode(part),
            };
            decoded.unwrap_or(Cow::Borrowed(part))
        };
        let parts = text.split('&').filter(|part| !part.is_empty());
        let pairs = parts.map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(key), decode(value))
        });
        Self(pairs.collect())
    }

    /// The value of a parameter.
    pub fn get(&self, parameter: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == parameter).map(|(_, value)| value.as_ref())
    }

    /// Every parameter with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value.as_ref()))
    }

    /// A boolean: `true`, `yes`, `on`, `1` and their opposites, in any case.
    pub fn flag(&self, parameter: &'static str, default: bool) -> Result<bool, QueryError> {
        let Some(value) = self.get(parameter) else { return Ok(default) };
        match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(true),
            "false" | "no" | "off" | "0" => Ok(false),
            _ => Err(QueryError { parameter, detail: format!("'{value}' is not a valid Boolean value") }),
        }
    }

    /// How long a blocking call waits, in milliseconds.
    pub fn timeout(&self, most: u64) -> Result<u64, QueryError> {
        let Some(value) = self.get("timeout") else { return Ok(most) };
        value.parse().ok().filter(|millis| (1..=most).contains(millis)).ok_or_else(|| QueryError {
            parameter: "timeout",
            detail: format!("Timeout must be number of milliseconds up to {most}."),
        })
    }
}

/// The requested part of a list, and its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// The page.
    pub page: Page,
    /// Only the number of items.
    pub count: bool,
}

impl ListQuery {
    /// Parses `limit`, `skip` and `count` for a list of `collection`.
    pub fn parse(query: &Query<'_>, collection: &str) -> Result<Self, QueryError> {
        let integer = |parameter: &'static str| match query.get(parameter) {
            None => Ok(None),
            Some(value) => value.parse::<i64>().map(Some).map_err(|_| QueryError {
                parameter,
                detail: format!("The value '{value}' is not an integer for {collection}."),
            }),
        };
        let limit = match integer("limit")? {
            None => USUAL_PAGE,
            Some(0) => LARGEST_PAGE,
            Some(limit) => {
                usize::try_from(limit).ok().filter(|limit| *limit <= LARGEST_PAGE).ok_or_else(|| {
                    QueryError {
                        parameter: "limit",
                        detail: format!(
                            "The value '{limit}' is not in the range of 0 to {LARGEST_PAGE} for {collection}."
                        ),
                    }
                })?
            }
        };
        let skip = integer("skip")?.unwrap_or(0);
        let skip = usize::try_from(skip).map_err(|_| QueryError {
            parameter: "skip",
            detail: format!("The value '{skip}' is not greater than or equal to 0 for {collection}."),
        })?;
        Ok(Self { page: Page { skip, limit }, count: query.flag("count", false)? })
    }

    /// Parses the filters of an activation list.
    pub fn activations(query: &Query<'_>) -> Result<ActivationQuery, QueryError> {
        let instant = |parameter: &'static str| match query.get(parameter) {
            None => Ok(None),
            Some(value) => {
                value.parse().map(|millis| Some(Timestamp::from_millis(millis))).map_err(|_| QueryError {
                    parameter,
                    detail: format!("Parameter is not a valid value for epoch seconds: {value}"),
                })
            }
        };
        Ok(ActivationQuery {
            name: query.get("name").map(action_filter).transpose()?,
            since: instant("since")?,
            upto: instant("upto")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(query: &str) -> Result<ListQuery, String> {
        ListQuery::parse(&Query::parse(query), "actions").map_err(|error| error.to_string())
    }

    #[test]
    fn lists_have_limits_with_the_texts_of_the_api() {
        let page = |skip, limit| Ok(ListQuery { page: Page { skip, limit }, count: false });
        assert_eq!(list(""), page(0, 30));
        assert_eq!(list("limit=0&skip=7"), page(7, 200));
        assert_eq!(list("limit=200"), page(0, 200));
        assert!(list("count=yes").unwrap().count);
        for (query, parameter, detail) in [
            ("limit=201", "limit", "The value '201' is not in the range of 0 to 200 for actions."),
            ("limit=-1", "limit", "The value '-1' is not in the range of 0 to 200 for actions."),
            ("skip=-1", "skip", "The value '-1' is not greater than or equal to 0 for actions."),
            ("limit=x", "limit", "The value 'x' is not an integer for actions."),
            ("skip=1.5", "skip", "The value '1.5' is not an integer for actions."),
            ("count=maybe", "count", "'maybe' is not a valid Boolean value"),
        ] {
            let text = format!("The query parameter '{parameter}' was malformed:\n{detail}");
            assert_eq!(list(query), Err(text), "{query}");
        }
    }

    #[test]
    fn a_flag_is_said_in_many_ways() {
        let flag = |value: &str| Query::parse(&format!("blocking={value}")).flag("blocking", false);
        for (value, meant) in [
            ("true", true),
            ("yes", true),
            ("on", true),
            ("1", true),
            ("TRUE", true),
            ("false", false),
            ("no", false),
            ("off", false),
            ("0", false),
        ] {
            assert_eq!(flag(value), Ok(meant), "{value}");
        }
        assert!(flag("").is_err() && flag("2").is_err());
        assert_eq!(Query::parse("").flag("blocking", true), Ok(true));
    }

    #[test]
    fn values_are_decoded() {
        let query = Query::parse("a=1&a=2&b=x%20y+z&&c&%zz=1&d=%zz");
        assert_eq!(
            (query.get("a"), query.get("b"), query.get("c"), query.get("d"), query.get("%zz")),
            (Some("1"), Some("x y z"), Some(""), Some("%zz"), Some("1"))
        );
    }

    #[test]
    fn a_blocking_call_waits_at_most_as_long_as_allowed() {
        let timeout = |query| Query::parse(query).timeout(60_000);
        assert_eq!((timeout(""), timeout("timeout=1")), (Ok(60_000), Ok(1)));
        for bad in ["timeout=0", "timeout=60001", "timeout=x", "timeout="] {
            let text = timeout(bad).unwrap_err().to_string();
            assert!(text.ends_with("\nTimeout must be number of milliseconds up to 60000."), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_query_panics(text in ".*") {
            let query = Query::parse(&text);
            let _ = (ListQuery::parse(&query, "x"), ListQuery::activations(&query), query.timeout(9));
        }
    }
}
