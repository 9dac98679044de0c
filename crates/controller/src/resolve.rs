//! Resolves a path to an action: the one way for calls, rules, sequences, compositions and web actions.
//!
//! `namespace/package/name` is an action of a package; if the package is a binding, of the package it is
//! bound to, its provider. An action's parameters override the binding's, which override the provider
//! package's. The result is cached; a write of an action or package invalidates what was made from it before
//! the write is acknowledged.

use std::sync::Arc;

use bytes::Bytes;
use flint_model::{
    ActivationId, Entity, EntityName, EntityPath, Function, FunctionLimits, FunctionPath, NamespaceName,
    Package, Parameters, Sequence, Version, drawn,
};

use crate::{Caller, Controller, ControllerError, callable::Callable, function_cache::Weigh, system, weight};

/// What a caller wants to do with an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// To see it.
    Read,
    /// To call it.
    Activate,
}

/// A resolved action.
#[derive(Clone)]
pub(crate) enum Callee {
    /// Code.
    Function(Arc<Callable>),
    /// A list of other actions. It neither has nor inherits parameters.
    Sequence(Arc<Sequence>),
}

/// A resolved action, with its versions.
pub(crate) struct Resolved {
    /// The action; where versions are told apart and the path names none, the newest.
    pub(crate) callee: Callee,
    pub(crate) origin: Origin,
    /// The versions that share the calls, with their weights, unless all go to `callee`.
    pub(crate) split: Vec<(u32, Arc<Resolved>)>,
    /// How the path names a version.
    pub(crate) named: Option<Named>,
}

/// How a path names a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// By number: for the function's owner only.
    ByNumber,
    /// By an alias.
    ByAlias,
}

/// What an action inherits from its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited {
    /// The package's parameters, overridden by the binding's.
    pub(crate) parameters: Parameters,
    pub(crate) origin: Origin,
}

/// An action's place: its package, and the binding through which it was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The package that contains the action.
    pub(crate) package: Option<EntityPath>,
    /// Everybody may read and call that package's actions.
    pub(crate) published: bool,
    /// The binding through which it was found.
    pub(crate) binding: Option<EntityPath>,
}

/// A stored action, with what it inherits.
pub(crate) struct Found {
    /// Its own path: in the provider if it was found through a binding.
    pub(crate) path: FunctionPath,
    /// The entity: a function or a sequence.
    pub(crate) entity: Option<Entity>,
    pub(crate) inherited: Inherited,
}

impl Resolved {
    /// The version for one call: always the same for the same activation.
    pub(crate) fn pick(self: Arc<Self>, call: ActivationId) -> Arc<Self> {
        if self.split.is_empty() {
            return self;
        }
        let at = drawn(call, self.split.iter().map(|(weight, _)| *weight));
        Arc::clone(&self.split[at].1)
    }

    /// The functions that calls of it may meet.
    fn callables(&self) -> impl Iterator<Item = &Callable> {
        let versions = self.split.iter().map(|(_, version)| &version.callee);
        [&self.callee].into_iter().chain(versions).filter_map(|callee| match callee {
            Callee::Function(callable) => Some(&**callable),
            Callee::Sequence(_) => None,
        })
    }

    /// Whether a namespace may read and call this, found by `asked`.
    fn check(&self, who: &NamespaceName, asked: &FunctionPath) -> Result<(), ControllerError> {
        if self.named == Some(Named::ByNumber) && self.path().namespace != *who {
            return Err(ControllerError::Forbidden(asked.to_string()));
        }
        self.origin.check(who, asked)
    }

    /// The action's own path: in the provider if it was found through a binding.
    pub(crate) fn path(&self) -> &FunctionPath {
        match &self.callee {
            Callee::Function(callable) => &callable.function.path,
            Callee::Sequence(sequence) => &sequence.path,
        }
    }

    pub(crate) fn version_and_limits(&self) -> (Version, &FunctionLimits) {
        match &self.callee {
            Callee::Function(callable) => (callable.function.version, &callable.function.limits),
            Callee::Sequence(sequence) => (sequence.version, &sequence.limits),
        }
    }

    /// Whether it is a composition: a call of it calls other actions.
    pub(crate) fn is_composition(&self) -> bool {
        match &self.callee {
            Callee::Function(callable) => callable.conductor,
            Callee::Sequence(_) => true,
        }
    }

    /// Whether this is a version that was found by `asked`, perhaps through a binding, because no action had
    /// that full name at `path`.
    fn is_in_place_of(&self, path: &FunctionPath, asked: &FunctionPath) -> bool {
        let at = self.path();
        self.named.is_some()
            && asked.name == path.name
            && at.namespace == path.namespace
            && at.package == path.package
    }

    /// Whether this was made from the package, as provider or as binding.
    fn is_of(&self, package: &EntityPath) -> bool {
        self.origin.package.as_ref() == Some(package) || self.origin.binding.as_ref() == Some(package)
    }
}

impl Weigh for Resolved {
    fn weight(&self) -> usize {
        let split: usize = self.split.iter().map(|(_, version)| version.weight()).sum();
        split
            + match &self.callee {
                Callee::Function(callable) => callable.weight(),
                Callee::Sequence(sequence) => {
                    let components = sequence.components.len() * size_of::<FunctionPath>();
                    size_of::<Sequence>() + components + weight::of_annotations(&sequence.annotations)
                }
            }
    }
}

impl Origin {
    /// Whether a namespace may read and call what was found by `asked`: its own actions always, and those in
    /// published packages of others, directly or through its own binding.
    pub(crate) fn check(&self, who: &NamespaceName, asked: &FunctionPath) -> Result<(), ControllerError> {
        let open = self.published || self.package.as_ref().is_none_or(|package| package.namespace == *who);
        match asked.namespace == *who {
            true if open => Ok(()),
            false if self.published && self.binding.is_none() => Ok(()),
            _ => Err(ControllerError::Forbidden(asked.to_string())),
        }
    }
}

impl Controller {
    /// Resolves the action at `path` for a caller with that right to it; a cached one without a catalog read.
    ///
    /// Unpublished actions of others are forbidden whether they exist or not, so that the answer does not
    /// disclose it.
    pub(crate) async fn resolve(
        &self,
        caller: &Caller,
        path: &FunctionPath,
        _right: Right,
    ) -> Result<Arc<Resolved>, ControllerError> {
        // Reading and calling are allowed to the same callers; the distinction is there for finer rights.
        self.resolve_for(&caller.namespace.name, path).await
    }

    /// A cached resolution, without waiting; `None` if it is not cached.
    pub(crate) fn known(
        &self,
        caller: &Caller,
        path: &FunctionPath,
    ) -> Result<Option<Arc<Resolved>>, ControllerError> {
        let Ok(resolved) = self.functions.get(path) else { return Ok(None) };
        resolved.check(&caller.namespace.name, path)?;
        Ok(Some(resolved))
    }

    /// The same on behalf of a namespace.
    pub(crate) async fn resolve_for(
        &self,
        who: &NamespaceName,
        path: &FunctionPath,
    ) -> Result<Arc<Resolved>, ControllerError> {
        let began = match self.functions.get(path) {
            Ok(resolved) => {
                resolved.check(who, path)?;
                return Ok(resolved);
            }
            Err(began) => began,
        };
        let Found { path: at, entity, inherited } = self.find(who, path).await?;
        let resolved = match entity {
            Some(Entity::Function(function)) => self.by_name(function, path, inherited).await?,
            Some(Entity::Sequence(sequence)) => Resolved {
                callee: Callee::Sequence(Arc::new(sequence)),
                origin: inherited.origin,
                split: Vec::new(),
                named: None,
            },
            _ => self.by_version(who, &at, path, inherited).await?,
        };
        let resolved = Arc::new(resolved);
        self.functions.insert_current(path.clone(), Arc::clone(&resolved), began, |current| {
            current.callables().for_each(|callable| callable.label(&self.metrics));
        });
        Ok(resolved)
    }

    /// A function with everything its calls need.
    pub(crate) async fn made_callable(
        &self,
        function: Function,
        asked: &FunctionPath,
        inherited: &Inherited,
    ) -> Result<Callee, ControllerError> {
        if let Some(code) = system::code_of(&function).filter(|code| !code.is_empty()) {
            self.stores.blobs.put(Bytes::from_static(code.as_bytes())).await?;
        }
        let function = self.fit(function).await;
        // Boxed: most functions have no secrets, and the future of every call stays small.
        let given = Box::pin(self.given(&function)).await?;
        let callable = Callable::new(function, asked.clone(), inherited).given(given);
        Ok(Callee::Function(Arc::new(callable)))
    }

    /// The entity at `path` for `who` may read it: a function, a sequence or nothing.
    pub(crate) async fn find(
        &self,
        who: &NamespaceName,
        path: &FunctionPath,
    ) -> Result<Found, ControllerError> {
        let inherited = match &path.package {
            Some(package) => self.inherited(who, path, package).await?,
            None => Inherited::default(),
        };
        inherited.origin.check(who, path)?;
        let path = match &inherited.origin.package {
            Some(package) => FunctionPath {
                namespace: package.namespace.clone(),
                package: Some(package.name.clone()),
                name: path.name.clone(),
            },
            None => path.clone(),
        };
        let entity = self.stores.catalog.entity(&path.namespace, path.package.as_ref(), &path.name).await?;
        match entity {
            Some(Entity::Package(_) | Entity::Trigger(_) | Entity::Rule(_)) => {
                Err(ControllerError::OtherCollection)
            }
            entity => Ok(Found { path, entity, inherited }),
        }
    }

    /// What actions of a package inherit, reached directly or through a binding.
    async fn inherited(
        &self,
        who: &NamespaceName,
        path: &FunctionPath,
        name: &EntityName,
    ) -> Result<Inherited, ControllerError> {
        let own = path.namespace == *who;
        let forbidden = || ControllerError::Forbidden(path.to_string());
        let at = EntityPath::new(path.namespace.clone(), name.clone());
        let found = self.package_at(&at).await.map_err(|error| if own { error } else { forbidden() })?;
        let Some(package) = found else {
            return Err(if own { ControllerError::NoSuch(at.to_string()) } else { forbidden() });
        };
        let Some(provider) = &package.binding else {
            let published = package.publish;
            let origin = Origin { package: Some(at), published, binding: None };
            return Ok(Inherited { parameters: package.parameters, origin });
        };
        // A binding's target is its owner's business: others get the same answer whatever became of it.
        if !own {
            return Err(forbidden());
        }
        let provider = self.provider_of(who, &package, provider).await?;
        Ok(Inherited {
            parameters: package.parameters.over(&provider.parameters),
            origin: Origin { package: Some(provider.path()), published: provider.publish, binding: Some(at) },
        })
    }

    /// The package or binding at a path; refused when the path holds another kind of entity.
    pub(crate) async fn package_at(&self, at: &EntityPath) -> Result<Option<Package>, ControllerError> {
        match self.stores.catalog.entity(&at.namespace, None, &at.name).await? {
            Some(Entity::Package(package)) => Ok(Some(package)),
            Some(_) => Err(ControllerError::OtherCollection),
            None => Ok(None),
        }
    }

    /// A binding's provider, as seen by a user of the binding.
    pub(crate) async fn provider_of(
        &self,
        who: &NamespaceName,
        binding: &Package,
        provider: &EntityPath,
    ) -> Result<Package, ControllerError> {
        if *provider == binding.path() {
            return Err(ControllerError::CircularBinding(provider.to_string()));
        }
        let foreign = provider.namespace != *who;
        let forbidden = || Err(ControllerError::Forbidden(provider.to_string()));
        match self.package_at(provider).await {
            Ok(Some(package)) if package.binding.is_none() => Ok(package),
            // The provider was deleted, and something else has its name.
            Ok(_) | Err(ControllerError::OtherCollection) if foreign => forbidden(),
            Ok(_) | Err(ControllerError::OtherCollection) => Err(ControllerError::NoProvider {
                binding: binding.path().to_string(),
                provider: provider.to_string(),
            }),
            Err(error) => Err(error),
        }
    }

    /// Invalidates an action that was written or deleted, under all paths to it.
    pub(crate) fn forget_action(&self, path: &FunctionPath) {
        self.functions.remove_where(|key, resolved| {
            key == path || resolved.path() == path || resolved.is_in_place_of(path, key)
        });
    }

    /// Invalidates everything made from a package or binding.
    pub(crate) fn forget_package(&self, package: &EntityPath) {
        self.functions.remove_where(|_, resolved| resolved.is_of(package));
    }

    /// Invalidates everything made from entities of a namespace.
    pub(crate) fn forget_namespace(&self, namespace: &NamespaceName) {
        self.functions.remove_where(|key, resolved| {
            key.namespace == *namespace || resolved.path().namespace == *namespace
        });
    }
}
