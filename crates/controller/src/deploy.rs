//! Deploys: checks, prepares and writes a function, and makes it visible to calls.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use flint_executor::{Capability, FunctionSource, PrepareError, Prepared, Progress, RuntimeKind};
use flint_invoker::Invoker;
use flint_model::{
    Code, Contract, Digest, Entity, Function, FunctionPath, Kind, Reuse, Sequence, Strategy, Timestamp,
};
use flint_store::{Expected, Replacing, StoreError};

use crate::{
    Caller, Controller, ControllerError, Deployed, PrepareWhen, PutCode, PutFunction, address::address,
    background::Wanted, deploying::Deploying, functions::own, kinds, merge, strategy, versions::next_version,
    wasm,
};

/// The preparation of a function that is not written yet. It is forgotten on drop, when the deploy is refused
/// or its client goes away: no later deploy or deletion would find it.
struct Unwritten<'a> {
    invoker: &'a Invoker,
    function: Option<Arc<Function>>,
}

impl Unwritten<'_> {
    fn written(mut self) {
        self.function = None;
    }
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        if let Some(function) = &self.function {
            self.invoker.discard(function);
        }
    }
}

impl Controller {
    /// Creates or overwrites a function. `progress` reports on a long preparation.
    pub async fn put_function(
        self: &Arc<Self>,
        caller: &Caller,
        path: FunctionPath,
        mut put: PutFunction,
        progress: Progress<'_>,
    ) -> Result<Deployed, ControllerError> {
        own(caller, &path.namespace, || path.to_string())?;
        self.check_package(path.package_path()).await?;
        let there = self.action_at(&path).await?;
        if there.is_some() && !put.overwrite {
            return Err(ControllerError::Exists);
        }
        let overwrite = put.overwrite;
        let replaced = there.as_ref().map(Entity::revision);
        let old = match there {
            None => None,
            Some(Entity::Function(function)) => Some(function),
            Some(Entity::Sequence(sequence)) => {
                become_of_sequence(&mut put, sequence)?;
                None
            }
            Some(_) => return Err(ControllerError::OtherCollection),
        };
        if let Some(old) = &old {
            self.number(old, &mut put.version).await?;
        }
        let prepare = put.prepare;
        let capabilities = self.capabilities().await;
        let detected = self.contract_of(caller, put.code.as_ref()).await?;
        let Draft { mut function, new_code } =
            self.draft(caller, path, put, old.as_ref(), detected, capabilities)?;

        if let Some(content) = &new_code {
            function.code.digest = address_of(content.clone()).await?;
            // Before anything is stored: a refused deploy must not take disk space.
            self.admits(&function)?;
            self.stores.blobs.put(content.clone()).await?;
        }
        let function = Arc::new(function);
        let deploying = self.deploys.begin(&function).await;
        let ready = match (prepare, new_code) {
            (PrepareWhen::Now, Some(content)) => Ready::Prepare(content),
            (PrepareWhen::Now, None) => Ready::Prepare(self.code(&function).await?),
            (PrepareWhen::Background, _) => match old.filter(|old| is_prepared_alike(old, &function)) {
                Some(old) => self.invoker.prepared_already(&old).map_or(Ready::Background, Ready::Already),
                None => Ready::Background,
            },
        };
        let release = Release { function, deploying, replaced, ready, live_follows: false };
        match self.release(caller, release, progress).await {
            // Not there when this deploy began, or this would be an overwrite.
            Err(ControllerError::Exists) if overwrite => Err(ControllerError::Race),
            released => released,
        }
    }

    /// Whether the disk has room for it, as far as that is known before it is prepared.
    fn admits(&self, function: &Function) -> Result<(), ControllerError> {
        let admitted = self.invoker.admits(function);
        Ok(admitted.inspect_err(|error| self.look_for_leftovers(error))?)
    }

    /// Prepares a function, writes it and makes it visible to calls.
    pub(crate) async fn release(
        self: &Arc<Self>,
        caller: &Caller,
        release: Release,
        progress: Progress<'_>,
    ) -> Result<Deployed, ControllerError> {
        let Release { function, deploying, replaced, ready, live_follows } = release;
        self.check_secrets(&function).await?;
        self.admits(&function)?;
        let created = replaced.is_none();
        let unwritten = Unwritten { invoker: &self.invoker, function: Some(Arc::clone(&function)) };
        let mut deployed =
            Deployed { function, created, steps: Vec::new(), took: Duration::ZERO, prepared: None };
        let prepared = match ready {
            Ready::Prepare(code) => {
                let source = FunctionSource { function: Arc::clone(&deployed.function), code };
                let prepared = self.invoker.prepare(source, progress).await;
                let prepared = prepared.inspect_err(|error| self.look_for_leftovers(error))?;
                (deployed.steps, deployed.took) = (prepared.steps.clone(), prepared.took);
                deployed.prepared = Some(Arc::clone(&prepared));
                Some(prepared)
            }
            Ready::Already(prepared) => Some(prepared),
            Ready::Background => None,
        };
        let is_ready = prepared.is_some();
        let function = Arc::clone(&deployed.function);
        let how = Replacing {
            expected: replaced.map_or(Expected::Absent, Expected::Revision),
            keep: self.config.versions.keep,
            live_follows,
        };
        let revision = self.commit(caller, function, prepared, how, deploying).await?;
        unwritten.written();

        Arc::make_mut(&mut deployed.function).revision = revision;
        let path = &deployed.function.path;
        tracing::info!(function = %path, version = %deployed.function.version, kind = %deployed.function.kind, "deployed");
        if !is_ready {
            self.prepare_in_background(Wanted { path: path.clone(), version: None });
        }
        Ok(deployed)
    }

    /// Writes the function and makes it visible to calls. Runs to its end even if the client goes away:
    /// otherwise a committed write could leave calls with the old function.
    async fn commit(
        self: &Arc<Self>,
        caller: &Caller,
        mut function: Arc<Function>,
        prepared: Option<Arc<Prepared>>,
        how: Replacing,
        deploying: Deploying,
    ) -> Result<u64, ControllerError> {
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let writing = async move {
            let _deploying = deploying;
            let path = function.path.clone();
            let _structure = controller.hold_namespace(caller.account()).await?;
            controller.check_package(path.package_path()).await?;
            let is_new = how.expected == Expected::Absent;
            let revision = match controller.stores.versions.replace(&function, how).await {
                Err(StoreError::Conflict) if is_new => return Err(ControllerError::Exists),
                other => other?,
            };
            if let Some(prepared) = prepared {
                Arc::make_mut(&mut function).revision = revision;
                controller.invoker.adopt(&function, &prepared);
                drop(controller.invoker.anticipate(&prepared));
            }
            controller.forget_versions(&path, revision - 1).await;
            Ok(revision)
        };
        self.detached(writing).await
    }

    /// The contract that new code implies by itself, as WebAssembly does. Unpacking it may take a while.
    async fn contract_of(
        &self,
        caller: &Caller,
        code: Option<&PutCode>,
    ) -> Result<Option<Contract>, ControllerError> {
        let is_wasm = |code: &&PutCode| {
            let kinds = self.invoker.kinds();
            // What is wrong with the kind is said by the draft.
            kinds::resolve(&code.kind, &kinds).is_ok_and(|runtime| runtime.kind.family() == "wasm")
        };
        let Some(code) = code.filter(is_wasm) else { return Ok(None) };
        let content = code.content.clone();
        self.aside(&caller.namespace.name, move || wasm::contract_of(&content)).await
    }

    /// The requested function, with every check that does not need its code's contents. `detected` is the contract
    /// that new code implies.
    pub(crate) fn draft(
        &self,
        caller: &Caller,
        path: FunctionPath,
        put: PutFunction,
        old: Option<&Function>,
        detected: Option<Contract>,
        capabilities: &[Capability],
    ) -> Result<Draft, ControllerError> {
        let bounds = &caller.limits().bounds;
        let kinds = self.invoker.kinds();
        if let Some(code) = &put.code {
            merge::check_size("exec", code.content.len() as u64, bounds.max_code)?;
        }
        let (kind, code, main) = match (&put.code, old) {
            (Some(code), _) => {
                let kind = self.usable_kind(caller, code, &kinds)?;
                let format = code.format.unwrap_or_else(|| merge::recognise(&code.content, &kind));
                let size = flint_model::ByteSize::bytes(code.content.len() as u64);
                // Placeholder: the blob store computes the digest.
                (kind, Code { digest: Digest::from_bytes([0; 32]), size, format }, code.main.clone())
            }
            (None, Some(old)) => (old.kind.clone(), old.code.clone(), old.main.clone()),
            (None, None) => return Err(ControllerError::NoCode),
        };
        let image = match put.code {
            Some(_) => put.image,
            None => old.and_then(|old| old.image.clone()),
        };
        let limits = merge::limits(old.map_or(&self.config.defaults, |old| &old.limits), &put.limits)?;
        bounds.check(&limits)?;
        merge::check_own_limits(&limits, caller.limits().max_action_instances)?;
        let clones = if put.keep_clones { Reuse::Warm } else { Reuse::Never };
        let asked = strategy::asked(old, put.strategy, put.unnamed, &kind, detected, clones);
        let contract = asked.contract;
        let lacks = |strategy: &Strategy| self.lacking(capabilities, strategy, contract, &kind);
        let strategy = strategy::complete(&asked, &kind, &limits, lacks);
        if let Some(missing) = lacks(&strategy) {
            // Refused, never weakened.
            return Err(ControllerError::NotOnThisHost { what: format!("the strategy {strategy}"), missing });
        }
        let snapshot = merge::snapshot(old, put.snapshot, &kind)?;
        // Their size is checked where they are read.
        merge::check_json("snapshot options", &snapshot, flint_model::ByteSize::bytes(u64::MAX))?;
        let wasm = merge::wasm(old, put.wasm, &kind)?;
        let annotations = merge::annotations(
            old.filter(|_| !put.forget_annotations).map(|old| &old.annotations),
            &put.remove_annotations,
            put.annotations,
            &kind,
        );
        merge::check_json("annotations", &annotations, bounds.max_parameters)?;
        merge::check_annotations(&annotations)?;
        let parameters = put.parameters.or_else(|| old.map(|old| old.parameters.clone())).unwrap_or_default();
        merge::check_json("parameters", &parameters, bounds.max_parameters)?;
        let version = next_version(put.version, old.map(|old| old.version))?;
        let function = Function {
            path,
            version,
            // Assigned by the store.
            revision: old.map_or(1, |old| old.revision + 1),
            kind,
            code,
            main,
            image,
            contract,
            asked: asked.request,
            strategy,
            snapshot,
            wasm,
            network: put.network.or(old.map(|old| old.network)).unwrap_or_default(),
            limits,
            parameters,
            annotations,
            publish: put.publish.or(old.map(|old| old.publish)).unwrap_or_default(),
            restored: None,
            // Whatever the clock says: what is older than its namespace counts as another one's.
            updated: Timestamp::now().max(caller.namespace.created),
        };
        if let Some(missing) = strategy::missing_network(capabilities, &function) {
            return Err(ControllerError::NotOnThisHost { what: "network egress".to_owned(), missing });
        }
        Ok(Draft { function, new_code: put.code.map(|code| code.content) })
    }

    /// The requested runtime, if this host has it and the namespace may use it.
    fn usable_kind(
        &self,
        caller: &Caller,
        code: &PutCode,
        kinds: &[RuntimeKind],
    ) -> Result<Kind, ControllerError> {
        let runtime = kinds::resolve(&code.kind, kinds)?;
        may_use(caller, &runtime.kind, kinds)?;
        if let Err(missing) = &runtime.state {
            let what = format!("the runtime {}", runtime.kind);
            return Err(ControllerError::NotOnThisHost { what, missing: missing.clone() });
        }
        Ok(runtime.kind.clone())
    }
}

/// A checked function that is not written yet, with its code if that is new.
pub(crate) struct Draft {
    pub(crate) function: Function,
    pub(crate) new_code: Option<Bytes>,
}

/// A function to be released.
pub(crate) struct Release {
    pub(crate) function: Arc<Function>,
    pub(crate) deploying: Deploying,
    /// The revision that it replaces.
    pub(crate) replaced: Option<u64>,
    pub(crate) ready: Ready,
    /// Whether the alias `live` is to name it alone.
    pub(crate) live_follows: bool,
}

/// When a function is prepared.
pub(crate) enum Ready {
    /// Prepare it with this code before it is written.
    Prepare(Bytes),
    /// An earlier preparation is still valid.
    Already(Arc<Prepared>),
    /// In the background, after the deploy is answered.
    Background,
}

impl From<PrepareError> for ControllerError {
    fn from(error: PrepareError) -> Self {
        match error {
            PrepareError::Unavailable { what, reason } => Self::NotOnThisHost { what, missing: reason },
            PrepareError::Code(text) => Self::Code(text),
            PrepareError::Busy(text) => Self::Busy(text),
            PrepareError::NoRoom(text) => Self::NoRoom(text),
            PrepareError::OverQuota(text) => Self::Conflicting(text),
            PrepareError::Failed { operation, detail } => {
                Self::Internal(format!("{operation} failed: {detail}"))
            }
        }
    }
}

/// Computed off the async threads, since large code takes a while.
async fn address_of(content: Bytes) -> Result<Digest, ControllerError> {
    let hashing = tokio::task::spawn_blocking(move || address(&content));
    hashing.await.map_err(|error| ControllerError::Internal(format!("hashing code failed: {error}")))
}

/// Whether the caller's namespace may have functions of this kind.
pub(crate) fn may_use(caller: &Caller, kind: &Kind, kinds: &[RuntimeKind]) -> Result<(), ControllerError> {
    match &caller.limits().allowed_kinds {
        Some(allowed) if !allowed.iter().any(|allowed| kinds::allows(allowed, kind, kinds)) => {
            Err(ControllerError::KindForbidden(kind.to_string()))
        }
        _ => Ok(()),
    }
}

/// Whether two functions share a preparation: they differ in metadata only.
fn is_prepared_alike(old: &Function, new: &Function) -> bool {
    let told = Function {
        version: new.version,
        revision: new.revision,
        updated: new.updated,
        restored: new.restored,
        asked: new.asked,
        image: new.image.clone(),
        publish: new.publish,
        annotations: new.annotations.clone(),
        ..old.clone()
    };
    told == *new
}

/// Replaces a sequence by a function: the sequence's metadata and limits stay unless the deploy sets them. What
/// stands in place of its parameters, the list of its components, does not.
fn become_of_sequence(put: &mut PutFunction, sequence: Sequence) -> Result<(), ControllerError> {
    if !put.forget_annotations {
        let mut annotations = sequence.annotations;
        annotations.remove_all(&put.remove_annotations);
        annotations.merge(std::mem::take(&mut put.annotations));
        put.annotations = annotations;
    }
    put.limits = merge::limits(&sequence.limits, &put.limits)?.into();
    put.version = Some(next_version(put.version, Some(sequence.version))?);
    put.publish.get_or_insert(sequence.publish);
    Ok(())
}
