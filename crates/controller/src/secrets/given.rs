//! The secrets given to a function's calls.

use std::hash::{Hash, Hasher};

use flint_model::{Function, NamespaceName, SealedSecret, SecretBinding};

use super::Keyring;
use crate::{Controller, ControllerError};

/// A function's secrets, decrypted. They are set in the environment of instances that serve its calls, never
/// in what is prepared or in snapshots.
#[derive(Default)]
pub(crate) struct Given {
    /// Variables.
    pub(crate) environment: Vec<(String, String)>,
    /// Their revisions, which tell instances with other values apart.
    revisions: Vec<u64>,
    /// Why it cannot be called.
    pub(crate) lacks: Option<Lacks>,
}

/// Why a function cannot be called, in words for its user.
pub(crate) enum Lacks {
    /// A secret is missing, or is not what was set: its user has to set it.
    Secret(String),
    /// This server does not have the key of a secret: its operator has to give it back.
    Key(String),
}

/// Hashes the secrets' revisions, not their values.
impl Hash for Given {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.revisions.hash(hasher);
    }
}

impl Given {
    pub(crate) fn is_none(&self) -> bool {
        self.revisions.is_empty()
    }
}

impl Controller {
    /// The secrets for a function: those of the namespace that it belongs to, whoever calls it.
    pub(crate) async fn given(&self, function: &Function) -> Result<Given, ControllerError> {
        let mut given = Given::default();
        // An invalid annotation was refused when it was written.
        for binding in SecretBinding::of(&function.annotations).unwrap_or_default() {
            let namespace = &function.path.namespace;
            let secret = self.stores.secrets.secret(namespace, &binding.secret).await?;
            let Some(secret) = secret else {
                given.lacks = Some(Lacks::Secret(missing(&binding, namespace)));
                break;
            };
            let value = self.keyring.open(&secret).and_then(|value| String::from_utf8(value).ok());
            let Some(value) = value else {
                given.lacks = Some(self.keyring.why_closed(&secret));
                break;
            };
            given.revisions.push(secret.revision);
            given.environment.push((binding.variable, value));
        }
        Ok(given)
    }

    /// Refuses the deploy of a function whose secrets do not exist.
    pub(crate) async fn check_secrets(&self, function: &Function) -> Result<(), ControllerError> {
        for binding in SecretBinding::of(&function.annotations).unwrap_or_default() {
            let namespace = &function.path.namespace;
            if self.stores.secrets.secret(namespace, &binding.secret).await?.is_none() {
                return Err(ControllerError::Invalid(missing(&binding, namespace)));
            }
        }
        Ok(())
    }

    /// Invalidates a namespace's secrets: new calls get the new values, and instances with old ones serve no
    /// more calls.
    pub(super) fn forget_secrets(&self, namespace: &NamespaceName) {
        self.forget_namespace(namespace);
        self.invoker.renew(namespace);
    }
}

impl Keyring {
    /// Why a secret cannot be decrypted.
    fn why_closed(&self, secret: &SealedSecret) -> Lacks {
        let SealedSecret { namespace, name, key, .. } = secret;
        let what = format!("The secret '{name}' of namespace '{namespace}' cannot be decrypted");
        match self.keys().iter().any(|known| known.id() == key) {
            true => Lacks::Secret(format!("{what}: it was moved or damaged. Set it anew.")),
            false => Lacks::Key(format!(
                "{what}: it is encrypted with key {key}, which this server does not have. Set it anew, or the operator gives that key back."
            )),
        }
    }
}

fn missing(binding: &SecretBinding, namespace: &NamespaceName) -> String {
    format!(
        "There is no secret '{}' in namespace '{namespace}': set it with `flint secret set {}`.",
        binding.secret, binding.secret
    )
}
