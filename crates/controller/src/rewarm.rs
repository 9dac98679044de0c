//! Functions that were called shortly before the server was restarted are made ready again before their next
//! calls come: prepared and, if they are forked, with a snapshot.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use flint_model::{FunctionPath, Kind, NamespaceName, Timestamp, Version};
use flint_store::{ActivationQuery, Page};

use crate::{Controller, ControllerError, background::Wanted, built_in, turns::Turns};

/// How many of each namespace's newest records say which functions are called.
const SAMPLE: usize = 1000;
/// How many are read at once.
const PAGE: usize = 200;
/// How long the next one waits for a snapshot: code may take as long as it likes.
const PATIENCE: Duration = Duration::from_secs(10);

impl Controller {
    /// Makes functions ready again, one after the other, as calls need the processors: in each namespace the
    /// most called first, the namespaces in turn. At most until half of the memory for instances is used, so
    /// that no call has to wait for memory that was spent on a guess.
    pub(crate) async fn rewarm(self: Arc<Self>) {
        let rewarming = async {
            if let Err(error) = self.rewarm_called().await {
                let detail = error.detail().unwrap_or_else(|| error.to_string());
                tracing::warn!(
                    detail,
                    "which functions were called before the start cannot be read; their next calls make them ready"
                );
            }
        };
        tokio::select! {
            () = self.stopping.cancelled() => {}
            () = rewarming => {}
        }
    }

    async fn rewarm_called(&self) -> Result<(), ControllerError> {
        let (began, mut called, mut ready) = (Instant::now(), self.lately_called().await?, 0);
        while let Some(wanted) = called.pop()
            && self.invoker.has_half_its_memory()
        {
            if let Some(anticipation) = self.prepare_wanted(&wanted).await {
                // What is not finished by then goes on by itself.
                let _ = tokio::time::timeout(PATIENCE, anticipation).await;
                ready += 1;
            }
        }
        if ready > 0 {
            let seconds = began.elapsed().as_secs_f64();
            tracing::info!(ready, seconds, "functions that were called before the start are ready again");
        }
        Ok(())
    }

    /// What was called within [`ControllerConfig::rewarm`](crate::ControllerConfig::rewarm), by the records.
    async fn lately_called(&self) -> Result<Turns<Wanted>, ControllerError> {
        let mut turns = Turns::default();
        let lately = self.config.rewarm.as_millis().try_into().unwrap_or(u64::MAX);
        if lately == 0 {
            return Ok(turns);
        }
        let since = Timestamp::from_millis(Timestamp::now().as_millis().saturating_sub(lately));
        let named = self.stores.versions.named().await?;
        let named = named.into_iter().map(|function| (function.path, function.version)).collect();
        let namespaces = self.stores.catalog.namespaces().await?;
        for namespace in namespaces.into_iter().filter(|namespace| !namespace.blocked) {
            for wanted in self.lately_called_in(&namespace.name, since, &named).await? {
                turns.push(namespace.name.clone(), wanted);
            }
        }
        Ok(turns)
    }

    /// What a namespace has called, the most called first, of equals what was called last. `named` are the kept versions that an alias names;
    /// calls of others count for the newest.
    async fn lately_called_in(
        &self,
        namespace: &NamespaceName,
        since: Timestamp,
        named: &HashSet<(FunctionPath, Version)>,
    ) -> Result<Vec<Wanted>, ControllerError> {
        let query = ActivationQuery { since: Some(since), ..ActivationQuery::default() };
        // How often each was called, and how many others were called after it.
        let mut calls = HashMap::<Wanted, (usize, usize)>::new();
        for skip in (0..SAMPLE).step_by(PAGE) {
            let page = Page { skip, limit: PAGE };
            let records = self.stores.activations.list(namespace, &query, page, false).await?;
            let is_last = records.len() < PAGE;
            let has_code = |kind: &Kind| kind.as_str() != built_in::KIND;
            for record in records.into_iter().filter(|record| record.kind.as_ref().is_some_and(has_code)) {
                let called = (record.path, record.version);
                let version = named.contains(&called).then_some(called.1);
                let later = calls.len();
                calls.entry(Wanted { path: called.0, version }).or_insert((0, later)).0 += 1;
            }
            if is_last {
                break;
            }
        }
        let mut called: Vec<_> = calls.into_iter().collect();
        called.sort_unstable_by_key(|(_, (times, later))| (Reverse(*times), *later));
        Ok(called.into_iter().map(|(wanted, _)| wanted).collect())
    }
}
