//! `flint get`: shows a function, or writes its code to a file.

use std::{
    io::{self, Write as _},
    path::Path,
};

use flint_api_native::resource::{AskedResource, FunctionResource, SnapshotResource, WasmResource};
use http::Method;
use serde_json::{Value, json};

use super::invoke::Target;
use crate::{
    cli::{GetArgs, Global},
    client::{Client, collect, segment},
    failure::{Exit, Failure},
    output::{
        clock, human_duration, human_size, prepared_lines, print_json, print_line, strategy_words, tell,
    },
};

pub(crate) async fn run(global: &Global, args: &GetArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let path = format!("/v1/functions/{}", segment(&args.name));
    if let Some(target) = &args.save {
        Target::check(target, "--save /dev/stdout")?;
        let code = collect(client.request(Method::GET, &format!("{path}/code"), "*/*", None).await?).await?;
        save(target, &code)
            .map_err(|error| Failure::local(format!("cannot write {}: {error}", target.display())))?;
        match global.json {
            true => print_json(&json!({ "saved": target.to_string_lossy(), "size": code.len() }))?,
            false => tell!("wrote {} to {}", human_size(code.len() as u64), target.display()),
        }
        return Ok(Exit::Ok);
    }
    let function: FunctionResource = client.get(&path).await?;
    match global.json {
        true => print_json(&function)?,
        false => print_line(&describe(&function))?,
    }
    Ok(Exit::Ok)
}

fn save(path: &Path, code: &[u8]) -> io::Result<()> {
    let target = Target::open(path)?;
    target.file().write_all(code)?;
    target.done()
}

/// The parts of a strategy that the user chose.
fn asked_words(asked: &AskedResource) -> String {
    let said = [
        asked.contract.map(|contract| format!("contract {contract}")),
        asked.isolation.map(|isolation| format!("isolation {isolation}")),
        asked.start.map(|start| format!("start {start}")),
        asked.reuse.map(|reuse| format!("reuse {reuse}")),
    ];
    let said: Vec<_> = said.into_iter().flatten().collect();
    match said.is_empty() {
        true => "chosen by Flint".to_owned(),
        false => format!("asked for: {}", said.join(", ")),
    }
}

/// Grants of a WebAssembly function beyond its own assets; its configuration may contain secrets, and is not
/// shown.
fn grant_words(grants: &WasmResource) -> Vec<String> {
    let mut words: Vec<String> =
        grants.allow_hosts.iter().map(|host| format!("HTTP requests to {host}")).collect();
    if grants.keyvalue {
        words.push("the namespace's key-value buckets".to_owned());
    }
    if !grants.config.is_empty() {
        let keys: Vec<&str> = grants.config.keys().map(String::as_str).collect();
        words.push(format!("configuration: {}", keys.join(", ")));
    }
    if grants.preinit == Some(false) {
        words.push("no pre-initialisation".to_owned());
    }
    words
}

fn warmup_words(options: &SnapshotResource) -> String {
    let mut words = vec![match options.warmup_events {
        0 => "no events".to_owned(),
        1 => format!("1 event, {}", human_size(options.warmup_bytes)),
        count => format!("{count} events, {}", human_size(options.warmup_bytes)),
    }];
    words.extend(options.warmup_network.then(|| "with the network".to_owned()));
    words.extend((!options.annotate).then(|| "not annotated".to_owned()));
    words.extend(options.jit.map(|jit| format!("jit {jit}")));
    words.join(", ")
}

/// `1 core`, `0.5 cores`
fn cores(cpu_millis: u32) -> String {
    match cpu_millis {
        1000 => "1 core".to_owned(),
        millis => format!("{} cores", f64::from(millis) / 1000.0),
    }
}

fn describe(function: &FunctionResource) -> String {
    let FunctionResource { strategy, limits, .. } = function;
    let instances =
        limits.instances.map_or("as many as memory allows".to_owned(), |most| format!("at most {most}"));
    let mut rows = vec![
        ("name", format!("{}/{}", function.namespace, function.name)),
        (
            "version",
            format!(
                "{} (revision {}){}, {}",
                function.version,
                function.revision,
                function.restored.as_ref().map(|version| format!(", {version} again")).unwrap_or_default(),
                clock(function.updated)
            ),
        ),
        ("kind", function.kind.clone()),
        ("main", function.main.clone().unwrap_or_else(|| "the runtime's default".into())),
        ("contract", function.contract.to_string()),
        (
            "strategy",
            format!(
                "{}, start {}, reuse {}, {} at once; {}",
                strategy.isolation,
                strategy.start,
                strategy.reuse,
                strategy.concurrency,
                asked_words(&function.asked)
            ),
        ),
        ("network", function.network.to_string()),
        (
            "limits",
            format!(
                "{}, {} MB, logs {} MB, {}, {} processes, /tmp {} MB, instances: {instances}",
                human_duration(limits.timeout_ms * 1000),
                limits.memory_mb,
                limits.logs_mb,
                cores(limits.cpu_millis),
                limits.processes,
                limits.tmp_mb
            ),
        ),
        (
            "code",
            format!(
                "{}, {}, {}",
                format!("{:?}", function.code.format).to_lowercase(),
                human_size(function.code.size),
                function.code.digest
            ),
        ),
    ];
    if let Some(options) = &function.snapshot {
        rows.push(("warm-up", warmup_words(options)));
    }
    if let Some(grants) = &function.wasm {
        rows.extend(grant_words(grants).into_iter().map(|text| ("grant", text)));
    }
    if let Some(prepared) = &function.prepared {
        if prepared.strategy != function.strategy {
            rows.push(("runs as", strategy_words(&prepared.strategy)));
        }
        rows.extend(prepared_lines(prepared).into_iter().map(|line| ("prepared", line)));
    }
    for parameter in function.parameters.iter().flatten() {
        let label = if parameter.init { "init param" } else { "param" };
        rows.push((label, format!("{} = {}", parameter.key, parameter.value)));
    }
    for (key, value) in &function.annotations {
        rows.push(("annotation", format!("{key} = {}", Value::to_string(value))));
    }
    rows.iter().map(|(label, text)| format!("{label:<11} {text}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_cpu_time_is_said_in_cores() {
        assert_eq!([1000, 500, 2000].map(cores), ["1 core", "0.5 cores", "2 cores"]);
    }
}
