//! Sends the request that it is told to, and answers with what came of it. What it is not told it takes from its environment.

use serde_json::{Value, json};
use wasip2::{
    exports::http::incoming_handler::Guest,
    http::{
        outgoing_handler,
        types::{
            ErrorCode, Fields, IncomingBody, IncomingRequest, Method, OutgoingBody, OutgoingRequest,
            OutgoingResponse, ResponseOutparam, Scheme,
        },
    },
    io::streams::InputStream,
};

struct Caller;

impl Guest for Caller {
    fn handle(request: IncomingRequest, answer: ResponseOutparam) {
        let told = request.consume().expect("a new request has its body");
        let told: Value = serde_json::from_slice(&whole(told)).expect("JSON");
        let said = send(&told).unwrap_or_else(|code| json!({ "refused": format!("{code:?}") }));
        let headers = Fields::new();
        headers.set("content-type", &[b"application/json".to_vec()]).expect("a plain header");
        let response = OutgoingResponse::new(headers);
        let body = response.body().expect("a new response has its body");
        ResponseOutparam::set(answer, Ok(response));
        write(body, said.to_string().as_bytes());
    }
}

fn send(told: &Value) -> Result<Value, ErrorCode> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let own = |name: &str| told[name].as_str().map(str::to_owned);
    let host = own("host").unwrap_or_else(|| variable("__OW_API_HOST"));
    let key = own("key").unwrap_or_else(|| variable("__OW_API_KEY"));
    let (scheme, authority) = host.split_once("://").expect("an address");

    let headers = Fields::new();
    let basic = format!("Basic {}", base64(key.as_bytes()));
    headers.set("authorization", &[basic.into_bytes()]).expect("a plain header");
    headers.set("content-type", &[b"application/json".to_vec()]).expect("a plain header");
    let request = OutgoingRequest::new(headers);
    let method = if told["body"].is_null() { Method::Get } else { Method::Post };
    request.set_method(&method).expect("a method");
    request.set_scheme(Some(&if scheme == "https" { Scheme::Https } else { Scheme::Http })).expect("a scheme");
    request.set_authority(Some(authority)).expect("an authority");
    request.set_path_with_query(told["path"].as_str()).expect("a path");
    let body = request.body().expect("a new request has its body");
    let coming = outgoing_handler::handle(request, None)?;
    if told["body"].is_null() {
        drop(body);
    } else {
        write(body, told["body"].to_string().as_bytes());
    }
    coming.subscribe().block();
    let response = coming.get().expect("it has come").expect("it was not taken")?;
    let (status, header) = (response.status(), response.headers().get("location"));
    let body = whole(response.consume().expect("a new response has its body"));
    Ok(json!({
        "status": status,
        "location": header.first().map(|value| String::from_utf8_lossy(value)),
        "said": serde_json::from_slice::<Value>(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()),
        "host": host,
        "key": key,
    }))
}

fn write(body: OutgoingBody, bytes: &[u8]) {
    let to = body.write().expect("a new body has its stream");
    // The most that one blocking write takes is 4096 bytes.
    for piece in bytes.chunks(4096) {
        if to.blocking_write_and_flush(piece).is_err() {
            return; // the other side has gone away
        }
    }
    drop(to);
    let _ = OutgoingBody::finish(body, None);
}

fn whole(body: IncomingBody) -> Vec<u8> {
    let from: InputStream = body.stream().expect("a new body has its stream");
    let mut whole = Vec::new();
    while let Ok(piece) = from.blocking_read(64 << 10) {
        whole.extend(piece);
    }
    whole
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63] as char;
            text.push(if place <= three.len() { letter } else { '=' });
        }
    }
    text
}

wasip2::http::proxy::export!(Caller);
