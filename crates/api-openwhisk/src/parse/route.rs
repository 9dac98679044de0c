//! From a method and a path to what is asked for.

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

/// A collection that a later version brings to life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Packages and bindings.
    Packages,
    /// Triggers.
    Triggers,
    /// Rules.
    Rules,
}

impl Collection {
    /// As it stands in the path.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Packages => "packages",
            Self::Triggers => "triggers",
            Self::Rules => "rules",
        }
    }
}

/// What is asked for. Names are as they stand in the path, still encoded.
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
    /// `OPTIONS` below `/api/v1`
    Preflight,
    /// Anything below `/api/v1/web`
    Web,
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
    /// `GET …/packages`, `/triggers`, `/rules`
    LaterList(&'a str, Collection),
    /// `GET` and `DELETE` of one of those
    LaterRead(&'a str, Collection, &'a str),
    /// Everything else with those
    LaterWrite(Collection),
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

/// Why nothing is there to be asked for.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RouteError {
    /// No such path.
    #[error("The requested resource could not be found.")]
    Unknown,
    /// A path, but not with this method.
    #[error("HTTP method not allowed, supported methods: {0}")]
    Method(&'static str),
    /// Something behind `limits`.
    #[error("The requested resource 'limits' has nothing below it.")]
    BelowLimits,
}

const API: &str = "/api/v1";

/// Reads a method and a path.
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
            _ => Err(RouteError::Unknown),
        };
    };
    if method == Method::Options {
        return Ok(Route::Preflight);
    }
    let mut segments = rest.split('/').skip(1);
    let segments: [Option<&str>; 6] = std::array::from_fn(|_| segments.next());
    match segments {
        [None | Some(""), None, ..] => get(Route::Api),
        [Some("web"), ..] => Ok(Route::Web),
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
    let later = |collection| match (method, first, second) {
        (Method::Get, None | Some(""), None) => Ok(Route::LaterList(namespace, collection)),
        (_, None | Some(""), None) => Err(RouteError::Method("GET")),
        (Method::Get | Method::Delete, Some(name), None) => Ok(Route::LaterRead(namespace, collection, name)),
        (Method::Put | Method::Post, Some(_), None) => Ok(Route::LaterWrite(collection)),
        (_, Some(_), None) => Err(RouteError::Method("GET, PUT, DELETE, POST")),
        _ => Err(RouteError::Unknown),
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
        ("packages", ..) => later(Collection::Packages),
        ("triggers", ..) => later(Collection::Triggers),
        ("rules", ..) => later(Collection::Rules),
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
            (Method::Get, "/api/v1/namespaces/_/rules", Route::LaterList("_", Collection::Rules)),
            (Method::Put, "/api/v1/namespaces/_/triggers/t", Route::LaterWrite(Collection::Triggers)),
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
            "/api/v1/namespaces/_",
            "/api/v1/namespaces/_/x",
            "/api/v1/namespaces/_/actions/a/b/c",
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
