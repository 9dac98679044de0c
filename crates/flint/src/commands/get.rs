//! `flint get`.

use flint_api_native::resource::FunctionResource;
use http::Method;
use serde_json::Value;

use crate::{
    cli::{GetArgs, Global},
    client::{Client, collect, segment},
    failure::{Exit, Failure},
    output::{clock, human_duration, human_size, print_json, print_line},
};

pub(crate) async fn run(global: &Global, args: &GetArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let path = format!("/v1/functions/{}", segment(&args.name));
    if let Some(target) = &args.save {
        let code = collect(client.request(Method::GET, &format!("{path}/code"), "*/*", None).await?).await?;
        std::fs::write(target, &code)
            .map_err(|error| Failure::local(format!("cannot write {}: {error}", target.display())))?;
        eprintln!("wrote {} to {}", human_size(code.len() as u64), target.display());
        return Ok(Exit::Ok);
    }
    let function: FunctionResource = client.get(&path).await?;
    match global.json {
        true => print_json(&function)?,
        false => print_line(&describe(&function))?,
    }
    Ok(Exit::Ok)
}

fn describe(function: &FunctionResource) -> String {
    let FunctionResource { strategy, limits, .. } = function;
    let instances =
        limits.instances.map_or("as many as memory allows".to_owned(), |most| format!("at most {most}"));
    let mut rows = vec![
        ("name", format!("{}/{}", function.namespace, function.name)),
        (
            "version",
            format!("{} (revision {}), {}", function.version, function.revision, clock(function.updated)),
        ),
        ("kind", function.kind.clone()),
        ("main", function.main.clone().unwrap_or_else(|| "the runtime's default".into())),
        ("contract", function.contract.to_string()),
        (
            "strategy",
            format!(
                "{}, start {}, reuse {}, {} at once",
                strategy.isolation, strategy.start, strategy.reuse, strategy.concurrency
            ),
        ),
        ("network", function.network.to_string()),
        (
            "limits",
            format!(
                "{}, {} MB, logs {} MB, {} thousandths of a core, {} processes, /tmp {} MB, instances: {instances}",
                human_duration(limits.timeout_ms * 1000),
                limits.memory_mb,
                limits.logs_mb,
                limits.cpu_millis,
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
    for parameter in &function.parameters {
        let label = if parameter.init { "init param" } else { "param" };
        rows.push((label, format!("{} = {}", parameter.key, parameter.value)));
    }
    for (key, value) in &function.annotations {
        rows.push(("annotation", format!("{key} = {}", Value::to_string(value))));
    }
    rows.iter().map(|(label, text)| format!("{label:<11} {text}")).collect::<Vec<_>>().join("\n")
}
