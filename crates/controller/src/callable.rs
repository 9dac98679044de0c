//! A function with everything its calls need, computed once.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock},
};

use flint_invoker::InstanceKey;
use flint_model::{Annotations, Function, FunctionPath, NamespaceName, Parameters, RetryOptions};
use flint_telemetry::{FunctionMetrics, Metrics};
use serde_json::{Map, Value};

use crate::{
    account::AccountNumber,
    arguments::Defaults,
    asynchronous::policy,
    built_in::BuiltIn,
    resolve::Inherited,
    secrets::{Given, Lacks},
    weight,
};

/// The parts of a call that depend only on the function and the account.
#[derive(Clone)]
pub(crate) struct OnAccount {
    account: AccountNumber,
    /// Selects the instances that serve them.
    pub(crate) key: Arc<InstanceKey>,
    /// Environment for loading the code.
    pub(crate) environment: Arc<[(String, String)]>,
}

/// A function, ready to be called.
pub(crate) struct Callable {
    pub(crate) function: Arc<Function>,
    /// The path by which it was found: its own, or one through a binding.
    pub(crate) asked: FunctionPath,
    pub(crate) defaults: Defaults,
    /// Environment for loading the code: `init` parameters of its package and binding, and its secrets.
    pub(crate) environment: Vec<(String, String)>,
    /// For the first namespace that called it: most functions have one caller.
    on_account: OnceLock<OnAccount>,
    /// Tells apart instances with different such environments; 0 without one.
    pub(crate) variant: u64,
    /// Why it cannot be called: a secret is not available.
    pub(crate) lacks: Option<Lacks>,
    /// Annotations for the records of its calls.
    pub(crate) annotations: Annotations,
    /// Whether it receives its caller's key.
    pub(crate) wants_key: bool,
    /// Whether it is a conductor: its answers say what is called next.
    pub(crate) conductor: bool,
    /// Its retry annotations.
    pub(crate) retry: Option<RetryOptions>,
    /// The built-in that it stands for.
    pub(crate) built_in: Option<BuiltIn>,
    counters: OnceLock<FunctionMetrics>,
}

impl Callable {
    /// `function`, as found by the path `asked`.
    pub(crate) fn new(function: Function, asked: FunctionPath, inherited: &Inherited) -> Self {
        let mut annotations = Annotations::default();
        annotations.set("limits", limits_of(&function));
        if let Some(binding) = &inherited.origin.binding {
            annotations.set("binding", binding.to_string());
        }
        let parameters = function.parameters.over(&inherited.parameters);
        let environment = environment(&function.parameters, &inherited.parameters);
        Self {
            defaults: Defaults::new(&parameters, &function.annotations),
            variant: variant(&environment),
            environment,
            on_account: OnceLock::new(),
            lacks: None,
            annotations,
            wants_key: function.wants_api_key(),
            conductor: function.annotations.is_truthy("conductor"),
            retry: policy::options(&function.annotations),
            built_in: BuiltIn::of(&function),
            counters: OnceLock::new(),
            asked,
            function: Arc::new(function),
        }
    }

    /// Adds its secrets.
    pub(crate) fn given(mut self, given: Given) -> Self {
        if !given.is_none() {
            self.variant = hash_of((self.variant, &given));
        }
        self.environment.extend(given.environment);
        self.lacks = given.lacks;
        self
    }

    /// Gives its counters a label of their own. Only for a function whose deletion comes after this.
    pub(crate) fn label(&self, metrics: &Metrics) {
        let Function { path, kind, .. } = &*self.function;
        let label = || metrics.function(path.namespace.as_str(), &path.local(), kind.as_str());
        self.counters.get_or_init(label);
    }

    /// Its counters; if it has no label, it may have been deleted since it was found, and gets none.
    pub(crate) fn counters(&self, metrics: &Metrics) -> &FunctionMetrics {
        let Function { path, kind, .. } = &*self.function;
        self.counters.get_or_init(|| {
            metrics.function_if_labelled(path.namespace.as_str(), &path.local(), kind.as_str())
        })
    }

    /// The parts of its calls that depend on this account.
    pub(crate) fn on_account(
        &self,
        namespace: &NamespaceName,
        account: AccountNumber,
        api_host: &str,
    ) -> OnAccount {
        let make = || {
            let own = [
                ("__OW_API_HOST", api_host.to_owned()),
                ("__OW_NAMESPACE", namespace.to_string()),
                ("__OW_ACTION_NAME", format!("/{}", self.function.path)),
                ("__OW_ACTION_VERSION", self.function.version.to_string()),
            ];
            let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
            // A namespace created again has new functions of its own. Functions of others are the same, but
            // instances that hold data of the deleted namespace must not serve the new one.
            let variant = match self.function.path.namespace == *namespace {
                true => self.variant,
                false => hash_of((self.variant, account)),
            };
            OnAccount {
                account,
                key: Arc::new(InstanceKey::new(namespace, &self.function, variant)),
                environment: own.chain(self.environment.iter().cloned()).collect(),
            }
        };
        match self.on_account.get_or_init(make) {
            first if first.account == account => first.clone(),
            _ => make(),
        }
    }

    /// Approximate memory use in bytes.
    pub(crate) fn weight(&self) -> usize {
        let environment = self.environment.iter().map(|(key, value)| key.len() + value.len());
        let warmup = self.function.snapshot.warmup.iter().map(|event| event.size() as usize);
        let wasm = self.function.wasm.config.iter().map(|(key, value)| key.len() + value.len());
        size_of::<Self>()
            + size_of::<Function>()
            + warmup.sum::<usize>()
            + wasm.sum::<usize>()
            + weight::of_parameters(&self.function.parameters)
            + weight::of_annotations(&self.function.annotations)
            + self.defaults.weight()
            // Twice: as stored, and as part of the account's environment.
            + 2 * (environment.sum::<usize>() + self.environment.len() * size_of::<(String, String)>())
    }
}

/// Environment from `inherited` parameters that the function's `own` do not override. The invoker sets its
/// own.
fn environment(own: &Parameters, inherited: &Parameters) -> Vec<(String, String)> {
    let replaced = own.keys(inherited.0.len());
    inherited.environment().filter(|(key, _)| !replaced.contains(key)).collect()
}

fn variant(environment: &[(String, String)]) -> u64 {
    if environment.is_empty() {
        return 0;
    }
    hash_of(environment)
}

/// Never 0.
fn hash_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish().max(1)
}

/// The limits as records show them: ms and whole MB.
fn limits_of(function: &Function) -> Value {
    let limits = &function.limits;
    let mut shown = Map::new();
    shown.insert("timeout".to_owned(), (limits.timeout.as_millis() as u64).into());
    shown.insert("memory".to_owned(), limits.memory.as_mib().into());
    shown.insert("logs".to_owned(), limits.logs.as_mib().into());
    shown.insert("concurrency".to_owned(), limits.concurrency.get().into());
    if let Some(instances) = limits.instances {
        shown.insert("instances".to_owned(), instances.get().into());
    }
    Value::Object(shown)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use flint_model::Parameter;
    use proptest::{collection::vec, prelude::*};
    use serde_json::json;

    use super::*;

    /// Few keys, so that layers overlap.
    fn layer() -> impl Strategy<Value = Parameters> {
        let value =
            prop_oneof![Just(Value::Null), (0..9_i32).prop_map(Value::from), "[a-c]?".prop_map(Value::from)];
        let parameter = ("[a-e]", value, any::<bool>());
        vec(parameter.prop_map(|(key, value, init)| Parameter { key, value, init }), 0..6)
            .prop_map(Parameters)
    }

    fn callable(own: Parameters, inherited: Parameters, fixed: bool) -> Callable {
        let function: Function = serde_json::from_value(json!({
            "path": "guest/p/f", "version": "0.0.1", "revision": 1, "kind": "nodejs:20",
            "code": {"digest": "00".repeat(32), "size": 1, "format": "source"}, "contract": "handler", "network": "none",
            "strategy": {"isolation": "process", "start": "spawn", "reuse": "warm", "concurrency": 1},
            "limits": flint_model::FunctionLimits::default(), "parameters": own, "updated": 1,
            "annotations": [{"key": "final", "value": fixed}],
        }))
        .unwrap();
        let inherited = Inherited { parameters: inherited, ..Inherited::default() };
        Callable::new(function, "guest/p/f".parse().unwrap(), &inherited)
    }

    proptest! {
        /// The last layer that names a key decides its value, and whether it goes to the environment or to
        /// the call.
        #[test]
        fn the_last_layer_that_names_a_key_decides(
            provider in layer(), binding in layer(), own in layer(), call in proptest::collection::btree_map("[a-e]", 0..9_i32, 0..4),
            fixed in any::<bool>(),
        ) {
            let mut expected: BTreeMap<&str, &Parameter> = BTreeMap::new();
            for layer in [&provider, &binding, &own] {
                expected.extend(layer.0.iter().map(|parameter| (parameter.key.as_str(), parameter)));
            }
            let callable = callable(own.clone(), binding.over(&provider), fixed);

            // The environment: the function's own part, set by the invoker, and the package's.
            let mut environment: BTreeMap<_, _> = callable.environment.iter().cloned().collect();
            prop_assert!(own.environment().all(|(key, _)| !environment.contains_key(&key)));
            environment.extend(own.environment());
            let in_environment: Vec<_> = expected.values().filter(|parameter| parameter.init).map(|parameter| &parameter.key).collect();
            prop_assert_eq!(environment.keys().collect::<Vec<_>>(), in_environment);
            prop_assert_eq!(callable.variant == 0, callable.environment.is_empty());

            let body = Bytes::from(serde_json::to_vec(&call).unwrap());
            let reserved = fixed && call.keys().any(|key| {
                [&provider, &binding, &own].iter().rev().find_map(|layer| layer.0.iter().rev().find(|parameter| parameter.key == *key))
                    .is_some_and(|parameter| !parameter.value.is_null())
            });
            match callable.defaults.merge(body) {
                Err(error) => prop_assert!(reserved, "{}", error),
                Ok(merged) => {
                    prop_assert!(!reserved);
                    let mut arguments: BTreeMap<String, Value> =
                        expected.values().filter(|parameter| !parameter.init).map(|parameter| (parameter.key.clone(), parameter.value.clone())).collect();
                    arguments.extend(call.into_iter().map(|(key, value)| (key, value.into())));
                    let merged: BTreeMap<String, Value> = serde_json::from_slice(&merged).unwrap();
                    prop_assert_eq!(merged, arguments);
                }
            }
        }
    }

    #[test]
    fn its_own_parameters_and_what_it_inherits_weigh() {
        let large = |init: bool| {
            let value = Value::from("x".repeat(1000));
            Parameters(vec![Parameter { key: "k".to_owned(), value, init }])
        };
        let weight = |own: Parameters, inherited: Parameters| callable(own, inherited, false).weight();
        let none = weight(Parameters::default(), Parameters::default());
        assert!(
            weight(large(false), Parameters::default()) > none + 2000,
            "as they are, and ready to be merged"
        );
        assert!(weight(Parameters::default(), large(false)) > none + 1000);
        assert!(weight(Parameters::default(), large(true)) > none + 1000);
    }

    #[test]
    fn each_namespace_is_told_its_own_name() {
        let token: Parameters =
            serde_json::from_value(json!([{"key": "TOKEN", "value": "t", "init": true}])).unwrap();
        let callable = callable(Parameters::default(), token, false);
        let [guest, other, new] = std::array::from_fn(|_| AccountNumber::default());
        let key = |name: &str, account| callable.on_account(&name.parse().unwrap(), account, "http://h").key;
        assert_eq!(key("guest", guest), key("guest", new), "its own function");
        assert_eq!(key("other", other), key("other", other));
        assert_ne!(key("other", other), key("other", new), "it was created anew");
        for (name, account) in [("guest", guest), ("other", other), ("guest", guest)] {
            let on_account = callable.on_account(&name.parse().unwrap(), account, "http://h");
            assert_eq!(on_account.key.namespace.as_str(), name);
            let told: Vec<_> =
                on_account.environment.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let expected = [
                ("__OW_API_HOST", "http://h"),
                ("__OW_NAMESPACE", name),
                ("__OW_ACTION_NAME", "/guest/p/f"),
                ("__OW_ACTION_VERSION", "0.0.1"),
                ("TOKEN", "t"),
            ];
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn calls_with_other_environments_have_other_instances() {
        let set = |value: &str| {
            let parameters =
                json!([{"key": "TOKEN", "value": value, "init": true}, {"key": "n", "value": value}]);
            callable(Parameters::default(), serde_json::from_value(parameters).unwrap(), false)
        };
        assert_eq!(set("a").environment, [("TOKEN".to_owned(), "a".to_owned())]);
        assert!(set("a").variant != set("b").variant && set("a").variant == set("a").variant);
        assert_eq!(callable(Parameters::default(), Parameters::default(), false).variant, 0);
    }
}
