//! Whether a client takes an answer of some type.

use http::{HeaderMap, header::ACCEPT};

use super::MediaType;

/// Whether the headers `Accept` let a type through. Without one, or with none that can be read, everything is taken.
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let Some(media) = MediaType::parse(media_type) else { return true };
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut best: Option<(u8, bool)> = None;
    let mut read_any = false;
    for range in values.flat_map(|value| value.split(',')) {
        let Some((pattern, taken)) = range_of(range) else { continue };
        read_any = true;
        // The most exact range decides; of two alike, one that takes it.
        if let Some(exact) = matches(&pattern, media.essence())
            && best.is_none_or(|best| (exact, taken) > best)
        {
            best = Some((exact, taken));
        }
    }
    !read_any || best.is_some_and(|(_, taken)| taken)
}

/// `type/subtype;q=…`: the type in lower case, and whether its quality is more than 0.
fn range_of(text: &str) -> Option<(String, bool)> {
    let mut parts = text.split(';').map(str::trim);
    let pattern = parts.next()?.to_ascii_lowercase();
    let (kind, subtype) = pattern.split_once('/')?;
    (!kind.is_empty() && !subtype.is_empty()).then_some(())?;
    let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    let taken =
        quality.is_none_or(|quality| quality.trim().parse::<f32>().is_ok_and(|quality| quality > 0.0));
    Some((pattern, taken))
}

/// How exactly a range names a type.
fn matches(pattern: &str, essence: &str) -> Option<u8> {
    if pattern == essence {
        return Some(2);
    }
    if pattern == "*/*" {
        return Some(0);
    }
    let kind = pattern.strip_suffix("/*")?;
    essence.split_once('/').is_some_and(|(own, _)| own == kind).then_some(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn takes(accept: &str, media: &str) -> bool {
        accepts(&HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]), media)
    }

    #[test]
    fn the_most_exact_range_decides() {
        assert!(accepts(&HeaderMap::new(), "text/html"));
        for accept in
            ["*/*", "text/html", "text/*;q=0.1", "image/png, TEXT/HTML", "*/*;q=0, text/html", "nonsense"]
        {
            assert!(takes(accept, "text/html; charset=UTF-8"), "{accept}");
        }
        for accept in
            ["image/png", "text/html;q=0", "text/html; q=0.0, */*", "image/*", "application/json, text/plain"]
        {
            assert!(!takes(accept, "text/html; charset=UTF-8"), "{accept}");
        }
    }

    #[test]
    fn several_headers_are_one_list() {
        let headers = HeaderMap::from_iter([(ACCEPT, "image/png".parse().unwrap())]);
        let mut both = headers.clone();
        both.append(ACCEPT, "text/html".parse().unwrap());
        assert!(!accepts(&headers, "text/html") && accepts(&both, "text/html"));
    }

    proptest! {
        #[test]
        fn no_header_panics(text in "[ -~]*") {
            let _ = takes(&text, "text/html");
        }
    }
}
