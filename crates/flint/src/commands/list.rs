//! `flint list`: lists functions.

use flint_api_native::resource::FunctionList;

use crate::{
    cli::{Global, ListArgs},
    client::Client,
    failure::Exit,
    output::{ago, human_size, print_json, print_line, table},
};

pub(crate) async fn run(global: &Global, args: &ListArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let list: FunctionList =
        client.get(&format!("/v1/functions?limit={}&skip={}", args.limit, args.skip)).await?;
    if global.json {
        print_json(&list)?;
        return Ok(Exit::Ok);
    }
    if list.functions.is_empty() {
        print_line(match (list.total, args.limit) {
            (0, _) => "no functions yet; deploy one with `flint deploy FILE`",
            (_, 0) => "no functions in this part of the list",
            _ => "no more functions",
        })?;
        return Ok(Exit::Ok);
    }
    let rows = list.functions.iter().map(|function| {
        let strategy = &function.strategy;
        vec![
            function.name.clone(),
            function.kind.clone(),
            function.version.clone(),
            format!("{}/{}/{}", strategy.isolation, strategy.start, strategy.reuse),
            format!("{} MB", function.limits.memory_mb),
            human_size(function.code.size),
            ago(function.updated),
        ]
    });
    print_line(&table(&["name", "kind", "version", "strategy", "memory", "code", "updated"], &[4, 5], rows))?;
    if list.total > args.skip + list.functions.len() {
        print_line(&format!(
            "… {} of {}; more with --skip {}",
            list.functions.len(),
            list.total,
            args.skip + list.functions.len()
        ))?;
    }
    Ok(Exit::Ok)
}
