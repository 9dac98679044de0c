//! Requests with headers that no well-meaning client sends: taken or refused, and never felt by others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use flint_executor::{Call, CallHead, Fault};
use flint_model::Contract;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use support::{AMPLE, HELLO_COMPONENT, House, all_is_well, done, json_call, wat};

/// Headers that a server passes on, but that no well-meaning client sends.
fn hostile_headers() -> Vec<(&'static str, HeaderMap)> {
    let mut all = Vec::new();
    let mut add = |what, fill: &dyn Fn(&mut HeaderMap)| {
        let mut headers = HeaderMap::new();
        fill(&mut headers);
        all.push((what, headers));
    };
    let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).unwrap();
    add("no text", &|headers| {
        headers.insert("x-bytes", value(&(0x80..=0xff).collect::<Vec<_>>()));
        headers.insert("host", value(b"\xff\xfe"));
    });
    add("many", &|headers| {
        for number in 0..5000 {
            headers.insert(HeaderName::try_from(format!("x-{number}")).unwrap(), value(b"v"));
        }
    });
    add("one name", &|headers| {
        for _ in 0..5000 {
            headers.append("x", value(b"v"));
        }
    });
    add("long", &|headers| {
        headers.insert("x-long", value(&vec![b'v'; 1 << 20]));
    });
    add("two lengths", &|headers| {
        headers.append("content-length", value(b"5"));
        headers.append("content-length", value(b"7"));
        headers.append("transfer-encoding", value(b"chunked"));
    });
    add("wrong length", &|headers| {
        headers.insert("content-length", value(b"-1"));
    });
    add("hop by hop", &|headers| {
        headers.insert("connection", value(b"x-secret, close"));
        headers.insert("upgrade", value(b"h2c"));
        headers.insert("expect", value(b"100-continue"));
    });
    add("names of variables", &|headers| {
        headers.insert("proxy", value(b"http://attacker/"));
        headers.insert("__ow_api_key", value(b"stolen"));
    });
    all
}

#[tokio::test]
async fn hostile_headers_harm_nobody() {
    let house = House::new();
    let component = wat(include_str!("modules/http.wat"));
    let http = house.start(Contract::WasiHttp, &component).await;
    let command = house.start(Contract::WasiCommand, &wat(HELLO_COMPONENT)).await;
    for (what, headers) in hostile_headers() {
        for (instance, path) in [(&http, "/hello"), (&http, "/%00%ff/../.."), (&command, "/")] {
            let head = CallHead {
                method: Method::from_bytes(b"BREW").unwrap(),
                path: path.to_owned(),
                query: "a=%00&b=\u{e4}".to_owned(),
                headers: headers.clone(),
            };
            let call = Call { head: Some(Box::new(head)), ..json_call("", AMPLE) };
            let ended = done(instance.invoke(call).await);
            // Taken or refused; a fault of the platform would be the caller's to make.
            if let Err(fault) = &ended.result {
                assert!(matches!(fault, Fault::Developer { .. }), "{what} {path}: {fault:?}");
            }
        }
    }
    all_is_well(&house).await;
}
