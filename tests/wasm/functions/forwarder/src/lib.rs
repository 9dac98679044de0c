//! For WASI 0.3: asks the API for the path that it was asked for, and gives on what that answers.

use wasip3::{
    http::{
        client,
        types::{ErrorCode, Fields, Request, Response, Scheme},
    },
    wit_future,
};

struct Forwarder;

impl wasip3::exports::http::handler::Guest for Forwarder {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let own = |name: &str| {
            let values = request.get_headers().get(name);
            values.first().map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let host = own("x-host").unwrap_or_else(|| variable("__OW_API_HOST"));
        let credentials = own("x-credentials").unwrap_or_default();
        let headers = Fields::new();
        headers.set("authorization", &[credentials.into_bytes()]).expect("a plain header");
        let (trailers, no_trailers) = wit_future::new(|| Ok(None));
        drop(trailers);
        let (asked, _sent) = Request::new(headers, None, no_trailers, None);
        asked.set_scheme(Some(&Scheme::Http)).expect("a scheme");
        asked.set_authority(host.strip_prefix("http://")).expect("an authority");
        asked.set_path_with_query(request.get_path_with_query().as_deref()).expect("a path");
        client::send(asked).await
    }
}

wasip3::http::service::export!(Forwarder);
