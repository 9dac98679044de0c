//! An HTTP server's handler: status, headers and a body that streams in and out.

use wasip2::{
    exports::http::incoming_handler::Guest,
    http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam},
    io::streams::StreamError,
};

struct Shout;

impl Guest for Shout {
    /// Answers with the request's body in capitals, piece by piece as it comes.
    fn handle(request: IncomingRequest, answer: ResponseOutparam) {
        let headers = Fields::new();
        let path = request.path_with_query().unwrap_or_default();
        // Both values are plain ASCII names and text, which no host refuses.
        let _ = headers.set("content-type", &[b"text/plain".to_vec()]);
        let _ = headers.set("x-path", &[path.clone().into_bytes()]);
        eprintln!("asked for {path}");
        let response = OutgoingResponse::new(headers);
        let body = response.body().expect("a new response has its body");
        ResponseOutparam::set(answer, Ok(response));

        let input = request.consume().expect("a new request has its body");
        let from = input.stream().expect("a new body has its stream");
        let to = body.write().expect("a new body has its stream");
        loop {
            match from.blocking_read(4096) {
                // The most that one blocking write takes is 4096 bytes.
                Ok(piece) => {
                    if to.blocking_write_and_flush(&piece.to_ascii_uppercase()).is_err() {
                        return; // the caller has gone away
                    }
                }
                Err(StreamError::Closed) => break,
                Err(StreamError::LastOperationFailed(error)) => {
                    eprintln!("the request was cut short: {}", error.to_debug_string());
                    return;
                }
            }
        }
        drop(to);
        let _ = OutgoingBody::finish(body, None);
    }
}

wasip2::http::proxy::export!(Shout);
