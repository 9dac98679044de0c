//! The JSON of packages.

use flint_controller::PackageContents;
use flint_model::{Annotations, Entity, EntityPath, Package, Parameters, Version};
use serde::{Serialize, Serializer};

/// A complete package.
#[derive(Serialize)]
pub(crate) struct PackageDetail<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    parameters: &'a Parameters,
    #[serde(serialize_with = "detailed")]
    binding: Option<&'a EntityPath>,
    /// Only if requested.
    #[serde(flatten)]
    contents: Option<Contents<'a>>,
}

/// A package in lists.
#[derive(Serialize)]
pub(crate) struct PackageSummary<'a> {
    #[serde(flatten)]
    common: Common<'a>,
    #[serde(serialize_with = "summarised")]
    binding: Option<&'a EntityPath>,
}

#[derive(Serialize)]
struct Common<'a> {
    namespace: &'a str,
    name: &'a str,
    version: Version,
    publish: bool,
    annotations: &'a Annotations,
    updated: u64,
}

#[derive(Serialize)]
struct Contents<'a> {
    actions: Vec<Content<'a>>,
    feeds: Vec<Content<'a>>,
}

/// An action within its package.
#[derive(Serialize)]
struct Content<'a> {
    name: &'a str,
    version: Version,
    annotations: Annotations,
}

impl<'a> PackageDetail<'a> {
    /// The package without its actions.
    pub(crate) fn new(package: &'a Package) -> Self {
        Self {
            common: Common::of(package),
            parameters: &package.parameters,
            binding: package.binding.as_ref(),
            contents: None,
        }
    }

    pub(crate) fn with_contents(shown: &'a PackageContents) -> Self {
        // Whatever the annotation says: that it is there makes it a feed.
        let (feeds, actions) = shown
            .actions
            .iter()
            .filter_map(Content::of)
            .partition(|content| content.annotations.get("feed").is_some());
        Self { contents: Some(Contents { actions, feeds }), ..Self::new(&shown.package) }
    }
}

impl<'a> PackageSummary<'a> {
    pub(crate) fn new(package: &'a Package) -> Self {
        Self { common: Common::of(package), binding: package.binding.as_ref() }
    }
}

impl<'a> Common<'a> {
    fn of(package: &'a Package) -> Self {
        Self {
            namespace: package.namespace.as_str(),
            name: package.name.as_str(),
            version: package.version,
            publish: package.publish,
            annotations: &package.annotations,
            updated: package.updated.as_millis(),
        }
    }
}

impl<'a> Content<'a> {
    fn of(entity: &'a Entity) -> Option<Self> {
        let (version, annotations, kind) = match entity {
            Entity::Function(one) => (one.version, &one.annotations, one.kind.as_str()),
            Entity::Sequence(one) => (one.version, &one.annotations, "sequence"),
            Entity::Package(_) | Entity::Trigger(_) | Entity::Rule(_) => return None,
        };
        let mut annotations = annotations.clone();
        annotations.set("exec", kind);
        Some(Self { name: entity.name().as_str(), version, annotations })
    }
}

#[derive(Serialize)]
struct Provider<'a> {
    namespace: &'a str,
    name: &'a str,
}

/// `{"namespace": …, "name": …}`, or `{}`.
fn detailed<S: Serializer>(binding: &Option<&EntityPath>, serializer: S) -> Result<S::Ok, S::Error> {
    match binding {
        Some(path) => {
            Provider { namespace: path.namespace.as_str(), name: path.name.as_str() }.serialize(serializer)
        }
        None => serializer.collect_map(std::iter::empty::<(&str, &str)>()),
    }
}

/// The same, or `false`.
fn summarised<S: Serializer>(binding: &Option<&EntityPath>, serializer: S) -> Result<S::Ok, S::Error> {
    match binding {
        Some(_) => detailed(binding, serializer),
        None => serializer.serialize_bool(false),
    }
}
