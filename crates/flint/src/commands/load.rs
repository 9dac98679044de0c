//! `flint bench load`: measures what callers of a function or URL see under load.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use flint_lab::{
    Arrivals, Failures, Host, HttpArm, HttpRequest, Load, OpenLoad, OpenMeasured, drive_open, drive_within,
};
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};

use super::call::Input;
use crate::{
    bench::commit,
    cli::{Global, LoadArgs},
    client::{Address, key_for},
    failure::{Exit, Failure},
    output::{Progress, print_json, print_line},
};

pub(crate) async fn run(global: &Global, args: &LoadArgs) -> anyhow::Result<Exit> {
    if args.closed.is_none() && args.warm_up >= args.duration {
        return Err(Failure::usage("the warm-up takes all of the duration")
            .hint("--duration is the whole time, and --warm-up its beginning that is not counted")
            .into());
    }
    let host = Host::describe();
    let (address, request) = request(global, args).await?;
    let arm = Arc::new(HttpArm::new(address, vec![request]));
    let progress = Progress::start(format!("loading {} for {:?}", args.target, args.duration));
    let outcome = match args.closed {
        Some(callers) => closed(&arm, args, callers as usize).await?,
        None => {
            let arrivals = match args.poisson {
                true => Arrivals::Poisson { rate: args.rate, seed: args.seed },
                false => Arrivals::Constant { rate: args.rate },
            };
            let load = OpenLoad {
                arrivals,
                duration: args.duration,
                warm_up: args.warm_up,
                connections: args.connections as usize,
                timeout: args.timeout,
            };
            open(args, &drive_open(arm, &load).await.map_err(|error| Failure::local(error.to_string()))?)
        }
    };
    drop(progress);
    match global.json {
        true => print_json(&placed(outcome.document, &host))?,
        false => print_line(&outcome.text)?,
    }
    Ok(if outcome.answered > 0 { Exit::Ok } else { Exit::FunctionFailed })
}

struct Outcome {
    answered: u64,
    document: Value,
    text: String,
}

/// Figures with the host and the commit of this program, which drives the load, as reports of experiments have them.
fn placed(mut figures: Value, host: &Host) -> Value {
    figures["host"] = json!(host);
    figures["commit"] = commit().into();
    figures
}

/// The target and the request.
async fn request(global: &Global, args: &LoadArgs) -> anyhow::Result<(SocketAddr, HttpRequest)> {
    let input = Input::read(&args.call)?;
    let is_url = args.target.contains("://");
    let (address, host, mut headers, method, path, request);
    if is_url {
        let uri: Uri = args
            .target
            .parse()
            .map_err(|error| Failure::usage(format!("'{}' is not a URL: {error}", args.target)))?;
        let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
        address = Address::parse(&format!("{}://{authority}", uri.scheme_str().unwrap_or_default()))?;
        host = authority.to_owned();
        let has_body =
            !args.call.params.is_empty() || args.call.file.is_some() || args.call.param_file.is_some();
        path = uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
        headers = Vec::new();
        let made = input.request("url", "")?;
        method = args.method.clone().unwrap_or(if has_body { Method::POST } else { Method::GET });
        request = match has_body {
            true => made,
            false => {
                let (mut parts, _) = made.into_parts();
                if !args.call.headers.iter().any(|(name, _)| name == header::CONTENT_TYPE) {
                    parts.headers.remove(header::CONTENT_TYPE);
                }
                Request::from_parts(parts, Full::default())
            }
        };
    } else {
        if args.method.is_some() {
            return Err(Failure::usage("--method is for URLs; functions are invoked with POST").into());
        }
        address = Address::parse(&global.url)?;
        host = address.to_string().trim_start_matches("http://").to_owned();
        headers = key_for(&address, global.auth.as_deref())?
            .map(|key| format!("authorization: Bearer {key}"))
            .into_iter()
            .collect();
        request = input.request(&args.target, "")?;
        method = Method::POST;
        path = request.uri().to_string();
    }
    let (parts, body) = request.into_parts();
    for (name, value) in &parts.headers {
        let value = value
            .to_str()
            .map_err(|_| Failure::usage(format!("the header {name} has characters beyond ASCII")))?;
        headers.push(format!("{name}: {value}"));
    }
    let body = body.collect().await?.to_bytes();
    let found = tokio::net::lookup_host((address.host(), address.port())).await;
    let found: Vec<_> = found.into_iter().flatten().collect();
    let socket = first_that_connects(&found, args.timeout)
        .await
        .ok_or_else(|| Failure::usage(format!("the host {} has no address", address.host())))?;
    Ok((socket, HttpRequest::new(method.as_str(), &path, host, &headers, &body, args.expect)))
}

/// The first address that connects; where none does, the first, whose failure each call will count.
async fn first_that_connects(found: &[SocketAddr], limit: Duration) -> Option<SocketAddr> {
    // The only one is not asked: the connection would be one more than the load's.
    for address in found.iter().filter(|_| found.len() > 1) {
        if matches!(timeout(limit, TcpStream::connect(address)).await, Ok(Ok(_))) {
            return Some(*address);
        }
    }
    found.first().copied()
}

async fn closed(arm: &HttpArm, args: &LoadArgs, callers: usize) -> anyhow::Result<Outcome> {
    let load = |duration| Load { concurrency: callers, duration, warm_up: 0 };
    let driven = async {
        if !args.warm_up.is_zero() {
            drive_within(arm, load(args.warm_up), args.timeout).await?;
        }
        drive_within(arm, load(args.duration), args.timeout).await
    };
    let measured = driven.await.map_err(|error| {
        // As for an open loop without a single correct response.
        Failure::new(Exit::FunctionFailed, "nothing_measured", format!("nothing was measured: {error}"))
    })?;
    let latency = quantiles(&measured.latency_ns);
    let document = json!({
        "target": args.target, "loop": "closed", "callers": callers, "answered": measured.calls,
        "calls_per_s": measured.rate(), "wall_s": measured.wall.as_secs_f64(), "latency_us": latency,
    });
    let text = format!(
        "{} answers in {:.1} s: {:.0} calls/s by {callers} callers\n\n{}\n\nA closed loop: callers who find the function slow call it less often. Users do not.",
        measured.calls,
        measured.wall.as_secs_f64(),
        measured.rate(),
        rows(&[("latency", &latency)]),
    );
    Ok(Outcome { answered: measured.calls, document, text })
}

fn open(args: &LoadArgs, measured: &OpenMeasured) -> Outcome {
    let (latency, service, late) =
        (quantiles(&measured.latency_ns), quantiles(&measured.service_ns), quantiles(&measured.late_ns));
    let warnings = warnings(args, measured);
    let document = json!({
        "target": args.target, "loop": "open", "arrivals": if args.poisson { "poisson" } else { "constant" },
        "rate": args.rate, "seed": args.poisson.then_some(args.seed), "intended": measured.intended,
        "answered": measured.answered(), "failed": measured.failures.calls(), "failures": measured.failures,
        "calls_per_s": measured.rate(), "wall_s": measured.wall.as_secs_f64(),
        "connections": measured.connections, "latency_us": latency, "service_us": service, "late_us": late,
        "warnings": warnings,
    });
    let mut text = format!(
        "{} of {} calls answered, {:.1}/s of {}/s meant, over {} connections\n\n{}",
        measured.answered(),
        measured.intended,
        measured.rate(),
        args.rate,
        measured.connections,
        rows(&[("latency", &latency), ("service", &service), ("sent late", &late)]),
    );
    text.push_str(&failure_lines(&measured.failures));
    for warning in warnings {
        text.push_str(&format!("\n\nwarning: {warning}"));
    }
    Outcome { answered: measured.answered(), document, text }
}

/// Caveats for readers of the figures.
fn warnings(args: &LoadArgs, measured: &OpenMeasured) -> Vec<String> {
    let mut warnings = Vec::new();
    let late_ms = measured.late_ns.value_at_quantile(0.99) as f64 / 1e6;
    let all_taken = measured.connections >= args.connections as usize;
    if all_taken && late_ms > 10.0 {
        warnings.push(format!(
            "all {} connections were in use and calls waited for one (p99 {late_ms:.0} ms, part of the latency): raise --connections, or the target cannot serve this rate",
            args.connections
        ));
    } else if late_ms > 10.0 {
        warnings.push(format!(
            "the generator itself was late (p99 {late_ms:.0} ms, part of the latency): this machine is too busy to load anything at this rate"
        ));
    }
    if measured.answered() == 0 {
        warnings.push("no call was answered rightly: there are no latencies".into());
    }
    warnings
}

fn failure_lines(failures: &Failures) -> String {
    failures
        .kinds()
        .map(|(kind, failed)| format!("\nfailed: {} × {kind}, the first: {}", failed.calls, failed.example))
        .collect()
}

const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// In µs; null if nothing was measured.
fn quantiles(histogram: &hdrhistogram::Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return Value::Null;
    }
    QUANTILES
        .iter()
        .map(|(name, q)| ((*name).to_owned(), json!(histogram.value_at_quantile(*q) as f64 / 1e3)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn rows(rows: &[(&str, &Value)]) -> String {
    let mut text = format!("{:<12}", "ms");
    for (name, _) in QUANTILES {
        text.push_str(&format!("{name:>11}"));
    }
    for (title, values) in rows {
        text.push_str(&format!("\n{title:<12}"));
        for (name, _) in QUANTILES {
            match values.get(name).and_then(Value::as_f64) {
                Some(us) => text.push_str(&format!("{:>11.2}", us / 1e3)),
                None => text.push_str(&format!("{:>11}", "–")),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        sync::atomic::{AtomicU64, Ordering},
    };

    use clap::Parser as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }

    #[tokio::test]
    async fn all_calls_of_a_closed_loop_count_but_those_of_its_warm_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answered = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&answered);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counted = Arc::clone(&counted);
                tokio::spawn(async move {
                    while stream.read(&mut [0; 4096]).await.is_ok_and(|n| n > 0) {
                        counted.fetch_add(1, Ordering::Relaxed);
                        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                    }
                });
            }
        });
        let arm = HttpArm::new(address, vec![HttpRequest::new("GET", "/", address, &[], b"", 200)]);
        for (warm_up, all) in [("0s", true), ("20ms", false)] {
            let line = ["load", "http://x", "--closed", "2", "--duration", "20ms", "--warm-up", warm_up];
            answered.store(0, Ordering::Relaxed);
            let outcome = closed(&arm, &Line::parse_from(line).load, 2).await.unwrap();
            assert_eq!(outcome.answered == answered.load(Ordering::Relaxed), all, "{warm_up}");
        }
    }

    #[test]
    fn a_document_says_where_it_was_measured() {
        let host = Host { cpu: "fast".into(), cores: 3, ..Host::default() };
        let document = placed(json!({ "loop": "open" }), &host);
        assert_eq!(document["host"], serde_json::to_value(&host).unwrap());
        assert_eq!((&document["loop"], &document["commit"]), (&json!("open"), &json!(commit())));
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listens = listener.local_addr().unwrap();
        let refuses = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let chosen = async |found: &[SocketAddr]| first_that_connects(found, Duration::from_secs(9)).await;
        assert_eq!(chosen(&[refuses, listens]).await, Some(listens));
        assert_eq!(chosen(&[refuses, refuses]).await, Some(refuses));
        assert_eq!(chosen(&[]).await, None);
    }
}
