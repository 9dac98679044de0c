//! What a function is given at a call.

use std::hash::{Hash, Hasher};

use flint_model::{Function, NamespaceName, SecretBinding};

use crate::{Controller, ControllerError};

/// The secrets of a function, decrypted. They are set in the environment of instances that serve its calls, never in what is prepared or frozen.
#[derive(Default)]
pub(crate) struct Given {
    /// Variables.
    pub(crate) environment: Vec<(String, String)>,
    /// Their revisions: instances that were given other ones serve no calls with these.
    revisions: Vec<u64>,
    /// Why it cannot be called, where one of them is missing or cannot be opened.
    pub(crate) lacks: Option<String>,
}

/// Tells apart what calls are given, by which value it is and not by the value.
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
    /// What a function is given: secrets of the namespace that it belongs to, whoever calls it.
    pub(crate) async fn given(&self, function: &Function) -> Result<Given, ControllerError> {
        let mut given = Given::default();
        // What cannot be read was refused when it was written.
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

    /// Refuses a deploy of a function that needs a secret which is not there.
    pub(crate) async fn check_secrets(&self, function: &Function) -> Result<(), ControllerError> {
        for binding in SecretBinding::of(&function.annotations).unwrap_or_default() {
            let namespace = &function.path.namespace;
            if self.stores.secrets.secret(namespace, &binding.secret).await?.is_none() {
                return Err(ControllerError::Invalid(missing(&binding, namespace)));
            }
        }
        Ok(())
    }

    /// Calls meet the secrets of a namespace anew; instances that have old values serve none.
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
