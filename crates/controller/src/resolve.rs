//! From a path to what can be called: the one way, for calls, rules, sequences, compositions and web actions.
//!
//! `namespace/package/name` is an action of a package, or, where the package is a binding, of the package that it stands for,
//! its provider. What is called has the parameters of provider package < binding < action. All of it is worked out once and
//! kept in memory; a write of an action or a package forgets what was made from it before the write is acknowledged.

use std::sync::Arc;

use bytes::Bytes;
use flint_model::{
    ActivationId, Entity, EntityName, EntityPath, Function, FunctionLimits, FunctionPath, NamespaceName,
    Package, Parameters, Sequence, Version, drawn,
};

use crate::{Caller, Controller, ControllerError, callable::Callable, function_cache::Weigh, system, weight};

/// What somebody wants to do with an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// To see it.
    Read,
    /// To call it.
    Activate,
}

/// An action that was found.
#[derive(Clone)]
pub(crate) enum Callee {
    /// Code.
    Function(Arc<Callable>),
    /// Other actions in a row. It has no parameters of its own, and inherits none.
    Sequence(Arc<Sequence>),
}

/// An action, found and ready to be called.
pub(crate) struct Resolved {
    /// What is there; where versions are told apart and the path names none, the newest.
    pub(crate) callee: Callee,
    pub(crate) origin: Origin,
    /// Which versions calls get, where that is not `callee`, with their weights.
    pub(crate) split: Vec<(u32, Arc<Resolved>)>,
    /// Which of them the path names.
    pub(crate) named: Option<Named>,
}

/// How a path says which version it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// By its number: for those alone whose function it is.
    ByNumber,
    /// By an alias.
    ByAlias,
}

/// What an action has from where it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inherited {
    /// Of the package, overridden by those of the binding.
    pub(crate) parameters: Parameters,
    pub(crate) origin: Origin,
}

/// Where an action is: its package, and the binding through which it was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The package that the action is in.
    pub(crate) package: Option<EntityPath>,
    /// Everybody may read and call what is in that package.
    pub(crate) published: bool,
    /// The binding through which it was found.
    pub(crate) binding: Option<EntityPath>,
}

/// An action as it is stored, with what it inherits.
pub(crate) struct Found {
    /// Where it really is: in its provider when it was found through a binding.
    pub(crate) path: FunctionPath,
    /// What is there: a function or a sequence.
    pub(crate) entity: Option<Entity>,
    pub(crate) inherited: Inherited,
}

impl Resolved {
    /// What one call gets: always the same for the same call.
    pub(crate) fn pick(self: Arc<Self>, call: ActivationId) -> Arc<Self> {
        if self.split.is_empty() {
            return self;
        }
        let at = drawn(call, self.split.iter().map(|(weight, _)| *weight));
        Arc::clone(&self.split[at].1)
    }

    /// Whether a namespace may read and call this, found by `asked`.
    fn check(&self, who: &NamespaceName, asked: &FunctionPath) -> Result<(), ControllerError> {
        if self.named == Some(Named::ByNumber) && self.path().namespace != *who {
            return Err(ControllerError::Forbidden(asked.to_string()));
        }
        self.origin.check(who, asked)
    }

    /// The action's own path: that in the provider when it was found through a binding.
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

    /// Whether it is other actions that a call of it calls.
    pub(crate) fn is_composition(&self) -> bool {
        match &self.callee {
            Callee::Function(callable) => callable.conductor,
            Callee::Sequence(_) => true,
        }
    }

    /// Whether this is a version that was found by `asked`, perhaps through a binding, because no action had that name at `path`.
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
    /// Whether a namespace may read and call what was found by `asked`. One's own always; what is in a published package of
    /// another, directly or through one's own binding.
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
    /// The action at `path`, for somebody who has that right to it. Without a catalog read where it was called lately.
    ///
    /// What is foreign and not published is forbidden whether it is there or not, so that the answer does not tell.
    pub(crate) async fn resolve(
        &self,
        caller: &Caller,
        path: &FunctionPath,
        _right: Right,
    ) -> Result<Arc<Resolved>, ControllerError> {
        // Reading and calling are allowed to the same people; they are told apart for whoever wants to allow calls alone.
        self.resolve_for(&caller.namespace.name, path).await
    }

    /// The same where it was called lately, without waiting; `None` where it must be looked for.
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
        self.functions.insert(path.clone(), Arc::clone(&resolved), began);
        Ok(resolved)
    }

    /// A function, ready to be called.
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
        // Most functions have none: what it takes to fetch them is not in the future of every call.
        let given = Box::pin(self.given(&function)).await?;
        let callable = Callable::new(function, asked.clone(), inherited, &self.metrics).given(given);
        Ok(Callee::Function(Arc::new(callable)))
    }

    /// What is in the catalog at `path`, for `who` may read it; the entity is absent, or a function or sequence.
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

    /// What actions of a package inherit, whichever way it is reached.
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
        // What a binding stands for is its owner's to know: others are told the same whatever has become of it.
        if !own {
            return Err(forbidden());
        }
        let provider = self.provider_of(who, &package, provider).await?;
        Ok(Inherited {
            parameters: package.parameters.over(&provider.parameters),
            origin: Origin { package: Some(provider.path()), published: provider.publish, binding: Some(at) },
        })
    }

    /// The package or binding at a path; refused when something else is there.
    pub(crate) async fn package_at(&self, at: &EntityPath) -> Result<Option<Package>, ControllerError> {
        match self.stores.catalog.entity(&at.namespace, None, &at.name).await? {
            Some(Entity::Package(package)) => Ok(Some(package)),
            Some(_) => Err(ControllerError::OtherCollection),
            None => Ok(None),
        }
    }

    /// The package that a binding stands for, as somebody sees it who may use the binding.
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
            // It was deleted since, and something else has its name.
            Ok(_) | Err(ControllerError::OtherCollection) if foreign => forbidden(),
            Ok(_) | Err(ControllerError::OtherCollection) => {
                Err(ControllerError::NoSuch(provider.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// Calls meet an action anew that was written or deleted, whichever path they take to it.
    pub(crate) fn forget_action(&self, path: &FunctionPath) {
        self.functions.remove_where(|key, resolved| {
            key == path || resolved.path() == path || resolved.is_in_place_of(path, key)
        });
    }

    /// Calls meet everything anew that was made from a package or binding.
    pub(crate) fn forget_package(&self, package: &EntityPath) {
        self.functions.remove_where(|_, resolved| resolved.is_of(package));
    }

    /// Calls meet everything anew that was made from anything of a namespace.
    pub(crate) fn forget_namespace(&self, namespace: &NamespaceName) {
        self.functions.remove_where(|key, resolved| {
            key.namespace == *namespace || resolved.path().namespace == *namespace
        });
    }
}
