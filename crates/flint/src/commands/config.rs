//! `flint config`: lists configuration keys with their values and origins.

use serde_json::json;

use crate::{
    cli::ConfigArgs,
    config::{Setting, load},
    failure::{Exit, Failure},
    output::{print_json, print_line, table},
};

pub(crate) fn run(args: &ConfigArgs, json: bool) -> anyhow::Result<Exit> {
    let loaded = load(&args.data, None)?;
    let wanted = args.filter.as_deref().unwrap_or_default();
    let settings: Vec<_> =
        loaded.settings.iter().filter(|setting| setting.key.path.contains(wanted)).collect();
    if settings.is_empty() {
        return Err(Failure::usage(format!("no configuration key contains '{wanted}'"))
            .hint("`flint config` lists every key")
            .into());
    }
    if json {
        let list: Vec<_> = settings
            .iter()
            .map(|setting| {
                json!({
                    "key": setting.key.path, "value": setting.value, "source": setting.source,
                    "environment": variable(setting), "meaning": setting.key.meaning, "example": setting.key.example,
                })
            })
            .collect();
        print_json(&list)?;
    } else {
        let rows = settings.iter().map(|setting| {
            vec![
                setting.key.path.to_owned(),
                shown(setting),
                setting.source.clone(),
                setting.key.meaning.to_owned(),
            ]
        });
        print_line(&table(&["key", "value", "from", "meaning"], &[], rows))?;
        if wanted.is_empty() {
            print_line(
                "\nin a file: [section] key = value · in the environment: FLINT_SECTION__KEY · as an option: --set section.key=value",
            )?;
        }
    }
    Ok(Exit::Ok)
}

fn shown(setting: &Setting) -> String {
    match &setting.value {
        None => "(worked out)".to_owned(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn variable(setting: &Setting) -> String {
    format!("FLINT_{}", setting.key.path.to_uppercase().replace('.', "__"))
}
