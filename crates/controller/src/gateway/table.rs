//! The routing table of a namespace's APIs, cached in memory.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use flint_model::{Api, FunctionPath, NamespaceName};
use flint_store::Apis;
use moka::sync::Cache;
use tokio::sync::Mutex;

use crate::ControllerError;

/// Maximum number of cached tables, and how long an unused one is kept.
const REMEMBERED: u64 = 1_000;
const IDLE: Duration = Duration::from_secs(600);

/// The result of routing a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routing {
    /// A web action answers it.
    To(Box<Routed>),
    /// The path exists, but not with this method. The methods it has, in lower case.
    OtherMethods(Vec<String>),
    /// There is no such path.
    Nobody,
}

/// The action that answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// The action.
    pub action: FunctionPath,
    /// The response format, as a web action's extension.
    pub extension: String,
    /// The value it expects in `X-Require-Whisk-Auth`.
    pub secret: Option<String>,
    /// Whether the path has parameters, which the action has to see.
    pub has_parameters: bool,
}

/// The operations of a namespace.
pub(crate) struct Table(Vec<Row>);

struct Row {
    /// Number of segments of the base path.
    base: usize,
    segments: Vec<Segment>,
    method: String,
    routed: Routed,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Literal(String),
    Any,
}

impl Table {
    fn new(apis: Vec<Api>) -> Self {
        let mut rows = Vec::new();
        for api in apis {
            let base = segments(&api.base_path);
            for operation in api.operations {
                let path =
                    segments(&operation.path).into_iter().map(|segment| match segment.starts_with('{') {
                        true => Segment::Any,
                        false => Segment::Literal(segment.to_owned()),
                    });
                let segments: Vec<_> =
                    base.iter().map(|s| Segment::Literal((*s).to_owned())).chain(path).collect();
                let routed = Routed {
                    action: operation.action,
                    extension: operation.extension,
                    secret: operation.secret,
                    has_parameters: segments.contains(&Segment::Any),
                };
                rows.push(Row { base: base.len(), segments, method: operation.method, routed });
            }
        }
        // Longest base path first, then literal segments before parameters.
        rows.sort_by(|a, b| b.base.cmp(&a.base).then_with(|| a.segments.cmp(&b.segments)));
        Self(rows)
    }

    /// Routes a path of decoded segments; a trailing slash is ignored.
    pub(crate) fn route(&self, path: &[&str], method: &str) -> Routing {
        let path = path.strip_suffix(&[""]).unwrap_or(path);
        let there = || self.0.iter().filter(|row| row.is_at(path));
        if let Some(row) = there().find(|row| row.method == method) {
            return Routing::To(Box::new(row.routed.clone()));
        }
        let mut methods: Vec<_> = there().map(|row| row.method.clone()).collect();
        methods.sort();
        methods.dedup();
        if methods.is_empty() { Routing::Nobody } else { Routing::OtherMethods(methods) }
    }
}

impl Row {
    fn is_at(&self, path: &[&str]) -> bool {
        self.segments.len() == path.len()
            && self.segments.iter().zip(path).all(|(segment, asked)| match segment {
                Segment::Literal(literal) => literal == asked,
                Segment::Any => !asked.is_empty(),
            })
    }
}

fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).collect()
}

/// Cached tables by namespace. The store is the truth; a write invalidates the table before it is
/// acknowledged.
pub(crate) struct Tables {
    tables: Cache<NamespaceName, Arc<Table>>,
    /// Number of writes, counted under the write lock so that no table is added meanwhile.
    epoch: RwLock<u64>,
    /// Held while a table is built, since its source is large.
    making: Mutex<()>,
}

impl Default for Tables {
    fn default() -> Self {
        let tables = Cache::builder().max_capacity(REMEMBERED).time_to_idle(IDLE).build();
        Self { tables, epoch: RwLock::default(), making: Mutex::default() }
    }
}

impl Tables {
    /// A namespace's table.
    pub(crate) async fn of(
        &self,
        namespace: &NamespaceName,
        apis: &dyn Apis,
    ) -> Result<Arc<Table>, ControllerError> {
        if let Some(table) = self.tables.get(namespace) {
            return Ok(table);
        }
        let _one_at_a_time = self.making.lock().await;
        if let Some(table) = self.tables.get(namespace) {
            return Ok(table);
        }
        let began = self.epoch();
        let table = Arc::new(Table::new(apis.apis(namespace).await?));
        self.keep(namespace, &table, began);
        Ok(table)
    }

    /// Caches a table whose building began at that epoch, unless there was a write since.
    fn keep(&self, namespace: &NamespaceName, table: &Arc<Table>, began: u64) {
        let epoch = self.epoch.read().unwrap_or_else(PoisonError::into_inner);
        if *epoch == began {
            self.tables.insert(namespace.clone(), Arc::clone(table));
        }
    }

    fn epoch(&self) -> u64 {
        *self.epoch.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called after a write, before it is acknowledged.
    pub(crate) fn forget(&self, namespace: &NamespaceName) {
        let mut epoch = self.epoch.write().unwrap_or_else(PoisonError::into_inner);
        *epoch += 1;
        self.tables.invalidate(namespace);
    }
}

#[cfg(test)]
mod tests {
    use flint_model::{Operation, Timestamp};
    use proptest::prelude::*;
    use serde_json::Map;

    use super::*;

    fn api(base_path: &str, operations: &[(&str, &str, &str)]) -> Api {
        let operation = |(method, path, action): &(&str, &str, &str)| Operation {
            path: (*path).to_owned(),
            method: (*method).to_owned(),
            action: format!("guest/{action}").parse().unwrap(),
            extension: ".http".to_owned(),
            secret: None,
            document: Map::new(),
        };
        Api {
            namespace: "guest".parse().unwrap(),
            base_path: base_path.to_owned(),
            title: base_path.to_owned(),
            revision: 1,
            document: Map::new(),
            operations: operations.iter().map(operation).collect(),
            updated: Timestamp::from_millis(0),
        }
    }

    fn table() -> Table {
        Table::new(vec![
            api("/", &[("get", "/", "root"), ("get", "/club/books", "short")]),
            api(
                "/club",
                &[
                    ("get", "/{what}", "any"),
                    ("get", "/books", "books"),
                    ("post", "/books", "add"),
                    ("get", "/books/{id}", "book"),
                    ("delete", "/books/{id}", "remove"),
                    ("get", "/books/latest", "latest"),
                    ("get", "/", "club"),
                ],
            ),
        ])
    }

    fn route(method: &str, path: &[&str]) -> String {
        match table().route(path, method) {
            Routing::To(routed) => routed.action.name.to_string(),
            Routing::OtherMethods(methods) => methods.join(" "),
            Routing::Nobody => String::new(),
        }
    }

    #[test]
    fn what_is_named_goes_before_what_stands_for_anything() {
        for (method, path, action) in [
            ("get", &["club", "books"][..], "books"),
            ("get", &["club", "films"], "any"),
            ("get", &["club", "books", "latest"], "latest"),
            ("get", &["club", "books", "7"], "book"),
            ("delete", &["club", "books", "latest"], "remove"),
            ("get", &["club", "books", ""], "books"),
            ("get", &["club"], "club"),
            ("get", &[""], "root"),
            ("get", &[], "root"),
            ("put", &["club", "books"], "get post"),
            ("get", &["club", "books", "7", "8"], ""),
            ("get", &["club", "books", "a/b"], "book"),
            ("get", &["elsewhere"], ""),
        ] {
            assert_eq!(route(method, path), action, "{method} {path:?}");
        }
    }

    #[test]
    fn a_table_that_a_write_overtook_is_not_kept() {
        let (tables, guest) = (Tables::default(), "guest".parse().unwrap());
        let kept = |began| {
            tables.keep(&guest, &Arc::new(table()), began);
            tables.tables.get(&guest).is_some()
        };
        let began = tables.epoch();
        tables.forget(&guest);
        assert!(!kept(began), "it may be of before the write");
        assert!(kept(tables.epoch()));
        tables.forget(&guest);
        assert!(tables.tables.get(&guest).is_none());
    }

    #[test]
    fn only_a_path_with_parameters_is_shown_to_the_action() {
        let table = table();
        let shown = |path: &[&str]| match table.route(path, "get") {
            Routing::To(routed) => routed.has_parameters,
            other => panic!("{other:?}"),
        };
        assert!(shown(&["club", "books", "7"]) && !shown(&["club", "books"]));
    }

    proptest! {
        #[test]
        fn a_path_that_is_there_is_found(segments in proptest::collection::vec("[a-c]", 1..4), any in 0..4usize) {
            let template: Vec<_> = segments.iter().enumerate()
                .map(|(at, segment)| if at == any { format!("{{p{at}}}") } else { segment.clone() }).collect();
            let table = Table::new(vec![api("/v", &[("get", &format!("/{}", template.join("/")), "f")])]);
            let path: Vec<_> = std::iter::once("v").chain(segments.iter().map(String::as_str)).collect();
            prop_assert!(matches!(table.route(&path, "get"), Routing::To(_)));
            prop_assert_eq!(table.route(&path, "put"), Routing::OtherMethods(vec!["get".to_owned()]));
            prop_assert_eq!(table.route(&path[1..], "get"), Routing::Nobody);
        }
    }
}
