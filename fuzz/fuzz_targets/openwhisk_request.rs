//! The path and the query of a request.
#![no_main]

use flint_api_openwhisk::{
    parse::{self, ListQuery, Method, Query},
    web_path,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &str, &str)| {
    let (method, path, query) = input;
    let methods = [Method::Get, Method::Put, Method::Post, Method::Delete, Method::Other];
    let _ = parse::route(methods[usize::from(method) % methods.len()], path);
    let query = Query::parse(query);
    if let Ok(list) = ListQuery::parse(&query, "actions") {
        assert!((1..=200).contains(&list.page.limit) || list.count);
    }
    let _ = ListQuery::activations(&query);
    if let Ok(wait) = query.timeout(60_000) {
        assert!((1..=60_000).contains(&wait));
    }
    let _ = parse::percent_decode(path);
    let _ = parse::action_filter(path);
    // With a host in it, as a proxy may send it.
    if let Ok(uri) = path.parse()
        && let Some(path) = web_path(&uri, &Default::default(), &["localhost".to_owned()])
    {
        assert!(path.starts_with("/api/v1/web/"), "{path:?}");
    }
});
