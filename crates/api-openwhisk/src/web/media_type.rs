//! Media types, and which bodies are text.

use http::HeaderValue;

/// A media type without its parameters, and whether they name a charset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaType {
    /// `type/subtype`, lower case.
    essence: String,
    has_charset: bool,
}

/// Types below `application` that are text all the same.
const TEXT: &[&str] = &[
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/toml",
    "application/x-javascript",
    "application/x-www-form-urlencoded",
    "application/x-yaml",
    "application/xml",
    "application/xml-dtd",
    "application/yaml",
];

impl MediaType {
    /// Reads `type/subtype[; parameter=value]…`; `None` when it is not that.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = unquoted(text);
        let essence = parts.next()?.trim();
        let (kind, subtype) = essence.split_once('/')?;
        (is_token(kind) && is_token(subtype)).then_some(())?;
        let mut has_charset = false;
        for parameter in parts.map(str::trim).filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=')?;
            (is_token(name.trim_end()) && !value.trim().is_empty()).then_some(())?;
            has_charset |= name.trim_end().eq_ignore_ascii_case("charset");
        }
        Some(Self { essence: essence.to_ascii_lowercase(), has_charset })
    }

    /// The same of a header.
    pub(crate) fn of_header(value: &HeaderValue) -> Option<Self> {
        Self::parse(value.to_str().ok()?)
    }

    /// `type/subtype`.
    pub(crate) fn essence(&self) -> &str {
        &self.essence
    }

    /// `application/json`, or a type that is written in it.
    pub fn is_json(&self) -> bool {
        self.essence == "application/json" || self.essence.ends_with("+json")
    }

    /// A form's fields.
    pub fn is_form(&self) -> bool {
        self.essence == "application/x-www-form-urlencoded"
    }

    /// An SVG image: text, but OpenWhisk counts it among the binary ones.
    pub(crate) fn is_svg(&self) -> bool {
        self.essence == "image/svg+xml"
    }

    /// Whether bodies of this type are bytes, which JSON carries as base64. What nobody knows is bytes unless it names a charset.
    pub fn is_binary(&self) -> bool {
        let text = self.essence.starts_with("text/")
            || self.is_json()
            || self.essence.ends_with("+xml") && !self.is_svg()
            || TEXT.contains(&self.essence.as_str())
            || self.has_charset && !self.essence.starts_with("multipart/");
        !text
    }

    /// Whether a charset should be named with it: text whose type does not fix one.
    pub(crate) fn wants_charset(&self) -> bool {
        !self.has_charset && !self.is_binary() && !self.is_json()
    }
}

/// The parts between semicolons, except those within quotation marks.
fn unquoted(text: &str) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |sign: char| {
        let was_escaped = escaped;
        escaped = quoted && sign == '\\' && !was_escaped;
        quoted ^= sign == '"' && !was_escaped;
        sign == ';' && !quoted
    })
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> MediaType {
        MediaType::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn text_is_told_from_bytes() {
        for text in [
            "text/plain",
            "TEXT/HTML; charset=utf-8",
            "application/json",
            "application/vnd.api+json",
            "application/xhtml+xml",
            "application/javascript",
            "application/x-www-form-urlencoded",
            "application/x-mine; charset=utf-8",
            "application/x-mine; note=\"\\\";\"; charset=utf-8",
        ] {
            assert!(!of(text).is_binary(), "{text}");
        }
        for bytes in [
            "image/png",
            "image/svg+xml",
            "application/octet-stream",
            "application/x-mine",
            "multipart/form-data; boundary=x",
            "multipart/form-data; boundary=x; charset=utf-8",
            "multipart/form-data; boundary=\"a;b\"",
            "application/x-mine; note=\"; charset=utf-8\"",
            "application/x-mine; note=\"\\\"; charset=utf-8\"",
        ] {
            assert!(of(bytes).is_binary(), "{bytes}");
        }
    }

    #[test]
    fn a_charset_is_named_where_a_text_has_none() {
        for (text, wanted) in [
            ("text/html", true),
            ("text/html; Charset=latin1", false),
            ("application/json", false),
            ("image/png", false),
        ] {
            assert_eq!(of(text).wants_charset(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_media_type_is_refused() {
        for bad in
            ["", "text", "/", "text/", "/html", "a b/c", "text/html; charset", "text/html; =x", "a/b/c"]
        {
            assert_eq!(MediaType::parse(bad), None, "{bad}");
        }
        assert!(MediaType::parse("text/html;").is_some(), "a semicolon too many is harmless");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            if let Some(media) = MediaType::parse(&text) {
                let _ = (media.is_binary(), media.wants_charset(), media.is_form());
            }
        }
    }
}
