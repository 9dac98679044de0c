//! Routes a method and a path.

/// The methods that the API uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// PUT.
    Put,
    /// POST.
    Post,
    /// DELETE.
    Delete,
    /// OPTIONS.
    Options,
    /// Any other.
    Other,
}

impl From<&http::Method> for Method {
    fn from(method: &http::Method) -> Self {
        match *method {
            http::Method::GET => Self::Get,
            http::Method::PUT => Self::Put,
            http::Method::POST => Self::Post,
            http::Method::DELETE => Self::Delete,
            http::Method::OPTIONS => Self::Options,
            _ => Self::Other,
        }
    }
}

/// A route. Names are as in the path, still encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// `GET /`
    Root,
    /// `GET /ping`
    Ping,
    /// `GET /invokers`
    Invokers,
    /// `GET /invokers/healthy/count`
    HealthyInvokers,
    /// `GET /invokers/ready`
    InvokersReady,
    /// `GET /activation`, `GET /activation/count`
    InFlight,
    /// `GET /api/v1`
    Api,
    /// `GET /api/v1/api-docs`
    ApiDocs,
    /// `GET /api/v1/docs`
    Docs,
    /// `OPTIONS` below `/api/v1`
    Preflight,
    /// Anything below `/api/v1/web`
    Web,
    /// Anything below `/api/v1/gateway`
    Gateway,
    /// `GET /api/v1/namespaces`
    Namespaces,
    /// `GET …/limits`
    Limits(&'a str),
    /// `GET …/actions`, with a package `GET …/actions/PACKAGE/`
    ActionList(&'a str, Option<&'a str>),
    /// `PUT …/actions/[PACKAGE/]NAME`
    ActionPut(Name<'a>),
    /// `GET …/actions/[PACKAGE/]NAME`
    ActionGet(Name<'a>),
    /// `DELETE …/actions/[PACKAGE/]NAME`
    ActionDelete(Name<'a>),
    /// `POST …/actions/[PACKAGE/]NAME`
    ActionInvoke(Name<'a>),
    /// `GET …/activations`
    ActivationList(&'a str),
    /// `GET …/activations/ID`
    Activation(&'a str, &'a str),
    /// `GET …/activations/ID/result`
    ActivationResult(&'a str, &'a str),
    /// `GET …/activations/ID/logs`
    ActivationLogs(&'a str, &'a str),
    /// `GET …/packages`
    PackageList(&'a str),
    /// `PUT …/packages/NAME`
    PackagePut(Name<'a>),
    /// `GET …/packages/NAME`
    PackageGet(Name<'a>),
    /// `DELETE …/packages/NAME`
    PackageDelete(Name<'a>),
    /// `GET …/triggers`
    TriggerList(&'a str),
    /// `PUT …/triggers/NAME`
    TriggerPut(Name<'a>),
    /// `GET …/triggers/NAME`
    TriggerGet(Name<'a>),
    /// `DELETE …/triggers/NAME`
    TriggerDelete(Name<'a>),
    /// `POST …/triggers/NAME`
    TriggerFire(Name<'a>),
    /// `GET …/rules`
    RuleList(&'a str),
    /// `PUT …/rules/NAME`
    RulePut(Name<'a>),
    /// `GET …/rules/NAME`
    RuleGet(Name<'a>),
    /// `DELETE …/rules/NAME`
    RuleDelete(Name<'a>),
    /// `POST …/rules/NAME`
    RuleStatus(Name<'a>),
}

/// `NAMESPACE/[PACKAGE/]NAME`, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The namespace, or `_`.
    pub namespace: &'a str,
    /// The package.
    pub package: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

/// Why there is no route.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RouteError {
    /// No such path.
    #[error("The requested resource could not be found.")]
    Unknown,
    /// A path, but not with this method.
    #[error("HTTP method not allowed, supported methods: {0}")]
    Method(&'static str),
    /// A path below `limits`.
    #[error("The requested resource 'limits' has nothing below it.")]
    BelowLimits,
}

const API: &str = "/api/v1";

/// Parses a method and a path.
pub fn route(method: Method, path: &str) -> Result<Route<'_>, RouteError> {
    let get = |route| match method {
        Method::Get => Ok(route),
        _ => Err(RouteError::Method("GET")),
    };
    let Some(rest) = path.strip_prefix(API).filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return match path {
            "/" | "" => get(Route::Root),
            "/ping" => get(Route::Ping),
            "/invokers" => get(Route::Invokers),
            "/invokers/healthy/count" => get(Route::HealthyInvokers),
            "/invokers/ready" => get(Route::InvokersReady),
            "/activation" | "/activation/count" => get(Route::InFlight),
            "/api-docs" => get(Route::ApiDocs),
            "/docs" | "/docs/" => get(Route::Docs),
            _ => Err(RouteError::Unknown),
        };
    };
    if rest.starts_with("/web/") || rest == "/web" {
        return Ok(Route::Web);
    }
    if rest.starts_with("/gateway/") || rest == "/gateway" {
        return Ok(Route::Gateway);
    }
    if method == Method::Options {
        return Ok(Route::Preflight);
    }
    let mut segments = rest.split('/').skip(1);
    let segments: [Option<&str>; 6] = std::array::from_fn(|_| segments.next());
    match segments {
        [None | Some(""), None, ..] => get(Route::Api),
        [Some("api-docs"), None, ..] => get(Route::ApiDocs),
        [Some("docs"), None | Some("" | "index.html"), None, ..] => get(Route::Docs),
        [Some("namespaces"), None | Some(""), None, ..] => get(Route::Namespaces),
        [Some("namespaces"), Some(namespace), Some(collection), first, second, None] => {
            entity(method, namespace, collection, first, second)
        }
        _ => Err(RouteError::Unknown),
    }
}

fn entity<'a>(
    method: Method,
    namespace: &'a str,
    collection: &str,
    first: Option<&'a str>,
    second: Option<&'a str>,
) -> Result<Route<'a>, RouteError> {
    let get = |route| match method {
        Method::Get => Ok(route),
        _ => Err(RouteError::Method("GET")),
    };
    match (collection, first, second) {
        ("limits", None | Some(""), None) => get(Route::Limits(namespace)),
        ("limits", ..) => Err(RouteError::BelowLimits),
        ("actions", None | Some(""), None) => get(Route::ActionList(namespace, None)),
        ("actions", Some(package), Some("")) => get(Route::ActionList(namespace, Some(package))),
        ("actions", Some(name), None) => action(method, Name { namespace, package: None, name }),
        ("actions", Some(package), Some(name)) => {
            action(method, Name { namespace, package: Some(package), name })
        }
        ("activations", None | Some(""), None) => get(Route::ActivationList(namespace)),
        ("activations", Some(id), None) => get(Route::Activation(namespace, id)),
        ("activations", Some(id), Some("result")) => get(Route::ActivationResult(namespace, id)),
        ("activations", Some(id), Some("logs")) => get(Route::ActivationLogs(namespace, id)),
        ("packages", None | Some(""), None) => get(Route::PackageList(namespace)),
        ("packages", Some(name), None) => package(method, Name { namespace, package: None, name }),
        ("triggers", None | Some(""), None) => get(Route::TriggerList(namespace)),
        ("triggers", Some(name), None) => trigger(method, Name { namespace, package: None, name }),
        ("rules", None | Some(""), None) => get(Route::RuleList(namespace)),
        ("rules", Some(name), None) => rule(method, Name { namespace, package: None, name }),
        _ => Err(RouteError::Unknown),
    }
}

fn action(method: Method, name: Name<'_>) -> Result<Route<'_>, RouteError> {
    match method {
        Method::Get => Ok(Route::ActionGet(name)),
        Method::Put => Ok(Route::ActionPut(name)),
        Method::Delete => Ok(Route::ActionDelete(name)),
        Method::Post => Ok(Route::ActionInvoke(name)),
        Method::Options | Method::Other => Err(RouteError::Method("GET, PUT, DELETE, POST")),
    }
}

fn package(method: Method, name: Name<'_>) -> Result<Route<'_>, RouteError> {
    match method {
        Method::Get => Ok(Route::PackageGet(name)),
        Method::Put => Ok(Route::PackagePut(name)),
        Method::Delete => Ok(Route::PackageDelete(name)),
        Method::Post | Method::Options | Method::Other => Err(RouteError::Method("GET, PUT, DELETE")),
    }
}

fn trigger(method: Method, name: Name<'_>) -> Result<Route<'_>, RouteError> {
    match method {
        Method::Get => Ok(Route::TriggerGet(name)),
        Method::Put => Ok(Route::TriggerPut(name)),
        Method::Delete => Ok(Route::TriggerDelete(name)),
        Method::Post => Ok(Route::TriggerFire(name)),
        Method::Options | Method::Other => Err(RouteError::Method("GET, PUT, DELETE, POST")),
    }
}

fn rule(method: Method, name: Name<'_>) -> Result<Route<'_>, RouteError> {
    match method {
        Method::Get => Ok(Route::RuleGet(name)),
        Method::Put => Ok(Route::RulePut(name)),
        Method::Delete => Ok(Route::RuleDelete(name)),
        Method::Post => Ok(Route::RuleStatus(name)),
        Method::Options | Method::Other => Err(RouteError::Method("GET, PUT, DELETE, POST")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_path_of_the_api_has_its_route() {
        let name = |package, name| Name { namespace: "_", package, name };
        for (method, path, expected) in [
            (Method::Get, "/", Route::Root),
            (Method::Get, "/ping", Route::Ping),
            (Method::Get, "/api/v1", Route::Api),
            (Method::Get, "/api/v1/", Route::Api),
            (Method::Options, "/api/v1/no/such/thing", Route::Preflight),
            (Method::Post, "/api/v1/web/guest/default/x.json/y/z/w", Route::Web),
            (Method::Options, "/api/v1/web/guest/default/x", Route::Web),
            (Method::Options, "/api/v1/webs", Route::Preflight),
            (Method::Options, "/api/v1/gateway/guest/a", Route::Gateway),
            (Method::Get, "/api/v1/api-docs", Route::ApiDocs),
            (Method::Get, "/api-docs", Route::ApiDocs),
            (Method::Get, "/api/v1/docs", Route::Docs),
            (Method::Get, "/api/v1/docs/index.html", Route::Docs),
            (Method::Get, "/docs", Route::Docs),
            (Method::Get, "/api/v1/namespaces", Route::Namespaces),
            (Method::Get, "/api/v1/namespaces/", Route::Namespaces),
            (Method::Get, "/api/v1/namespaces/_/limits", Route::Limits("_")),
            (Method::Get, "/api/v1/namespaces/_/actions", Route::ActionList("_", None)),
            (Method::Get, "/api/v1/namespaces/_/actions/", Route::ActionList("_", None)),
            (Method::Get, "/api/v1/namespaces/_/actions/p/", Route::ActionList("_", Some("p"))),
            (Method::Get, "/api/v1/namespaces/_/actions/a%20b", Route::ActionGet(name(None, "a%20b"))),
            (Method::Put, "/api/v1/namespaces/_/actions/p/a", Route::ActionPut(name(Some("p"), "a"))),
            (Method::Post, "/api/v1/namespaces/_/actions/a", Route::ActionInvoke(name(None, "a"))),
            (Method::Delete, "/api/v1/namespaces/_/actions/a", Route::ActionDelete(name(None, "a"))),
            (Method::Get, "/api/v1/namespaces/_/activations", Route::ActivationList("_")),
            (Method::Get, "/api/v1/namespaces/_/activations/1", Route::Activation("_", "1")),
            (Method::Get, "/api/v1/namespaces/_/activations/1/result", Route::ActivationResult("_", "1")),
            (Method::Get, "/api/v1/namespaces/_/activations/1/logs", Route::ActivationLogs("_", "1")),
            (Method::Get, "/api/v1/namespaces/_/packages", Route::PackageList("_")),
            (Method::Put, "/api/v1/namespaces/_/packages/p", Route::PackagePut(name(None, "p"))),
            (Method::Delete, "/api/v1/namespaces/_/packages/p", Route::PackageDelete(name(None, "p"))),
            (Method::Get, "/api/v1/namespaces/_/triggers/", Route::TriggerList("_")),
            (Method::Post, "/api/v1/namespaces/_/triggers/t", Route::TriggerFire(name(None, "t"))),
            (Method::Get, "/api/v1/namespaces/_/rules", Route::RuleList("_")),
            (Method::Post, "/api/v1/namespaces/_/rules/r", Route::RuleStatus(name(None, "r"))),
        ] {
            assert_eq!(route(method, path), Ok(expected), "{path}");
        }
    }

    #[test]
    fn what_is_not_there_is_told_from_what_cannot_be_done_with_it() {
        let text = |method, path| route(method, path).unwrap_err().to_string();
        for path in [
            "/x",
            "/api",
            "/api/v10",
            "/api/v1/x",
            "/api/v1/api-docs/x",
            "/api/v1/docs/x",
            "/api/v1/namespaces/_",
            "/api/v1/namespaces/_/x",
            "/api/v1/namespaces/_/actions/a/b/c",
            "/api/v1/namespaces/_/triggers/a/b",
            "/api/v1/namespaces/_/actions/a/b/c/d",
            "/api/v1/namespaces/_/actions/a/b/",
            "/api/v1/namespaces/_/activations/1/x",
        ] {
            assert_eq!(text(Method::Get, path), "The requested resource could not be found.", "{path}");
        }
        for path in
            ["/api/v1/namespaces", "/api/v1/namespaces/_/activations", "/api/v1/namespaces/_/activations/1"]
        {
            assert_eq!(text(Method::Post, path), "HTTP method not allowed, supported methods: GET", "{path}");
        }
        let refused = text(Method::Post, "/api/v1/namespaces/_/packages/refresh");
        assert_eq!(refused, "HTTP method not allowed, supported methods: GET, PUT, DELETE");
        let text = text(Method::Other, "/api/v1/namespaces/_/actions/a");
        assert_eq!(text, "HTTP method not allowed, supported methods: GET, PUT, DELETE, POST");
        assert_eq!(route(Method::Get, "/api/v1/namespaces/_/limits/x"), Err(RouteError::BelowLimits));
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "(/api/v1(/namespaces)?)?[/a-z_%.]*") {
            for method in [Method::Get, Method::Put, Method::Post, Method::Delete, Method::Options, Method::Other] {
                let _ = route(method, &path);
            }
        }
    }
}
