//! `flint namespace`: manages namespaces and their keys.

use std::io::{BufRead, IsTerminal};

use flint_api_native::resource::{KeyCreated, NamespaceCreate, NamespacePatch, NamespaceResource};
use flint_model::NamespaceLimits;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    admin::Admin,
    cli::{Global, NamespaceArgs, NamespaceCommand, NamespaceLimitArgs},
    client::segment,
    failure::{Exit, Failure},
    output::{clock, print_json, print_line, table, tell, write_stderr},
};

#[derive(Deserialize)]
struct List {
    namespaces: Vec<NamespaceResource>,
}

pub(crate) async fn run(global: &Global, args: NamespaceArgs) -> anyhow::Result<Exit> {
    // First: data that no server uses is locked, and perhaps converted, once it is open.
    if let NamespaceCommand::Rm { name, yes } = &args.command {
        confirm(name, *yes)?;
    }
    let admin = match &args.command {
        NamespaceCommand::Create { name, subject, limits } => {
            let asked = new_namespace(name, subject.as_deref(), limits);
            Admin::connect_or_create(global, &args.data, &asked).await?
        }
        _ => Admin::connect(global, &args.data).await?,
    };
    let done = answer(&admin, global.json, args.command).await;
    admin.close().await;
    done.map(|()| Exit::Ok)
}

async fn answer(admin: &Admin, json: bool, command: NamespaceCommand) -> anyhow::Result<()> {
    let path = |name: &str| format!("/v1/namespaces/{}", segment(name));
    match command {
        NamespaceCommand::Create { name, subject, limits } => {
            let asked = new_namespace(&name, subject.as_deref(), &limits);
            let created: KeyCreated = admin.ask(Method::POST, "/v1/namespaces", Some(&asked)).await?;
            show_key(&created, json)
        }
        NamespaceCommand::List => {
            let list: List = admin.ask(Method::GET, "/v1/namespaces", None::<&()>).await?;
            if json {
                return print_json(&json!({ "namespaces": list.namespaces }));
            }
            if list.namespaces.is_empty() {
                return print_line("no namespaces yet; create one with `flint namespace create NAME`");
            }
            let rows = list.namespaces.iter().map(|namespace| {
                let state = if namespace.blocked { "blocked" } else { "active" };
                vec![
                    namespace.name.clone(),
                    state.to_owned(),
                    namespace.keys.len().to_string(),
                    shown(&namespace.limits),
                    clock(namespace.created),
                ]
            });
            print_line(&table(&["namespace", "state", "keys", "own limits", "created"], &[2], rows))
        }
        NamespaceCommand::Keys { name, add: true, subject, .. } => {
            let key: KeyCreated = admin
                .ask(Method::POST, &format!("{}/keys", path(&name)), Some(&json!({ "subject": subject })))
                .await?;
            show_key(&key, json)
        }
        NamespaceCommand::Keys { name, remove: Some(id), .. } => {
            admin.tell(Method::DELETE, &format!("{}/keys/{}", path(&name), segment(&id))).await?;
            said(json, &json!({ "removed": id }), &format!("removed key {id}"))
        }
        NamespaceCommand::Keys { name, .. } => {
            let namespace: NamespaceResource = admin.ask(Method::GET, &path(&name), None::<&()>).await?;
            if json {
                return print_json(&json!({ "keys": namespace.keys }));
            }
            let rows = namespace
                .keys
                .iter()
                .map(|key| vec![key.id.clone(), key.subject.clone(), clock(key.created)]);
            print_line(&table(&["key", "subject", "created"], &[], rows))
        }
        NamespaceCommand::Limits { name, limits, reset } => {
            let mut namespace: NamespaceResource = admin.ask(Method::GET, &path(&name), None::<&()>).await?;
            if reset || limits != NamespaceLimitArgs::default() {
                let base = if reset { NamespaceLimits::default() } else { namespace.limits };
                let patch = NamespacePatch { limits: Some(changed(base, &limits)), blocked: None };
                namespace = admin.ask(Method::PATCH, &path(&name), Some(&patch)).await?;
            }
            said(json, &json!(namespace), &format!("{}: {}", namespace.name, shown(&namespace.limits)))
        }
        NamespaceCommand::Block { name, undo } => {
            let patch = NamespacePatch { limits: None, blocked: Some(!undo) };
            let namespace: NamespaceResource = admin.ask(Method::PATCH, &path(&name), Some(&patch)).await?;
            let state = if namespace.blocked { "blocked: its keys do not work" } else { "active" };
            said(json, &json!(namespace), &format!("{} is {state}", namespace.name))
        }
        NamespaceCommand::Rm { name, .. } => {
            admin.tell(Method::DELETE, &path(&name)).await?;
            said(
                json,
                &json!({ "deleted": name }),
                &format!("deleted namespace {name} with its keys and functions"),
            )
        }
    }
}

fn new_namespace(name: &str, subject: Option<&str>, limits: &NamespaceLimitArgs) -> NamespaceCreate {
    let limits = changed(NamespaceLimits::default(), limits);
    NamespaceCreate { name: name.to_owned(), subject: subject.map(str::to_owned), limits }
}

fn said(json: bool, value: &Value, text: &str) -> anyhow::Result<()> {
    if json { print_json(value) } else { print_line(text) }
}

fn show_key(created: &KeyCreated, json: bool) -> anyhow::Result<()> {
    if json {
        return print_json(created);
    }
    // Only the key goes to stdout, so that it can be redirected to a file.
    tell!(
        "the key of namespace {}, on behalf of {}; it is shown this once:",
        created.namespace,
        created.subject
    );
    print_line(&created.key)?;
    tell!(
        "use it with --auth, FLINT_AUTH, or: mkdir -p ~/.config/flint && (umask 77; echo KEY > ~/.config/flint/auth)"
    );
    Ok(())
}

fn confirm(name: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let refused = || {
        Failure::usage(format!("namespace {name} was not deleted"))
            .hint("say --yes to delete it with its keys and functions")
    };
    if !std::io::stdin().is_terminal() {
        return Err(refused());
    }
    write_stderr(&format!("delete namespace {name} with its keys and functions? [y/N] "));
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes").then_some(()).ok_or_else(refused)
}

fn changed(base: NamespaceLimits, limits: &NamespaceLimitArgs) -> NamespaceLimits {
    NamespaceLimits {
        invocations_per_minute: limits.invocations_per_minute.or(base.invocations_per_minute),
        concurrent_invocations: limits.concurrent_invocations.or(base.concurrent_invocations),
        fires_per_minute: limits.fires_per_minute.or(base.fires_per_minute),
        allowed_kinds: limits.allowed_kinds.clone().or(base.allowed_kinds),
        store_activations: limits.store_activations.or(base.store_activations),
        min_action_memory: limits.min_action_memory.or(base.min_action_memory),
        max_action_memory: limits.max_action_memory.or(base.max_action_memory),
        min_action_logs: limits.min_action_logs.or(base.min_action_logs),
        max_action_logs: limits.max_action_logs.or(base.max_action_logs),
        min_action_timeout: limits.min_action_timeout.or(base.min_action_timeout),
        max_action_timeout: limits.max_action_timeout.or(base.max_action_timeout),
        max_action_concurrency: limits.max_action_concurrency.or(base.max_action_concurrency),
        max_parameter_size: limits.max_parameter_size.or(base.max_parameter_size),
        max_payload_size: limits.max_payload_size.or(base.max_payload_size),
        truncation_size: limits.truncation_size.or(base.truncation_size),
        min_action_concurrency: limits.min_action_concurrency.or(base.min_action_concurrency),
        max_action_instances: limits.max_action_instances.or(base.max_action_instances),
        warmed_container_keeping_count: limits
            .warmed_container_keeping_count
            .or(base.warmed_container_keeping_count),
        warmed_container_keeping_timeout: limits
            .warmed_container_keeping_timeout
            .or(base.warmed_container_keeping_timeout),
    }
}

fn shown(limits: &NamespaceLimits) -> String {
    match serde_json::to_value(limits) {
        Ok(Value::Object(own)) if !own.is_empty() => {
            own.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
        }
        _ => "none: the server's hold".to_owned(),
    }
}
