//! A request to a web action, a result on its way to an answer, and an API that is created.
#![no_main]

use flint_api_openwhisk::parse::{
    gateway::create_api,
    web::{Envelope, MediaType, Projection, arguments, target},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &str, &str, &str, &[u8])| {
    let (choice, path, query, media, body) = input;
    if let Some(target) = target(path) {
        assert!(target.rest.is_empty() || target.rest.starts_with('/'));
    }
    let (method, headers) = (Default::default(), Default::default());
    let envelope = Envelope { method: &method, headers: &headers, rest: path, query, user: None };
    // Types that lead somewhere, and whatever was found.
    let media = match choice % 4 {
        0 => "application/json",
        1 => "application/x-www-form-urlencoded",
        2 => "text/plain",
        _ => media,
    };
    let media = MediaType::parse(media);
    if let Ok(arguments) = arguments(&envelope, media.as_ref(), body, choice & 0x80 != 0) {
        // Numbers pass as they came, also those too large for a float.
        let read: std::collections::BTreeMap<String, &serde_json::value::RawValue> =
            serde_json::from_str(&arguments).unwrap();
        assert!(read.contains_key("__ow_method"));
    }
    let _ = create_api(body, &"guest".parse().unwrap(), Some(query));
    if let Ok(result) = serde_json::from_slice::<&serde_json::value::RawValue>(body) {
        for form in [Projection::Http, Projection::Json, Projection::Html, Projection::Svg, Projection::Text]
        {
            if let Ok(answer) = form.project(result) {
                assert!(answer.status.as_u16() >= 200);
            }
        }
    }
});
