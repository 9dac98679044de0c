//! The quota of each namespace's unpacked code on disk, so that no namespace fills the disk for all.
//!
//! An artefact exists once for all who deployed the same code, but is charged in full to each of them:
//! whether one may deploy must neither depend on nor reveal anybody else's code.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use flint_executor::PrepareError;
use flint_model::{ByteSize, NamespaceName};

/// How many artefacts that exceeded the quota are remembered for a namespace.
const MOST_REFUSED: usize = 256;

/// The accounts of all namespaces.
#[derive(Debug)]
pub(crate) struct Quota {
    most: u64,
    ledger: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    accounts: HashMap<NamespaceName, Account>,
    /// Whether the functions deployed before the server started have been counted.
    counted: bool,
}

#[derive(Debug, Default)]
struct Account {
    /// Bytes of each artefact, by address.
    artefacts: HashMap<String, u64>,
    /// Bytes of all artefacts.
    charged: u64,
    /// Bytes of artefacts under construction.
    claimed: u64,
    /// A lower bound on the size of each artefact that exceeded the quota since the last count, by address.
    refused: HashMap<String, u64>,
}

impl Account {
    fn taken(&self) -> u64 {
        self.charged.saturating_add(self.claimed)
    }

    /// The bytes taken, without those of the artefact at that address.
    fn taken_by_others(&self, address: &str) -> u64 {
        self.taken().saturating_sub(self.artefacts.get(address).copied().unwrap_or_default())
    }

    fn charge(&mut self, address: &str, bytes: u64) {
        let before = self.artefacts.insert(address.to_owned(), bytes).unwrap_or_default();
        self.charged = self.charged.saturating_sub(before).saturating_add(bytes);
    }

    fn refuse(&mut self, address: &str, at_least: u64) {
        if self.refused.len() >= MOST_REFUSED {
            self.refused.clear();
        }
        self.refused.insert(address.to_owned(), at_least);
    }
}

impl Quota {
    /// Empty accounts, with quota `most` for each namespace; zero means no quota.
    pub(crate) fn new(most: ByteSize) -> Arc<Self> {
        let most = if most.as_u64() == 0 { u64::MAX } else { most.as_u64() };
        Arc::new(Self { most, ledger: Mutex::default() })
    }

    /// Whether a function may be deployed whose artefact will be at `address` and takes at least the size of
    /// its code.
    pub(crate) fn admits(
        &self,
        namespace: &NamespaceName,
        address: Option<&str>,
        code: ByteSize,
    ) -> Result<(), PrepareError> {
        let ledger = self.ledger();
        let account = ledger.accounts.get(namespace);
        let taken = account.map_or(0, Account::taken);
        let is_charged = account.zip(address).is_some_and(|(account, at)| account.artefacts.contains_key(at));
        match is_charged || taken.saturating_add(code.as_u64()) <= self.most {
            true => Ok(()),
            false => Err(self.over(namespace, taken)),
        }
    }

    /// Charges an existing artefact to a namespace.
    pub(crate) fn charge(
        &self,
        namespace: &NamespaceName,
        address: &str,
        size: ByteSize,
    ) -> Result<(), PrepareError> {
        let mut ledger = self.ledger();
        // Before the first count it is unknown which functions were deployed earlier, and those run whatever
        // the quota is today.
        let counted = ledger.counted;
        let account = ledger.accounts.entry(namespace.clone()).or_default();
        let is_charged = account.artefacts.contains_key(address);
        if counted && !is_charged && account.taken().saturating_add(size.as_u64()) > self.most {
            return Err(self.over(namespace, account.taken()));
        }
        account.charge(address, size.as_u64());
        Ok(())
    }

    /// Charges an artefact that was admitted a moment ago and is in use by now, whatever the quota: a count
    /// may have dropped it in between.
    pub(crate) fn charge_held(&self, namespace: &NamespaceName, address: &str, size: ByteSize) {
        self.ledger().accounts.entry(namespace.clone()).or_default().charge(address, size.as_u64());
    }

    /// Refuses an artefact that exceeded the quota since the last count and still would, without making it
    /// again.
    pub(crate) fn recall(&self, namespace: &NamespaceName, address: &str) -> Result<(), PrepareError> {
        let ledger = self.ledger();
        let Some(account) = ledger.accounts.get(namespace) else { return Ok(()) };
        match account.refused.get(address) {
            Some(least) if account.taken_by_others(address).saturating_add(*least) > self.most => {
                Err(self.over(namespace, account.taken()))
            }
            _ => Ok(()),
        }
    }

    /// An empty claim on the namespace's quota, for an artefact to be written at `address`.
    pub(crate) fn claim(self: &Arc<Self>, namespace: &NamespaceName, address: &str) -> Claim {
        Claim {
            quota: Arc::clone(self),
            namespace: namespace.clone(),
            address: address.to_owned(),
            bytes: AtomicU64::new(0),
        }
    }

    /// Replaces all charges by these artefacts, of which some have no known size, and those that are `held`
    /// at that moment.
    pub(crate) fn count(
        &self,
        used: Vec<(NamespaceName, String, Option<ByteSize>)>,
        held: impl FnOnce() -> Vec<(NamespaceName, String)>,
    ) {
        let mut ledger = self.ledger();
        let mut accounts: HashMap<NamespaceName, Account> = HashMap::new();
        let held = held().into_iter().map(|(namespace, address)| (namespace, address, None));
        for (namespace, address, size) in used.into_iter().chain(held) {
            // An artefact that is in use, or being published right now, was charged before.
            let charged = || ledger.accounts.get(&namespace)?.artefacts.get(&address).copied();
            if let Some(bytes) = size.map(ByteSize::as_u64).or_else(charged) {
                accounts.entry(namespace).or_default().charge(&address, bytes);
            }
        }
        for (namespace, account) in &ledger.accounts {
            if account.claimed > 0 {
                accounts.entry(namespace.clone()).or_default().claimed = account.claimed;
            }
        }
        *ledger = Ledger { accounts, counted: true };
    }

    fn over(&self, namespace: &NamespaceName, taken: u64) -> PrepareError {
        let [taken, most] = [taken, self.most].map(shown);
        PrepareError::OverQuota(format!(
            "the unpacked code of the namespace {namespace} takes {taken} of the server's disk, and with this function it would be more than the {most} that it may take (prepare.per_namespace). Delete functions that are not needed, or have the server's operator raise it. What was deleted or replaced counts until it is cleared away, for a minute or so"
        ))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The claim of an artefact under construction on its namespace's quota, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    quota: Arc<Quota>,
    namespace: NamespaceName,
    address: String,
    /// Only changed while the ledger is locked.
    bytes: AtomicU64,
}

impl Claim {
    /// Claims `bytes` more.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), PrepareError> {
        let mut ledger = self.quota.ledger();
        let account = ledger.accounts.entry(self.namespace.clone()).or_default();
        let own = self.bytes.load(Ordering::Relaxed);
        if account.taken().saturating_add(bytes) > self.quota.most {
            account.refuse(&self.address, own.saturating_add(bytes));
            return Err(self.quota.over(&self.namespace, account.taken().saturating_sub(own)));
        }
        account.claimed = account.claimed.saturating_add(bytes);
        self.bytes.store(own.saturating_add(bytes), Ordering::Relaxed);
        Ok(())
    }

    /// Claims `bytes` more, whatever the quota, for files that existed before accounting began.
    pub(crate) fn add(&self, bytes: u64) {
        let mut ledger = self.quota.ledger();
        let account = ledger.accounts.entry(self.namespace.clone()).or_default();
        account.claimed = account.claimed.saturating_add(bytes);
        let own = self.bytes.load(Ordering::Relaxed);
        self.bytes.store(own.saturating_add(bytes), Ordering::Relaxed);
    }

    /// Sets the claim to the size of the finished artefact.
    pub(crate) fn resize(&self, size: ByteSize) -> Result<(), PrepareError> {
        let mut ledger = self.quota.ledger();
        let account = ledger.accounts.entry(self.namespace.clone()).or_default();
        let (own, size) = (self.bytes.load(Ordering::Relaxed), size.as_u64());
        // It may replace an artefact at the same address.
        let others = account.taken_by_others(&self.address).saturating_sub(own);
        if others.saturating_add(size) > self.quota.most {
            account.refuse(&self.address, size);
            return Err(self.quota.over(&self.namespace, account.taken().saturating_sub(own)));
        }
        account.claimed = account.claimed.saturating_sub(own).saturating_add(size);
        self.bytes.store(size, Ordering::Relaxed);
        Ok(())
    }

    /// Turns the claim into a charge, once the artefact has been published.
    pub(crate) fn settle(&self) {
        let mut ledger = self.quota.ledger();
        let account = ledger.accounts.entry(self.namespace.clone()).or_default();
        let size = self.bytes.swap(0, Ordering::Relaxed);
        account.claimed = account.claimed.saturating_sub(size);
        account.charge(&self.address, size);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        let mut ledger = self.quota.ledger();
        if let Some(account) = ledger.accounts.get_mut(&self.namespace) {
            account.claimed = account.claimed.saturating_sub(bytes);
        }
    }
}

/// Rounded to whole MB from 1 MB on.
fn shown(bytes: u64) -> ByteSize {
    let size = ByteSize::bytes(bytes);
    if size.as_mib() == 0 { size } else { ByteSize::mib(size.as_mib()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NamespaceName {
        text.parse().unwrap()
    }

    fn mib(mib: u64) -> ByteSize {
        ByteSize::mib(mib)
    }

    fn take(claim: &Claim, size: ByteSize) -> Result<(), PrepareError> {
        claim.take(size.as_u64())
    }

    fn settle(claim: &Claim, size: ByteSize) -> Result<(), PrepareError> {
        claim.resize(size).map(|()| claim.settle())
    }

    fn make(quota: &Arc<Quota>, namespace: &NamespaceName, address: &str, size: ByteSize) {
        settle(&quota.claim(namespace, address), size).unwrap();
    }

    fn taken(quota: &Quota, namespace: &NamespaceName) -> u64 {
        quota.ledger().accounts.get(namespace).map_or(0, |account| account.taken() >> 20)
    }

    fn refused(result: Result<(), PrepareError>) -> String {
        match result {
            Err(PrepareError::OverQuota(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_namespace_takes_so_much_and_another_one_as_much() {
        let (quota, guest, other) = (Quota::new(mib(10)), name("guest"), name("other"));
        let claim = quota.claim(&guest, "a");
        take(&claim, mib(6)).unwrap();
        settle(&claim, mib(7)).unwrap();
        drop(claim);
        assert_eq!(taken(&quota, &guest), 7);
        let claim = quota.claim(&guest, "b");
        take(&claim, mib(3)).unwrap();
        let said = refused(take(&claim, ByteSize::bytes(1)));
        for part in ["namespace guest takes 7 MB", "more than the 10 MB", "prepare.per_namespace", "Delete"] {
            assert!(said.contains(part), "{said}");
        }
        refused(settle(&claim, mib(4)));
        take(&quota.claim(&other, "under way 1"), mib(10)).unwrap();
        assert_eq!(taken(&quota, &other), 0, "it was given back");
    }

    #[test]
    fn deploys_at_once_have_the_room_of_one_namespace_together() {
        let (quota, guest) = (Quota::new(mib(10)), name("guest"));
        let won: usize = std::thread::scope(|scope| {
            let deploys: Vec<_> = (0..8)
                .map(|n| {
                    let claim = quota.claim(&guest, &n.to_string());
                    scope.spawn(move || {
                        let unpacked = (0..4).try_for_each(|_| take(&claim, mib(1)));
                        unpacked.and_then(|()| settle(&claim, mib(4))).is_ok()
                    })
                })
                .collect();
            deploys.into_iter().map(|deploy| usize::from(deploy.join().unwrap())).sum()
        });
        assert!(won <= 2, "{won} of 4 MB each");
        assert_eq!(taken(&quota, &guest), 4 * won as u64, "of those that were refused nothing is left");
    }

    #[test]
    fn what_others_have_already_counts_too_and_the_same_twice_does_not() {
        let (quota, guest, other) = (Quota::new(mib(10)), name("guest"), name("other"));
        quota.count(Vec::new(), Vec::new);
        make(&quota, &guest, "a", mib(8));
        quota.charge(&other, "b", mib(8)).unwrap();
        // The same message as when no namespace has it.
        let there = refused(quota.charge(&other, "a", mib(8)));
        assert_eq!(there, refused(take(&quota.claim(&other, "under way 2"), mib(8))));
        quota.charge(&guest, "a", mib(8)).unwrap();
        make(&quota, &guest, "a", mib(9));
        assert_eq!((taken(&quota, &guest), taken(&quota, &other)), (9, 8));
    }

    #[test]
    fn a_deploy_is_refused_before_it_is_unpacked_when_its_code_alone_is_too_much() {
        let (quota, guest) = (Quota::new(mib(10)), name("guest"));
        make(&quota, &guest, "a", mib(9));
        quota.admits(&guest, Some("b"), mib(1)).unwrap();
        refused(quota.admits(&guest, Some("b"), mib(2)));
        refused(quota.admits(&guest, None, mib(2)));
        quota.admits(&guest, Some("a"), mib(2)).unwrap();
        Quota::new(ByteSize::default()).admits(&guest, None, mib(1 << 30)).unwrap();
    }

    #[test]
    fn after_a_restart_what_is_deployed_is_charged_again_and_never_refused() {
        let (quota, guest) = (Quota::new(mib(10)), name("guest"));
        // Calls come before the count, and the quota has been lowered.
        for address in ["a", "b"] {
            quota.charge(&guest, address, mib(8)).unwrap();
        }
        refused(take(&quota.claim(&guest, "under way 3"), mib(1)));
        let there = ["a", "b", "c"].map(|address| (guest.clone(), address.to_owned(), Some(mib(8))));
        quota.count(there.into(), Vec::new);
        assert_eq!(taken(&quota, &guest), 24);
        quota.charge(&guest, "c", mib(8)).unwrap();
        refused(quota.charge(&guest, "d", mib(8)));
    }

    #[test]
    fn what_is_deleted_is_given_back_and_what_is_under_way_stays() {
        let (quota, guest) = (Quota::new(mib(10)), name("guest"));
        make(&quota, &guest, "a", mib(4));
        make(&quota, &guest, "published just now", mib(3));
        let claim = quota.claim(&guest, "b");
        take(&claim, mib(3)).unwrap();
        let used = vec![
            (guest.clone(), "published just now".to_owned(), None),
            (guest.clone(), "not unpacked yet".to_owned(), None),
        ];
        quota.count(used, Vec::new);
        assert_eq!(taken(&quota, &guest), 6);
        settle(&claim, mib(3)).unwrap();
        assert_eq!(taken(&quota, &guest), 6);
        drop(claim);
        quota.count(Vec::new(), Vec::new);
        assert!(quota.ledger().accounts.is_empty());
    }

    #[test]
    fn what_is_held_stays_charged_whenever_it_is_counted() {
        let (quota, guest) = (Quota::new(mib(10)), name("guest"));
        make(&quota, &guest, "a", mib(4));
        quota.count(Vec::new(), || vec![(guest.clone(), "a".to_owned())]);
        assert_eq!(taken(&quota, &guest), 4);
        // Made, counted, and in use only then.
        quota.count(Vec::new(), Vec::new);
        quota.charge_held(&guest, "a", mib(4));
        assert_eq!(taken(&quota, &guest), 4);
    }

    #[test]
    fn what_was_made_and_could_not_be_stored_is_given_back() {
        let (quota, guest) = (Quota::new(mib(10)), name("guest"));
        let claim = quota.claim(&guest, "a");
        take(&claim, mib(3)).unwrap();
        claim.resize(mib(4)).unwrap();
        assert_eq!(taken(&quota, &guest), 4);
        drop(claim);
        assert_eq!(taken(&quota, &guest), 0);
    }

    #[test]
    fn what_did_not_fit_is_not_made_again_until_there_may_be_room() {
        let (quota, guest) = (Quota::new(mib(10)), name("guest"));
        make(&quota, &guest, "a", mib(5));
        let recall = |address| quota.recall(&guest, address);
        let claim = quota.claim(&guest, "b");
        recall("b").unwrap();
        take(&claim, mib(4)).unwrap();
        let said = refused(take(&claim, mib(2)));
        // Neither while that one is under construction nor afterwards.
        refused(recall("b"));
        drop(claim);
        assert_eq!(refused(recall("b")), said);
        refused(settle(&quota.claim(&guest, "c"), mib(7)));
        refused(recall("c"));
        recall("d").unwrap();
        quota.recall(&name("other"), "b").unwrap();
        // It exceeded the quota only because of others under construction.
        let claim = quota.claim(&guest, "under way 4");
        take(&claim, mib(3)).unwrap();
        refused(settle(&quota.claim(&guest, "d"), mib(4)));
        drop(claim);
        recall("d").unwrap();
        quota.count(vec![(guest.clone(), "a".to_owned(), Some(mib(5)))], Vec::new);
        recall("b").unwrap();
        for n in 0..2 * MOST_REFUSED {
            refused(settle(&quota.claim(&guest, &n.to_string()), mib(7)));
        }
        assert_eq!(quota.ledger().accounts[&guest].refused.len(), MOST_REFUSED);
    }
}
