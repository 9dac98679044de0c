//! `flint bench`.

use serde_json::json;

use crate::{
    bench::{self, EXPERIMENTS, Effort},
    cli::BenchArgs,
    failure::{Exit, Failure},
    output::{print_json, print_line, table},
};

pub(crate) async fn run(args: &BenchArgs, json: bool) -> anyhow::Result<Exit> {
    if args.experiment == "list" {
        match json {
            true => print_json(
                &EXPERIMENTS
                    .iter()
                    .map(|(name, what)| json!({ "name": name, "what": what }))
                    .collect::<Vec<_>>(),
            )?,
            false => {
                let rows =
                    EXPERIMENTS.iter().map(|(name, what)| vec![(*name).to_owned(), (*what).to_owned()]);
                print_line(&table(&["experiment", "what it measures"], &[], rows))?;
            }
        }
        return Ok(Exit::Ok);
    }
    if !EXPERIMENTS.iter().any(|(name, _)| *name == args.experiment) {
        let names: Vec<_> = EXPERIMENTS.iter().map(|(name, _)| *name).collect();
        return Err(Failure::usage(format!(
            "experiment '{}' is unknown; available: {}",
            args.experiment,
            names.join(", ")
        ))
        .into());
    }
    bench::run(&args.experiment, Effort { quick: args.quick, arms: args.arms.clone() }, json).await?;
    Ok(Exit::Ok)
}
