//! `flint bench`: runs experiments, and reports their results.

use serde_json::json;

use crate::{
    bench::{self, Effort},
    cli::{BenchArgs, BenchCommand, ExperimentArgs, Global},
    failure::{Exit, Failure},
    output::{print_json, print_line, table},
};

pub(crate) async fn run(global: &Global, args: &BenchArgs) -> anyhow::Result<Exit> {
    match &args.command {
        Some(BenchCommand::List) => list(global.json),
        Some(BenchCommand::Report { folder }) => {
            bench::report(folder, global.json)?;
            Ok(Exit::Ok)
        }
        Some(BenchCommand::Promises(args)) => {
            match &args.from {
                Some(folder) => bench::promises::of_kept(folder, global.json)?,
                None => {
                    bench::promises::run(args.out.as_deref(), args.seed, args.despite_noise, global.json)
                        .await?
                }
            }
            Ok(Exit::Ok)
        }
        Some(BenchCommand::Load(load)) => super::load::run(global, load).await,
        None => experiment(&args.experiment, global.json).await,
    }
}

fn list(json: bool) -> anyhow::Result<Exit> {
    if json {
        let experiments: Vec<_> =
            bench::experiments().map(|(name, what)| json!({ "name": name, "what": what })).collect();
        print_json(&experiments)?;
    } else {
        let rows = bench::experiments().map(|(name, what)| vec![name.to_owned(), what.to_owned()]);
        print_line(&table(&["experiment", "what it measures"], &[], rows))?;
    }
    Ok(Exit::Ok)
}

async fn experiment(args: &ExperimentArgs, json: bool) -> anyhow::Result<Exit> {
    if !bench::experiments().any(|(name, _)| name == args.experiment) {
        let names: Vec<_> = bench::experiments().map(|(name, _)| name).collect();
        return Err(Failure::usage(format!(
            "experiment '{}' is unknown; available: {}",
            args.experiment,
            names.join(", ")
        ))
        .into());
    }
    let effort = Effort {
        quick: args.quick,
        size: args.size,
        arms: args.arms.clone(),
        repeat: args.repeat.map(usize::from),
        seed: args.seed,
        set: args.set.iter().cloned().collect(),
        out: args.out.clone(),
        despite_noise: args.despite_noise,
    };
    bench::run(&args.experiment, effort, json).await?;
    Ok(Exit::Ok)
}
