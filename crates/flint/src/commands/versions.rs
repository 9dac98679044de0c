//! `flint versions`, `flint rollback` and `flint alias`: manage versions of functions.

use flint_api_native::resource::{
    AliasRequest, AliasResource, AliasTargetResource, DeployResult, RollbackRequest, VersionList,
    VersionResource,
};
use http::Method;
use serde_json::json;

use crate::{
    cli::{AliasArgs, AliasCommand, Global, RollbackArgs, VersionsArgs},
    client::{Client, segment},
    failure::Exit,
    output::{Progress, ago, print_json, print_line, table},
};

/// Prefix of a digest that suffices for people.
const DIGEST: usize = 12;

fn at(name: &str, rest: &str) -> String {
    format!("/v1/functions/{}/{rest}", segment(name))
}

pub(crate) async fn list(global: &Global, args: &VersionsArgs) -> anyhow::Result<Exit> {
    let list: VersionList = Client::new(global)?.get(&at(&args.name, "versions")).await?;
    match global.json {
        true => print_json(&list)?,
        false => print_line(&listed(&list))?,
    }
    Ok(Exit::Ok)
}

pub(crate) async fn rollback(global: &Global, args: &RollbackArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let asked = RollbackRequest { to: args.to.map(|version| version.to_string()) };
    let progress = Progress::start(format!("going back with {}", args.name));
    let result: DeployResult = client.send_json(Method::POST, &at(&args.name, "rollback"), &asked).await?;
    drop(progress);
    if global.json {
        print_json(&result)?;
        return Ok(Exit::Ok);
    }
    let function = &result.function;
    let again = function.restored.as_deref().unwrap_or("an earlier version");
    print_line(&format!("{} {} is {again} again", function.name, function.version))?;
    Ok(Exit::Ok)
}

pub(crate) async fn alias(global: &Global, args: &AliasArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    match &args.command {
        AliasCommand::Set { name, alias, versions } => {
            let target = |(version, weight): &(flint_model::Version, u32)| AliasTargetResource {
                version: version.to_string(),
                weight: *weight,
            };
            let asked = AliasRequest { versions: versions.iter().map(target).collect() };
            let path = at(name, &format!("aliases/{alias}"));
            let set: AliasResource = client.send_json(Method::PUT, &path, &asked).await?;
            match global.json {
                true => print_json(&set)?,
                false => print_line(&format!("{name}@{} is {}", set.name, shares(&set)))?,
            }
        }
        AliasCommand::List { name } => {
            let list: VersionList = client.get(&at(name, "versions")).await?;
            match global.json {
                true => print_json(&json!({ "aliases": list.aliases }))?,
                false if list.aliases.is_empty() => print_line(&format!(
                    "{name} has no aliases; `flint alias set {name} ALIAS VERSION` makes one"
                ))?,
                false => {
                    let row =
                        |alias: &AliasResource| vec![alias.name.clone(), shares(alias), ago(alias.updated)];
                    print_line(&table(&["alias", "versions", "set"], &[], list.aliases.iter().map(row)))?;
                }
            }
        }
        AliasCommand::Rm { name, alias } => {
            client.delete(&at(name, &format!("aliases/{alias}"))).await?;
            match global.json {
                true => print_json(&json!({ "deleted": [alias.as_str()] }))?,
                false => print_line(&format!("deleted {name}@{alias}"))?,
            }
        }
    }
    Ok(Exit::Ok)
}

/// `0.0.3`, or `0.0.3 (90%), 0.0.4 (10%)`.
fn shares(alias: &AliasResource) -> String {
    let sum: u64 = alias.versions.iter().map(|target| u64::from(target.weight)).sum();
    let share = |target: &AliasTargetResource| match alias.versions.len() {
        1 => target.version.clone(),
        _ => {
            let percent = f64::from(target.weight) * 100.0 / sum.max(1) as f64;
            format!("{} ({}%)", target.version, (percent * 100.0).round() / 100.0)
        }
    };
    alias.versions.iter().map(share).collect::<Vec<_>>().join(", ")
}

fn listed(list: &VersionList) -> String {
    let rows = list.versions.iter().map(|version| {
        let VersionResource { kind, code, .. } = version;
        let digest = code.digest.get(..DIGEST).unwrap_or(&code.digest).to_owned();
        let mut words = Vec::new();
        words.extend(version.newest.then(|| "newest".to_owned()));
        words.extend(version.aliases.iter().map(|alias| format!("@{alias}")));
        words.extend(version.restored.as_ref().map(|restored| format!("{restored} again")));
        vec![version.version.clone(), ago(version.updated), kind.clone(), digest, words.join(", ")]
    });
    table(&["version", "deployed", "kind", "code", ""], &[], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_sum_of_all_weights() {
        let alias = |weights: &[u32]| AliasResource {
            name: "a".into(),
            versions: (1..)
                .zip(weights)
                .map(|(patch, weight)| AliasTargetResource {
                    version: format!("0.0.{patch}"),
                    weight: *weight,
                })
                .collect(),
            updated: 0,
        };
        assert_eq!(shares(&alias(&[7])), "0.0.1");
        assert_eq!(shares(&alias(&[1, 2])), "0.0.1 (33.33%), 0.0.2 (66.67%)");
        assert_eq!(shares(&alias(&[5, 5])), "0.0.1 (50%), 0.0.2 (50%)");
    }
}
