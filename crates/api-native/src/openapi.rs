//! The OpenAPI description of the API.

use std::sync::LazyLock;

use axum::{http::header, response::IntoResponse};
use bytes::Bytes;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        ContentBuilder, Ref, ResponseBuilder,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use crate::{
    activations, dead_letters, deploy, explain, functions, invoke, logs, namespaces, resource, secrets,
    sequences, server, versions,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Flint", description = "Flint's own REST API. Flint also speaks the OpenWhisk API under /api/v1.", license(name = "Apache-2.0", identifier = "Apache-2.0")),
    modifiers(&Security, &Refusals),
    security(("bearer" = []), ("basic" = [])),
    tags(
        (name = "functions", description = "Deploy and invoke functions. Needs a namespace's key."),
        (name = "activations", description = "Records, logs and dead letters of calls. Needs a namespace's key."),
        (name = "secrets", description = "Values that functions receive and no request returns. Needs a namespace's key."),
        (name = "operator", description = "Manage namespaces and the server's data. Needs the operator's key."),
        (name = "server", description = "Health, metrics and capabilities of the server"),
    ),
    paths(
        functions::list, functions::get, functions::code, functions::delete, deploy::deploy, invoke::invoke, explain::explain,
        versions::list, versions::rollback, versions::set_alias, versions::delete_alias,
        sequences::list, sequences::get, sequences::put, sequences::delete,
        dead_letters::list, dead_letters::get, dead_letters::redrive, dead_letters::redrive_some, dead_letters::delete, dead_letters::delete_some,
        secrets::list, secrets::put, secrets::delete, secrets::rotate_key,
        activations::list, activations::get, activations::logs, activations::accepted, logs::of_function, logs::of_all,
        namespaces::list, namespaces::create, namespaces::get, namespaces::patch, namespaces::delete,
        namespaces::create_key, namespaces::delete_key, server::backup,
        server::health, server::ready, server::metrics, server::doctor, serve,
    ),
    components(schemas(resource::ErrorBody, resource::ProgressLine))
)]
struct Api;

struct Security;

impl Modify for Security {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let components = openapi.components.get_or_insert_default();
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("uuid:secret").build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        let basic = HttpBuilder::new().scheme(HttpAuthScheme::Basic).build();
        components.add_security_scheme("basic", SecurityScheme::Http(basic));
    }
}

/// Adds the responses that any operation may give: an invalid key, name or query, or an unsupported method.
struct Refusals;

impl Modify for Refusals {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
        let refusal = ResponseBuilder::new().description("Any other error").content("application/json", body);
        let refusal = refusal.build();
        for path in openapi.paths.paths.values_mut() {
            let operations =
                [&mut path.get, &mut path.put, &mut path.post, &mut path.patch, &mut path.delete];
            for operation in operations.into_iter().flatten() {
                let responses = &mut operation.responses.responses;
                responses.entry("default".to_owned()).or_insert_with(|| refusal.clone().into());
            }
        }
    }
}

/// The description as indented JSON, the contents of `docs/openapi.json`.
pub fn document() -> String {
    let mut text = Api::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The same without indentation, serialised once: it is served without a key.
static SERVED: LazyLock<Bytes> = LazyLock::new(|| Api::openapi().to_json().unwrap_or_default().into());

/// Get this API description
#[utoipa::path(get, path = "/v1/openapi.json", tag = "server", security(()),
    responses((status = 200, description = "The OpenAPI description", body = Object)))]
pub(crate) async fn serve() -> impl IntoResponse {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "max-age=3600")];
    (headers, SERVED.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `FLINT_WRITE_OPENAPI=1 cargo test -p flint-api-native openapi` updates the file.
    #[test]
    fn the_checked_in_description_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        if std::env::var_os("FLINT_WRITE_OPENAPI").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            checked_in == document(),
            "docs/openapi.json is out of date: run FLINT_WRITE_OPENAPI=1 cargo test -p flint-api-native openapi"
        );
    }
}
