//! `flint url`: prints where a function is called over HTTP.

use flint_api_native::resource::FunctionResource;
use serde_json::{Value, json};

use crate::{
    cli::{Global, UrlArgs},
    client::{Address, Client, segment},
    failure::{Exit, Failure},
    output::{print_json, print_line, tell},
};

pub(crate) async fn run(global: &Global, args: &UrlArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let function: FunctionResource = client.get(&format!("/v1/functions/{}", segment(&args.name))).await?;
    let address = Address::parse(&global.url)?;
    let is_web = function.annotations.get("web-export") == Some(&Value::Bool(true));
    if !is_web && args.form.is_some() {
        return Err(Failure::new(
            Exit::Refused,
            "not_exported",
            format!("{} is not open to the web, so it has no forms of answers", function.name),
        )
        .hint("deploy it with --annotation web-export=true")
        .into());
    }
    let url = match is_web {
        true => {
            web_url(&address.to_string(), &function.namespace, &function.name, args.form.map(|f| f.as_str()))
        }
        false => {
            tell!(
                "this URL takes POST with a key; deploy with --annotation web-export=true for one that anybody may open"
            );
            format!("{address}/v1/functions/{}/invoke", segment(&function.name))
        }
    };
    match global.json {
        true => print_json(&json!({ "url": url, "web": is_web }))?,
        false => print_line(&url)?,
    }
    Ok(Exit::Ok)
}

/// A web action's URL. `name` includes its package, if any.
fn web_url(host: &str, namespace: &str, name: &str, form: Option<&str>) -> String {
    let (package, name) = name.split_once('/').unwrap_or(("default", name));
    let form = form.map(|form| format!(".{form}")).unwrap_or_default();
    format!("{host}/api/v1/web/{}/{}/{}{form}", segment(namespace), segment(package), segment(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_action_has_an_address() {
        let url = |name, form| web_url("http://h:1", "guest", name, form);
        assert_eq!(url("f", None), "http://h:1/api/v1/web/guest/default/f");
        assert_eq!(url("p/a b", Some("json")), "http://h:1/api/v1/web/guest/p/a%20b.json");
    }
}
