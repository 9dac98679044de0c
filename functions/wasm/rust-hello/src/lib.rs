//! Greets whoever calls.

mod flint;

use serde_json::{Value, json};

/// One call: its arguments as JSON, or a request's body, and what it answers with.
fn handle(input: &[u8]) -> Result<Vec<u8>, String> {
    let params: Value = serde_json::from_slice(input).map_err(|error| format!("not JSON: {error}"))?;
    let name = params["name"].as_str().unwrap_or("world");
    flint::log(&format!("called by {name}"));
    Ok(json!({ "greeting": format!("Hello, {name}!") }).to_string().into_bytes())
}
