//! The secrets given to a function's calls.

use std::hash::{Hash, Hasher};

use flint_model::{Function, NamespaceName, SecretBinding};

use crate::{Controller, ControllerError};

/// A function's secrets, decrypted. They are set in the environment of instances that serve its calls, never
/// in what is prepared or in snapshots.
#[derive(Default)]
pub(crate) struct Given {
    /// Variables.
    pub(crate) environment: Vec<(String, String)>,
    /// Their revisions, which tell instances with other values apart.
    revisions: Vec<u64>,
    /// Why it cannot be called: a secret is missing or cannot be decrypted.
    pub(crate) lacks: Option<String>,
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
                given.lacks = Some(missing(&binding, namespace));
                break;
            };
            let value = self.keyring.open(&secret).and_then(|value| String::from_utf8(value).ok());
            let Some(value) = value else {
                given.lacks = Some(format!(
                    "The secret '{}' of namespace '{namespace}' cannot be decrypted: it is encrypted with key {}, which this server does not have. Set it anew, or the operator gives that key back.",
                    binding.secret, secret.key
                ));
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

fn missing(binding: &SecretBinding, namespace: &NamespaceName) -> String {
    format!(
        "There is no secret '{}' in namespace '{namespace}': set it with `flint secret set {}`.",
        binding.secret, binding.secret
    )
}
