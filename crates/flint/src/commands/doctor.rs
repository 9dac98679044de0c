//! `flint doctor`: shows what a host can run, and what it lacks.

use flint_api_native::resource::{AbilityState, DoctorReport};

use crate::{
    cli::{DoctorArgs, Global},
    client::Client,
    config, doctor,
    failure::Exit,
    output::{Progress, print_json, print_line, table},
};

pub(crate) async fn run(global: &Global, args: &DoctorArgs) -> anyhow::Result<Exit> {
    let progress = Progress::start("looking at this host");
    let report = match args.remote {
        true => Client::new(global)?.get("/v1/doctor").await?,
        false => doctor::examine(&config::load(&args.data, None)?.config).await?,
    };
    drop(progress);
    match global.json {
        true => print_json(&report)?,
        false => print_line(&describe(&report))?,
    }
    Ok(if report.ok { Exit::Ok } else { Exit::Local })
}

fn describe(report: &DoctorReport) -> String {
    let mut parts = Vec::new();
    let rows = report.abilities.iter().map(|ability| {
        let mark = match ability.state {
            AbilityState::Works => "✓",
            AbilityState::Limited => "~",
            AbilityState::Missing => "✗",
        };
        vec![mark.to_owned(), ability.name.clone(), ability.detail.clone()]
    });
    parts.push(table(&["", "ability", "what was found"], &[], rows));
    let rows = report.runtimes.iter().map(|runtime| {
        let mark = if runtime.available { "✓" } else { "✗" };
        let name = if runtime.default { format!("{} (default)", runtime.kind) } else { runtime.kind.clone() };
        vec![mark.to_owned(), name, runtime.detail.clone()]
    });
    if !report.runtimes.is_empty() {
        parts.push(table(&["", "runtime", "what was found"], &[], rows));
    }
    let remedies: Vec<_> = report
        .abilities
        .iter()
        .filter(|ability| !ability.remedy.is_empty() && ability.state != AbilityState::Works)
        .map(|ability| format!("  {}: {}", ability.name, ability.remedy))
        .collect();
    if !remedies.is_empty() {
        parts.push(format!("What would help\n{}", remedies.join("\n")));
    }
    parts.push(match report.ok {
        true => "Functions can run on this host.".to_owned(),
        false => "Functions cannot run on this host yet: see above.".to_owned(),
    });
    parts.join("\n\n")
}
