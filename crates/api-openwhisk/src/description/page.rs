//! The description as HTML, without scripts or external resources.

use std::fmt::Write;

use serde_json::Value;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{background:#8881;padding:.5rem;overflow:auto}\
summary{cursor:pointer;padding:.3rem 0}b.m{display:inline-block;width:5rem;text-transform:uppercase}\
details{border-top:1px solid #8884}details>div{padding-left:1.2rem}table{border-collapse:collapse}\
td{padding:.1rem 1rem .1rem 0;vertical-align:top}:root{color-scheme:light dark}";

/// The page of a Swagger document.
pub(super) fn html(document: &Value) -> String {
    let (info, base) = (&document["info"], text(&document["basePath"]));
    let title = escaped(text(&info["title"]));
    let mut page = format!(
        "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style><h1>{title}</h1><p>{} Below <code>{base}</code>; for programs: \
         <a href=\"/api/v1/api-docs\">/api/v1/api-docs</a>.</p>",
        escaped(text(&info["description"]))
    );
    for tag in items(&document["tags"]) {
        let name = text(&tag["name"]);
        let _ = write!(page, "<h2>{}</h2>", escaped(name));
        for (path, methods) in fields(&document["paths"]) {
            for (method, operation) in fields(methods).filter(|(_, described)| described["tags"][0] == name) {
                show(&mut page, method, path, operation);
            }
        }
    }
    page.push_str("<h2>Shapes</h2>");
    for (name, shape) in fields(&document["definitions"]) {
        let shape = serde_json::to_string_pretty(shape).unwrap_or_default();
        let name = escaped(name);
        let _ = write!(
            page,
            "<details id=\"{name}\"><summary>{name}</summary><pre>{}</pre></details>",
            escaped(&shape)
        );
    }
    page.push_str("</html>\n");
    page
}

fn show(page: &mut String, method: &str, path: &str, operation: &Value) {
    let _ = write!(
        page,
        "<details id=\"{}\"><summary><b class=\"m\">{method}</b><code>{}</code> {}</summary><div><table>",
        escaped(text(&operation["operationId"])),
        escaped(path),
        escaped(text(&operation["summary"])),
    );
    for parameter in items(&operation["parameters"]) {
        let about = match parameter.get("schema") {
            Some(schema) => named(schema),
            None => escaped(text(&parameter["description"])),
        };
        let (name, place) = (escaped(text(&parameter["name"])), escaped(text(&parameter["in"])));
        let _ = write!(page, "<tr><td><code>{name}</code><td>{place}<td>{about}");
    }
    page.push_str("</table><table>");
    for (status, answer) in fields(&operation["responses"]) {
        let shape = answer.get("schema").map(named).unwrap_or_default();
        let about = escaped(text(&answer["description"]));
        let _ = write!(page, "<tr><td>{}<td>{about}<td>{shape}", escaped(status));
    }
    page.push_str("</table></div></details>");
}

/// A link to the schema that `schema` refers to, itself or by its items.
fn named(schema: &Value) -> String {
    let (reference, suffix) = match schema.get("items") {
        Some(items) => (text(&items["$ref"]), "[]"),
        None => (text(&schema["$ref"]), ""),
    };
    let name = escaped(reference.rsplit('/').next().unwrap_or_default());
    format!("<a href=\"#{name}\">{name}{suffix}</a>")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
