//! Authentication: keys are checked against the catalog and cached for a short time.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use flint_model::{ApiKey, Identity, KeyId, KeyRecord, Namespace, NamespaceName, SecretHash};
use flint_store::Catalog;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    ControllerError, EffectiveLimits, LimitsConfig,
    account::{Account, Accounts},
    remembered::Remembered,
};

/// An authenticated caller. Cheap to clone; derefs to the [`Identity`].
#[derive(Clone, Debug)]
pub struct Caller(Arc<Session>);

#[derive(Debug)]
struct Session {
    identity: Identity,
    limits: EffectiveLimits,
    account: Arc<Account>,
}

impl Caller {
    pub(crate) fn new(identity: Identity, config: &LimitsConfig, accounts: &Accounts) -> Self {
        let limits = EffectiveLimits::of(&identity.namespace, config);
        let account = accounts.of(&identity.namespace.name);
        account.learn_created(identity.namespace.created);
        Self(Arc::new(Session { identity, limits, account }))
    }

    /// The limits of the caller's namespace.
    pub fn limits(&self) -> &EffectiveLimits {
        &self.0.limits
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.0.account
    }
}

impl Deref for Caller {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.0.identity
    }
}

/// Callers by a keyed hash of their key; the key itself is never kept.
pub(crate) struct Credentials {
    salt: [u8; 32],
    callers: Remembered<[u8; 32]>,
    owners: Remembered<NamespaceName>,
    /// Counts invalidations.
    epoch: AtomicU64,
}

impl Credentials {
    /// Caches callers for this time.
    pub(crate) fn new(ttl: Duration) -> Self {
        let mut salt = [0; 32];
        salt[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        salt[16..].copy_from_slice(Uuid::new_v4().as_bytes());
        Self { salt, callers: Remembered::new(ttl), owners: Remembered::new(ttl), epoch: AtomicU64::new(0) }
    }

    /// Authenticates a key, `uuid:secret`.
    pub(crate) async fn check(
        &self,
        key: &str,
        catalog: &dyn Catalog,
        config: &LimitsConfig,
        accounts: &Accounts,
    ) -> Result<Caller, ControllerError> {
        let name: [u8; 32] = blake3::keyed_hash(&self.salt, key.as_bytes()).into();
        if let Some(caller) = self.callers.get(&name) {
            return Ok(caller);
        }
        loop {
            let began = self.epoch.load(Ordering::Acquire);
            let caller = Caller::new(identify(key, catalog).await?, config, accounts);
            self.callers.insert(name, caller.clone());
            if self.is_still(began) {
                return Ok(caller);
            }
            // A key or namespace was written meanwhile: this caller may be outdated.
            self.callers.forget(&name);
        }
    }

    /// A namespace as its own caller, without a key; `None` when it is gone or blocked.
    pub(crate) async fn owner(
        &self,
        namespace: &NamespaceName,
        catalog: &dyn Catalog,
        config: &LimitsConfig,
        accounts: &Accounts,
    ) -> Result<Option<Caller>, ControllerError> {
        if let Some(owner) = self.owners.get(namespace) {
            return Ok(Some(owner));
        }
        loop {
            let began = self.epoch.load(Ordering::Acquire);
            let subject = namespace.as_str();
            let Some(owner) = keyless(namespace, subject, catalog, config, accounts).await? else {
                return Ok(None);
            };
            self.owners.insert(namespace.clone(), owner.clone());
            if self.is_still(began) {
                return Ok(Some(owner));
            }
            self.owners.forget(namespace);
        }
    }

    /// A subject of a namespace without a key; `None` when the namespace is gone or blocked.
    pub(crate) async fn subject(
        &self,
        namespace: &NamespaceName,
        subject: &str,
        catalog: &dyn Catalog,
        config: &LimitsConfig,
        accounts: &Accounts,
    ) -> Result<Option<Caller>, ControllerError> {
        loop {
            let began = self.epoch.load(Ordering::Acquire);
            let found = keyless(namespace, subject, catalog, config, accounts).await?;
            if self.is_still(began) {
                return Ok(found);
            }
        }
    }

    /// Whether nothing was invalidated since; otherwise the account may be that of a deleted namespace.
    fn is_still(&self, began: u64) -> bool {
        self.epoch.load(Ordering::Acquire) == began
    }

    /// To be called after a key or a namespace was written, before the write is acknowledged.
    pub(crate) fn forget_all(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.callers.forget_all();
        self.owners.forget_all();
    }
}

async fn keyless(
    namespace: &NamespaceName,
    subject: &str,
    catalog: &dyn Catalog,
    config: &LimitsConfig,
    accounts: &Accounts,
) -> Result<Option<Caller>, ControllerError> {
    let found = catalog.namespace(namespace).await?.filter(|found| !found.blocked);
    Ok(found.map(|found| {
        let identity =
            Identity { namespace: Arc::new(found), subject: subject.into(), key: KeyId(Uuid::nil()) };
        Caller::new(identity, config, accounts)
    }))
}

/// Whether a key exists, even one of a blocked namespace.
pub(crate) async fn is_there(key: &str, catalog: &dyn Catalog) -> Result<bool, ControllerError> {
    match record_of(key, catalog).await {
        Ok(_) => Ok(true),
        Err(ControllerError::BadKey) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn record_of(key: &str, catalog: &dyn Catalog) -> Result<KeyRecord, ControllerError> {
    let key = ApiKey::parse(key).ok_or(ControllerError::BadKey)?;
    let record = catalog.key(key.id).await?.ok_or(ControllerError::BadKey)?;
    match same(&hash_secret(&key.secret), &record.secret) {
        true => Ok(record),
        false => Err(ControllerError::BadKey),
    }
}

/// The owner of a key.
async fn identify(key: &str, catalog: &dyn Catalog) -> Result<Identity, ControllerError> {
    let record = record_of(key, catalog).await?;
    let namespace = catalog.namespace(&record.namespace).await?.ok_or(ControllerError::BadKey)?;
    if namespace.blocked {
        return Err(ControllerError::BadKey);
    }
    Ok(Identity {
        namespace: Arc::<Namespace>::new(namespace),
        subject: record.subject.into(),
        key: record.id,
    })
}

/// The hash of a secret, as stored.
pub(crate) fn hash_secret(secret: &str) -> SecretHash {
    SecretHash(Sha256::digest(secret).into())
}

/// Compares in constant time.
fn same(left: &SecretHash, right: &SecretHash) -> bool {
    left.0.iter().zip(&right.0).fold(0, |different, (l, r)| different | (l ^ r)) == 0
}

/// A new secret: 64 letters and digits from the system's random number generator.
pub(crate) fn new_secret() -> Result<String, ControllerError> {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut secret = String::with_capacity(ApiKey::SECRET_LENGTH);
    let mut bytes = [0; 128];
    loop {
        random(&mut bytes)?;
        // Bytes from 248 are rejected: they would make some characters likelier than others.
        for byte in bytes.iter().filter(|byte| **byte < 248) {
            secret.push(char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]));
            if secret.len() == ApiKey::SECRET_LENGTH {
                return Ok(secret);
            }
        }
    }
}

fn random(bytes: &mut [u8]) -> Result<(), ControllerError> {
    getrandom::fill(bytes)
        .map_err(|error| ControllerError::Internal(format!("the system gives no random bytes: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_well_formed_and_differ() {
        let (one, two) = (new_secret().unwrap(), new_secret().unwrap());
        assert_ne!(one, two);
        assert!(ApiKey::parse(&format!("23bc46b1-71f6-4ed5-8c54-816aa4f8c502:{one}")).is_some());
        assert!(
            same(&hash_secret(&one), &hash_secret(&one)) && !same(&hash_secret(&one), &hash_secret(&two))
        );
    }
}
