//! What a body is said to be.

use http::{HeaderMap, header::CONTENT_TYPE};

/// The media type of a body without its parameters, in whatever case it is written; `None`: nothing is said.
pub fn media_type(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(CONTENT_TYPE)?.as_bytes();
    Some(value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn parameters_are_left_out() {
        let of = |value| media_type(&HeaderMap::from_iter([(CONTENT_TYPE, value)])).map(<[u8]>::to_vec);
        assert_eq!(of(HeaderValue::from_static("Text/HTML ; charset=utf-8")).unwrap(), b"Text/HTML");
        assert_eq!(of(HeaderValue::from_static("a/b")).unwrap(), b"a/b");
        assert_eq!(of(HeaderValue::from_static("")).unwrap(), b"");
        assert_eq!(media_type(&HeaderMap::new()), None);
    }
}
