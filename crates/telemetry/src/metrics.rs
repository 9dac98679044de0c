//! What is counted as it happens, and the text of all metrics.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::{
    FunctionMetrics, Samples, StartKind,
    function_metrics::STATUSES,
    labels::{
        ActivationLabels, DroppedLabels, HttpLabels, KindLabels, ReasonLabels, StartLabels, ThrottleLabels,
    },
    sampled::sampled,
};

/// Bounds of the duration histograms, in seconds: half decades from 100 µs to 300 s.
const SECONDS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 60.0, 300.0];

/// What is labelled how finely.
#[derive(Clone, Copy, Debug)]
pub struct MetricsConfig {
    /// How many functions get a label of their own; the others are counted together as `other`. 0 = none.
    pub max_functions: usize,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { max_functions: 500 }
    }
}

/// Which limit refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThrottledBy {
    /// Calls per minute.
    Rate,
    /// Calls at once.
    Concurrency,
    /// Trigger firings per minute.
    Fires,
}

impl ThrottledBy {
    const ALL: [Self; 3] = [Self::Rate, Self::Concurrency, Self::Fires];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Fires => "fires",
        }
    }
}

/// What those are counted as that have no label of their own.
const OTHER: &str = "other";

/// Everything that Flint counts.
#[derive(Debug)]
pub struct Metrics {
    config: MetricsConfig,
    registry: Registry,
    labelled: Mutex<HashSet<(String, String)>>,
    activations: Family<ActivationLabels, Counter>,
    starts: Family<StartLabels, Counter>,
    wait: Family<KindLabels, Histogram, fn() -> Histogram>,
    init: Family<KindLabels, Histogram, fn() -> Histogram>,
    run: Family<KindLabels, Histogram, fn() -> Histogram>,
    throttled: Family<ThrottleLabels, Counter>,
    http: Family<HttpLabels, Counter>,
    async_accepted: Counter,
    async_retried: Counter,
    async_put_off: Counter,
    async_exhausted: Counter,
    dead_letters_buried: Family<ReasonLabels, Counter>,
    dead_letters_dropped: Family<DroppedLabels, Counter>,
    dead_letters_redriven: Counter,
}

fn durations() -> Family<KindLabels, Histogram, fn() -> Histogram> {
    Family::new_with_constructor(|| Histogram::new(SECONDS))
}

impl Metrics {
    /// An empty registry.
    pub fn new(config: MetricsConfig) -> Self {
        let mut metrics = Self {
            config,
            registry: Registry::with_prefix("flint"),
            labelled: Mutex::default(),
            activations: Family::default(),
            starts: Family::default(),
            wait: durations(),
            init: durations(),
            run: durations(),
            throttled: Family::default(),
            http: Family::default(),
            async_accepted: Counter::default(),
            async_retried: Counter::default(),
            async_put_off: Counter::default(),
            async_exhausted: Counter::default(),
            dead_letters_buried: Family::default(),
            dead_letters_dropped: Family::default(),
            dead_letters_redriven: Counter::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("activations", "Calls that are over", metrics.activations.clone());
        registry.register("activation_starts", "How calls met their instance", metrics.starts.clone());
        let mut seconds = |name, help, family: &Family<_, _, _>| {
            registry.register_with_unit(name, help, Unit::Seconds, Family::clone(family));
        };
        seconds("activation_wait", "From arrival to initialisation or run", &metrics.wait);
        seconds("activation_init", "Initialisation of cold instances", &metrics.init);
        seconds("activation_run", "Run, initialisation left out", &metrics.run);
        registry.register("throttled", "Calls refused by a namespace's limit", metrics.throttled.clone());
        registry.register("http_requests", "HTTP requests answered", metrics.http.clone());
        registry.register("async_accepted", "Asynchronous calls accepted", metrics.async_accepted.clone());
        registry.register(
            "async_retried",
            "Attempts of asynchronous calls repeated",
            metrics.async_retried.clone(),
        );
        registry.register(
            "async_put_off",
            "Asynchronous calls put off because this host could not run them",
            metrics.async_put_off.clone(),
        );
        registry.register("async_exhausted", "Asynchronous calls given up", metrics.async_exhausted.clone());
        registry.register(
            "dead_letters_buried",
            "Calls given up that became dead letters",
            metrics.dead_letters_buried.clone(),
        );
        registry.register(
            "dead_letters_dropped",
            "Dead letters that there was no room for, or that grew too old",
            metrics.dead_letters_dropped.clone(),
        );
        registry.register(
            "dead_letters_redriven",
            "Dead letters that became calls again",
            metrics.dead_letters_redriven.clone(),
        );
        metrics
    }

    /// The counters of one function, which gets a label if there is one left. Keep them: looking them up costs more than counting.
    pub fn function(&self, namespace: &str, function: &str, kind: &str) -> FunctionMetrics {
        self.counters((namespace, function), kind, true)
    }

    /// The same of a function that may have been deleted: a label that it does not have any more would never be free again.
    pub fn function_if_labelled(&self, namespace: &str, function: &str, kind: &str) -> FunctionMetrics {
        self.counters((namespace, function), kind, false)
    }

    fn counters(&self, function: (&str, &str), kind: &str, may_claim: bool) -> FunctionMetrics {
        // Until they are there: what is forgotten meanwhile would stay.
        let mut labelled = self.labelled();
        let function = self.label(&mut labelled, function, may_claim);
        let kind = || kind.to_owned();
        let status =
            |status| ActivationLabels { namespace: function.0.clone(), function: function.1.clone(), status };
        let start = |start: StartKind| StartLabels { kind: kind(), start: start.as_str() };
        FunctionMetrics {
            by_status: STATUSES.map(|word| self.activations.get_or_create(&status(word)).clone()),
            by_start: StartKind::ALL.map(|how| self.starts.get_or_create(&start(how)).clone()),
            wait: self.wait.get_or_create(&KindLabels { kind: kind() }).clone(),
            init: self.init.get_or_create(&KindLabels { kind: kind() }).clone(),
            run: self.run.get_or_create(&KindLabels { kind: kind() }).clone(),
        }
    }

    /// Beyond the configured number of functions, all others share one label, so that the registry stays bounded.
    fn label(
        &self,
        labelled: &mut HashSet<(String, String)>,
        (namespace, function): (&str, &str),
        may_claim: bool,
    ) -> (String, String) {
        let name = (namespace.to_owned(), function.to_owned());
        if labelled.contains(&name) {
            name
        } else if may_claim && labelled.len() < self.config.max_functions {
            labelled.insert(name.clone());
            name
        } else {
            (OTHER.to_owned(), OTHER.to_owned())
        }
    }

    fn labelled(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.labelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A function was deleted: what was counted of it goes, and its label is free for another one.
    pub fn forget(&self, namespace: &str, function: &str) {
        self.forget_where(|(of, name)| of == namespace && name == function);
    }

    /// The same of a whole namespace.
    pub fn forget_namespace(&self, namespace: &str) {
        self.forget_where(|(of, _)| of == namespace);
    }

    fn forget_where(&self, gone: impl Fn(&(String, String)) -> bool) {
        let mut labelled = self.labelled();
        for (namespace, function) in labelled.extract_if(gone) {
            // What is counted of all others stays, also where one has their name.
            if namespace == OTHER && (function == OTHER || function.is_empty()) {
                continue;
            }
            if function.is_empty() {
                for by in ThrottledBy::ALL {
                    self.throttled
                        .remove(&ThrottleLabels { namespace: namespace.clone(), limit: by.as_str() });
                }
            }
            for status in STATUSES {
                let (namespace, function) = (namespace.clone(), function.clone());
                self.activations.remove(&ActivationLabels { namespace, function, status });
            }
        }
    }

    /// A call was refused by a limit of its namespace.
    pub fn throttled(&self, namespace: &str, by: ThrottledBy) {
        let mut labelled = self.labelled();
        let namespace = self.label(&mut labelled, (namespace, ""), true).0;
        let labels = ThrottleLabels { namespace, limit: by.as_str() };
        self.throttled.get_or_create(&labels).inc();
    }

    /// A front (`openwhisk`, `native`) answered a request.
    pub fn http_request(&self, front: &'static str, status: u16) {
        self.http.get_or_create(&HttpLabels { front, status }).inc();
    }

    /// An asynchronous call was accepted.
    pub fn async_accepted(&self) {
        self.async_accepted.inc();
    }

    /// An attempt of an asynchronous call failed and is repeated.
    pub fn async_retried(&self) {
        self.async_retried.inc();
    }

    /// An asynchronous call was put off: this host could not run it.
    pub fn async_put_off(&self) {
        self.async_put_off.inc();
    }

    /// An asynchronous call had all its attempts.
    pub fn async_exhausted(&self) {
        self.async_exhausted.inc();
    }

    /// A call became a dead letter for that reason, if it was kept; so many letters had to go for it.
    pub fn dead_letter(&self, reason: &'static str, kept: bool, dropped: u64) {
        if kept {
            self.dead_letters_buried.get_or_create(&ReasonLabels { reason }).inc();
        }
        if dropped > 0 {
            self.dead_letters_dropped.get_or_create(&DroppedLabels { by: "bound" }).inc_by(dropped);
        }
    }

    /// So many dead letters grew too old.
    pub fn dead_letters_expired(&self, letters: u64) {
        self.dead_letters_dropped.get_or_create(&DroppedLabels { by: "age" }).inc_by(letters);
    }

    /// A dead letter became a call again.
    pub fn dead_letter_redriven(&self) {
        self.dead_letters_redriven.inc();
    }

    /// Everything as OpenMetrics text (`application/openmetrics-text; version=1.0.0; charset=utf-8`).
    pub fn render(&self, samples: &Samples) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut out, &self.registry);
        strip_eof(&mut out);
        let mut rest = String::new();
        let _ = encode(&mut rest, &sampled(samples));
        out.push_str(&rest);
        out
    }
}

/// The text of two registries is one text with one end mark.
fn strip_eof(text: &mut String) {
    if let Some(without) = text.strip_suffix("# EOF\n") {
        text.truncate(without.len());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Finished, InstanceState, SnapshotSamples, WasmPoolSamples};

    #[test]
    fn a_label_is_free_again_when_its_function_or_namespace_is_gone() {
        let metrics = Metrics::new(MetricsConfig { max_functions: 2 });
        let shown = || metrics.render(&Samples::default());
        let counted = |namespace: &str, function: &str| {
            metrics.function(namespace, function, "nodejs:20");
            shown()
                .contains(&format!(r#"{{namespace="{namespace}",function="{function}",status="success"}}"#))
        };
        assert!(counted("guest", "f") && counted("guest", "p/f") && !counted("guest", "g"));
        metrics.forget("guest", "g");
        metrics.forget("other", "other");
        assert!(!counted("guest", "g"));
        metrics.forget("guest", "f");
        assert!(!shown().contains(r#"function="f""#));
        assert!(counted("guest", "g") && !counted("guest", "f"));
        metrics.forget_namespace("guest");
        assert!(!shown().contains("guest"));
        metrics.throttled("team", ThrottledBy::Rate);
        assert!(counted("team", "f") && shown().contains(r#"flint_throttled_total{namespace="team""#));
        metrics.forget_namespace("team");
        assert!(!shown().contains("team") && shown().contains(r#"function="other""#));
        assert!(counted("guest", "f") && counted("guest", "g"));
        metrics.forget_namespace("guest");
        assert!(counted("other", "f"));
        metrics.forget_namespace("other");
        assert!(!shown().contains(r#"function="f""#) && shown().contains(r#"function="other""#));
    }

    #[test]
    fn a_function_that_may_be_gone_gets_no_label_and_keeps_the_one_it_has() {
        let metrics = Metrics::new(MetricsConfig { max_functions: 1 });
        let call = Finished { status: 0, wait: Duration::ZERO, init: None, run: None, start: None };
        let counted = |line: &str| {
            let text = metrics.render(&Samples::default());
            text.contains(&format!("flint_activations_total{{{line},status=\"success\"}} 1"))
        };
        metrics.function_if_labelled("guest", "f", "nodejs:20").finished(&call);
        assert!(counted(r#"namespace="other",function="other""#));
        metrics.function("guest", "g", "nodejs:20");
        metrics.function_if_labelled("guest", "g", "nodejs:20").finished(&call);
        assert!(counted(r#"namespace="guest",function="g""#));
        metrics.forget("guest", "g");
        metrics.function_if_labelled("guest", "g", "nodejs:20");
        assert!(!metrics.render(&Samples::default()).contains("guest"));
    }

    #[test]
    fn what_did_not_come_to_a_run_is_counted_and_has_no_duration_of_one() {
        let metrics = Metrics::new(MetricsConfig::default());
        let function = metrics.function("guest", "f", "nodejs:20");
        let refused = Finished { status: 3, wait: Duration::ZERO, init: None, run: None, start: None };
        function.finished(&refused);
        // Its code does not load.
        function.finished(&Finished { status: 2, init: Some(Duration::from_millis(20)), ..refused });
        let text = metrics.render(&Samples::default());
        for line in [
            r#"flint_activations_total{namespace="guest",function="f",status="internal_error"} 1"#,
            r#"flint_activations_total{namespace="guest",function="f",status="developer_error"} 1"#,
            r#"flint_activation_wait_seconds_count{kind="nodejs:20"} 1"#,
            r#"flint_activation_init_seconds_count{kind="nodejs:20"} 1"#,
            r#"flint_activation_run_seconds_count{kind="nodejs:20"} 0"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn calls_are_counted_by_function_and_the_number_of_labels_is_bounded() {
        let metrics = Metrics::new(MetricsConfig { max_functions: 1 });
        let call = Finished {
            status: 0,
            wait: Duration::from_micros(50),
            init: Some(Duration::from_millis(20)),
            run: Some(Duration::from_millis(1)),
            start: Some(StartKind::Cold),
        };
        for name in ["one", "two", "three"] {
            metrics.function("guest", name, "nodejs:20").finished(&call);
        }
        metrics.throttled("guest", ThrottledBy::Rate);
        metrics.http_request("openwhisk", 202);
        let snapshots = SnapshotSamples { zygotes: 2, from_standby: 5, ..SnapshotSamples::default() };
        let text = metrics.render(&Samples {
            instances: vec![(InstanceState::Idle, 3)],
            snapshots,
            wasm_pool: Some(WasmPoolSamples {
                total: 100,
                bound: "mappings",
                live: 7,
                in_use: 8,
                warm: 12,
                kept_bytes: 4096,
                waited: 3,
                refused: 1,
            }),
            ..Samples::default()
        });
        for line in [
            r#"flint_wasm_instances 7"#,
            r#"flint_wasm_slots{state="warm"} 12"#,
            r#"flint_wasm_slots{state="unused"} 80"#,
            r#"flint_wasm_instances_limit{bound="mappings"} 100"#,
            r#"flint_wasm_slots_kept_bytes 4096"#,
            r#"flint_wasm_pool_waits_total 3"#,
            r#"flint_wasm_pool_refusals_total 1"#,
            r#"flint_activations_total{namespace="guest",function="one",status="success"} 1"#,
            r#"flint_activations_total{namespace="other",function="other",status="success"} 2"#,
            r#"flint_activation_starts_total{kind="nodejs:20",start="cold"} 3"#,
            r#"flint_http_requests_total{front="openwhisk",status="202"} 1"#,
            r#"flint_instances{state="idle"} 3"#,
            r#"flint_zygotes 2"#,
            r#"flint_snapshot_starts_total{by="standby"} 5"#,
            r#"flint_zygotes_rebuilt_total 0"#,
            r#"flint_log_lines_dropped_total 0"#,
            r#"flint_activation_init_seconds_count{kind="nodejs:20"} 3"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert_eq!(text.matches("# EOF").count(), 1);
        assert!(text.ends_with("# EOF\n"));
    }
}
