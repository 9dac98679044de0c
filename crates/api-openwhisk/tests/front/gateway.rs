//! Contract §14: APIs, as clients manage them and as they are served.

use axum::body::Body;
use flint_controller::GUEST_KEY;
use serde_json::{Value, json};

use crate::support::{Api, Reply, basic, request};

const MANAGEMENT: &str = "/api/v1/web/whisk.system/apimgmt";
/// What the CLI puts behind every management call.
const TOKENS: &str = "accesstoken=DUMMY+TOKEN&spaceguid=23bc46b1-71f6-4ed5-8c54-816aa4f8c502";

async fn export(api: &Api, name: &str, script: &str, annotations: Value) {
    let mut all = vec![json!({"key": "web-export", "value": true})];
    for (key, value) in annotations.as_object().unwrap() {
        all.push(json!({"key": key, "value": value}));
    }
    let body = json!({"exec": {"kind": "nodejs:default", "code": script}, "annotations": all});
    let reply = api.call("PUT", &format!("actions/{name}?overwrite=true"), Some(body)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

fn endpoint(base_path: &str, path: &str, method: &str, action: &str) -> Value {
    json!({"apidoc": {
        "namespace": "_", "gatewayBasePath": base_path, "gatewayPath": path, "gatewayMethod": method,
        "id": format!("API:_:{base_path}"),
        "action": {"name": action, "namespace": "_", "backendMethod": method, "authkey": GUEST_KEY,
                   "backendUrl": format!("http://h/api/v1/web/_/default/{action}.http")}
    }})
}

async fn create(api: &Api, body: Value) -> Reply {
    api.call("POST", &format!("{MANAGEMENT}/createApi.http?{TOKENS}&responsetype=json"), Some(body)).await
}

async fn list(api: &Api, filter: &str) -> Vec<Value> {
    let reply = api.get(&format!("{MANAGEMENT}/getApi.http?{TOKENS}&limit=30&skip=0{filter}")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["apis"].as_array().unwrap().clone()
}

/// A request to guest's APIs.
async fn ask(api: &Api, method: &str, path: &str) -> Reply {
    api.send(request(method, &format!("/api/v1/gateway/guest{path}"), None, &[])).await
}

#[tokio::test]
async fn an_api_is_created_shown_served_and_deleted() {
    let api = Api::start().await;
    export(&api, "zz", "echo it", json!({})).await;
    let created = create(&api, endpoint("/hello", "/world", "GET", "zz")).await;
    assert_eq!(created.status, 200, "{created:?}");
    let value = created.json();
    assert_eq!(value["gwApiActivated"], true);
    assert_eq!((&value["namespace"], &value["tenantId"]), (&json!("guest"), &json!("guest")));
    assert!(value["gwApiUrl"].as_str().unwrap().ends_with("/api/v1/gateway/guest/hello"), "{value}");
    let doc = &value["apidoc"];
    assert_eq!((&doc["swagger"], &doc["basePath"]), (&json!("2.0"), &json!("/hello")));
    assert_eq!(doc["info"]["title"], "/hello");
    let operation = &doc["paths"]["/world"]["get"];
    assert!(!operation["operationId"].as_str().unwrap().is_empty() && operation["responses"].is_object());
    let target = &operation["x-openwhisk"];
    for (key, text) in [("namespace", "guest"), ("package", "default"), ("action", "zz")] {
        assert_eq!(target[key], text);
    }
    assert!(target["url"].as_str().unwrap().ends_with("/api/v1/web/guest/default/zz.json"), "{target}");
    assert!(!created.text.contains(GUEST_KEY.split(':').next_back().unwrap()), "no key is shown");

    let listed = list(&api, "").await;
    assert_eq!(
        (listed.len(), &listed[0]["value"], &listed[0]["id"]),
        (1, &value, &json!("API:guest:/hello"))
    );

    let reply = ask(&api, "GET", "/hello/world?a=1").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let given = reply.json();
    assert_eq!(
        (&given["a"], &given["__ow_path"], &given["__ow_method"]),
        (&json!("1"), &json!(""), &json!("get"))
    );
    api.record(&reply.activation()).await;

    let gone = format!("{MANAGEMENT}/deleteApi.http?{TOKENS}&basepath=/hello");
    assert_eq!(api.call("DELETE", &gone, None).await.status, 200);
    assert_eq!(list(&api, "").await, Vec::<Value>::new());
    assert_eq!(ask(&api, "GET", "/hello/world").await.refusal().0, 404);
    assert_eq!(ask(&api, "OPTIONS", "/hello/world").await.status, 200, "it is answered for every path");
    assert_eq!(api.call("DELETE", &gone, None).await.refusal().0, 404);
}

#[tokio::test]
async fn the_apis_of_a_namespace_are_bounded_together() {
    let api = Api::start().await;
    export(&api, "zz", "echo it", json!({})).await;
    let large = |base_path: &str| {
        let mut body = endpoint(base_path, "/x", "get", "zz");
        body["apidoc"]["x-large"] = "x".repeat(900 << 10).into();
        body
    };
    for number in 0..9 {
        assert_eq!(create(&api, large(&format!("/{number}"))).await.status, 200, "{number}");
    }
    let (status, text) = create(&api, large("/more")).await.refusal();
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("the APIs of a namespace may be 8 MB of JSON together"), "{text}");
    assert_eq!(list(&api, "").await.len(), 9);
    // One of them becomes smaller.
    assert_eq!(create(&api, endpoint("/0", "/x", "get", "zz")).await.status, 200);
    assert_eq!(create(&api, large("/more")).await.status, 200);
}

#[tokio::test]
async fn an_api_grows_and_shrinks() {
    let api = Api::start().await;
    for action in ["list", "add", "one"] {
        export(&api, action, &format!("answer {{\"by\":\"{action}\"}}"), json!({})).await;
    }
    let mut first = endpoint("/club", "/books", "get", "list");
    first["apidoc"]["apiName"] = json!("Book Club");
    for body in
        [first, endpoint("/club", "/books", "post", "add"), endpoint("/club", "/books/{id}", "get", "one")]
    {
        assert_eq!(create(&api, body).await.status, 200);
    }
    create(&api, endpoint("/other", "/x", "get", "one")).await;
    for (method, path, by) in
        [("GET", "/club/books", "list"), ("POST", "/club/books", "add"), ("GET", "/club/books/7", "one")]
    {
        assert_eq!(ask(&api, method, path).await.json(), json!({ "by": by }), "{method} {path}");
    }
    let titles: Vec<_> =
        list(&api, "").await.iter().map(|one| one["value"]["apidoc"]["info"]["title"].clone()).collect();
    assert_eq!(titles, [json!("Book Club"), json!("/other")]);
    for (filter, operations) in [
        ("&basepath=/club", 3),
        ("&basepath=Book+Club", 3),
        ("&basepath=/club&relpath=/books", 2),
        ("&basepath=/club&relpath=/books&operation=POST", 1),
        ("&basepath=/none", 0),
        ("&relpath=/none", 0),
    ] {
        let count = |one: &Value| -> usize {
            let paths = one["value"]["apidoc"]["paths"].as_object().unwrap();
            paths.values().map(|path| path.as_object().unwrap().len()).sum()
        };
        assert_eq!(list(&api, filter).await.iter().map(count).sum::<usize>(), operations, "{filter}");
    }
    // In place of what was there.
    create(&api, endpoint("/club", "/books", "get", "one")).await;
    assert_eq!(ask(&api, "GET", "/club/books").await.json(), json!({"by": "one"}));
    let refused = ask(&api, "PUT", "/club/books").await;
    assert_eq!(refused.refusal(), (405, "HTTP method not allowed, supported methods: GET, POST".to_owned()));
    assert_eq!(refused.header("allow"), Some("GET, POST"));

    let delete = async |query: &str| {
        api.call("DELETE", &format!("{MANAGEMENT}/deleteApi?force=true&{query}"), None).await.status
    };
    assert_eq!(delete("basepath=/club&relpath=/books&operation=POST").await, 200);
    assert_eq!(ask(&api, "POST", "/club/books").await.status, 405);
    assert_eq!(delete("basepath=/club&relpath=/books&operation=POST").await, 404);
    assert_eq!((delete("basepath=/club&operation=get").await, delete("").await), (400, 400));
    assert_eq!(delete("basepath=Book+Club&relpath=/books").await, 200);
    assert_eq!(ask(&api, "GET", "/club/books").await.status, 404);
    assert_eq!(
        delete("basepath=/club&relpath=/books/{id}").await,
        200,
        "with its last operation the API goes"
    );
    assert_eq!(list(&api, "&basepath=/club").await, Vec::<Value>::new());

    let mut named = endpoint("/another", "/x", "get", "one");
    named["apidoc"]["apiName"] = json!("/other");
    create(&api, named).await;
    assert_eq!(delete("basepath=/other").await, 200);
    let left = (ask(&api, "GET", "/another/x").await.status, ask(&api, "GET", "/other/x").await.status);
    assert_eq!(left, (200, 404), "a base path comes before another API's name");
}

#[tokio::test]
async fn path_parameters_are_the_actions_to_read() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({})).await;
    let mut body = endpoint("/api/v1", "/contacts/{id}", "get", "f");
    body["apidoc"]["pathParameters"] =
        json!([{"name": "id", "in": "path", "required": true, "type": "string"}]);
    let created = create(&api, body).await.json();
    let operation = &created["apidoc"]["paths"]["/contacts/{id}"]["get"];
    assert_eq!(operation["parameters"][0]["name"], "id");
    let given = ask(&api, "GET", "/api/v1/contacts/a%20b?q=1").await.json();
    assert_eq!((&given["__ow_path"], &given["q"]), (&json!("/api/v1/contacts/a%20b"), &json!("1")));
}

#[tokio::test]
async fn only_web_actions_answer_and_their_secret_comes_from_the_api() {
    let api = Api::start().await;
    api.action("closed", "echo it").await;
    for action in ["closed", "none"] {
        let (status, text) = create(&api, endpoint("/a", "/b", "get", action)).await.refusal();
        assert!(status == 400 && text.contains("is not a web action"), "{text}");
    }
    export(&api, "safe", "echo it", json!({"require-whisk-auth": "s3cret"})).await;
    let mut body = endpoint("/a", "/b", "get", "safe");
    create(&api, body.clone()).await;
    assert_eq!(ask(&api, "GET", "/a/b").await.refusal().0, 401, "the API does not know the secret");
    body["apidoc"]["action"]["secureKey"] = json!("s3cret");
    let created = create(&api, body).await;
    assert!(created.status == 200 && !created.text.contains("s3cret"), "{created:?}");
    let wrong = [("x-require-whisk-auth", "guessed")];
    let reply = api.send(request("GET", "/api/v1/gateway/guest/a/b", None, &wrong)).await;
    assert_eq!(reply.status, 200, "what the client says does not count");
    // What was exported comes back with its secret.
    let exported = list(&api, "").await[0]["value"]["apidoc"].clone();
    let import = json!({"apidoc": {"namespace": "_", "swagger": exported.to_string()}});
    assert_eq!(create(&api, import).await.status, 200);
    assert_eq!(ask(&api, "GET", "/a/b").await.status, 200);
    // An action that is closed is closed through its API too.
    let off = json!({"annotations": [{"key": "web-export", "value": false}]});
    api.call("PUT", "actions/safe?overwrite=true", Some(off)).await;
    assert_eq!(ask(&api, "GET", "/a/b").await.refusal().0, 404);
}

#[tokio::test]
async fn a_swagger_document_becomes_an_api() {
    let api = Api::start().await;
    export(&api, "page", r#"answer {"body":"<p>","headers":{"x-mine":"1"}}"#, json!({})).await;
    let swagger = json!({
        "swagger": "2.0", "basePath": "/site/", "info": {"title": "Site", "version": "7"},
        "paths": {"/": {"get": {"operationId": "page", "x-openwhisk": {
            "namespace": "_", "package": "default", "action": "page",
            "url": "https://elsewhere/api/v1/web/_/default/page.http"}}}}
    });
    let created =
        create(&api, json!({"apidoc": {"namespace": "_", "swagger": swagger.to_string()}})).await.json();
    assert_eq!(
        (&created["apidoc"]["info"]["version"], &created["apidoc"]["basePath"]),
        (&json!("7"), &json!("/site"))
    );
    for path in ["/site", "/site/"] {
        let reply = ask(&api, "GET", path).await;
        assert_eq!(
            (reply.status, reply.text.as_str(), reply.header("x-mine")),
            (200, "<p>", Some("1")),
            "{path}"
        );
    }
    for (swagger, part) in [
        (json!({"basePath": "/a"}), "paths"),
        (json!({"basePath": "a", "info": {}, "paths": {}}), "begins with /"),
        (json!({"basePath": "/a", "info": {}, "paths": {"/x": {"get": {}}}}), "x-openwhisk"),
        (json!({"basePath": "/a", "info": {}, "paths": {"/x": {"fetch": {}}}}), "not an operation"),
    ] {
        let (status, text) =
            create(&api, json!({"apidoc": {"namespace": "_", "swagger": swagger}})).await.refusal();
        assert!(status == 400 && text.starts_with("API creation failure: ") && text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn apis_are_managed_with_a_key_and_each_namespaces_are_its_own() {
    let api = Api::start().await;
    let other = api.other().await;
    export(&api, "f", "echo it", json!({})).await;
    create(&api, endpoint("/a", "/b", "get", "f")).await;
    for (method, action) in [("GET", "getApi"), ("POST", "createApi.http"), ("DELETE", "deleteApi.http")] {
        let reply = api.send(request(method, &format!("{MANAGEMENT}/{action}"), None, &[])).await;
        assert_eq!(reply.refusal().0, 401, "{action}");
        let wrong = api.call("PATCH", &format!("{MANAGEMENT}/{action}"), None).await;
        assert_eq!(wrong.refusal().0, 405, "{action}");
        let preflight = api.send(request("OPTIONS", &format!("{MANAGEMENT}/{action}"), None, &[])).await;
        assert_eq!(preflight.status, 200);
    }
    let listed = api.call_as(&other, "GET", &format!("{MANAGEMENT}/getApi.http"), None).await;
    assert_eq!(listed.json(), json!({"apis": []}));
    let deleted =
        api.call_as(&other, "DELETE", &format!("{MANAGEMENT}/deleteApi.http?basepath=/a"), None).await;
    assert_eq!(deleted.status, 404);
    let foreign = json!({"apidoc": {"namespace": "guest", "gatewayBasePath": "/x"}});
    let refused = api.call_as(&other, "POST", &format!("{MANAGEMENT}/createApi.http"), Some(foreign)).await;
    assert_eq!(refused.refusal().0, 400);
    // Anybody's web action may stand in one's API.
    let mut body = endpoint("/mine", "/f", "get", "f");
    body["apidoc"]["action"]["namespace"] = json!("guest");
    let created = api.call_as(&other, "POST", &format!("{MANAGEMENT}/createApi"), Some(body)).await;
    assert_eq!(created.status, 200, "{created:?}");
    let reply = api.send(request("GET", "/api/v1/gateway/other/mine/f", None, &[])).await;
    assert_eq!(api.record(&reply.activation()).await["namespace"], "guest");
    let name = "other".parse().unwrap();
    api.server.controller.delete_namespace(&name).await.unwrap();
    let gone = api.send(request("GET", "/api/v1/gateway/other/mine/f", None, &[])).await;
    assert_eq!(gone.refusal().0, 404);
    for path in
        ["/api/v1/gateway", "/api/v1/gateway/", "/api/v1/gateway/nobody/a", "/api/v1/gateway/guest/%zz"]
    {
        assert_eq!(api.send(request("GET", path, None, &[])).await.refusal().0, 404, "{path}");
    }
}

#[tokio::test]
async fn pages_of_other_sites_may_use_an_api() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({})).await;
    create(&api, endpoint("/a", "/b", "get", "f")).await;
    let asked = [("access-control-request-headers", "x-a"), ("authorization", &basic(GUEST_KEY))];
    let mut preflight = request("OPTIONS", "/api/v1/gateway/guest/a/b", None, &asked);
    *preflight.body_mut() = Body::empty();
    let reply = api.send(preflight).await;
    assert_eq!((reply.status, reply.header("access-control-allow-headers")), (200, Some("x-a")));
    assert_eq!(api.server.executor.calls_of("guest/f"), Vec::<String>::new());
    assert_eq!(ask(&api, "GET", "/a/b").await.header("access-control-allow-origin"), Some("*"));
}

#[tokio::test]
async fn many_create_at_once_and_nothing_is_lost() {
    let api = Api::start().await;
    export(&api, "f", "echo it", json!({})).await;
    let names = ["a", "b", "c", "d"];
    let paths = names.map(|name| format!("/{name}"));
    let creating = paths.each_ref().map(|path| create(&api, endpoint("/many", path, "get", "f")));
    let [a, b, c, d] = creating;
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    for reply in [a, b, c, d] {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let listed = list(&api, "").await;
    assert_eq!(listed[0]["value"]["apidoc"]["paths"].as_object().unwrap().len(), 4);
}
