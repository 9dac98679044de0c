//! `flint.toml` or `flint.json`: a directory's settings for its function.

use std::{
    collections::BTreeMap,
    fs, io,
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use flint_model::{Contract, FailureKind, HostPattern, Isolation, Jit, Network, Reuse, SecretBinding, Start};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    cli::{FunctionArgs, RetryArgs},
    failure::Failure,
};

/// The keys of a manifest. All are optional, and options on the command line win.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Manifest {
    name: Option<String>,
    kind: Option<String>,
    main: Option<String>,
    contract: Option<Contract>,
    isolation: Option<Isolation>,
    start: Option<Start>,
    reuse: Option<Reuse>,
    concurrency: Option<NonZeroU32>,
    network: Option<Network>,
    snapshot: Snapshot,
    wasm: Wasm,
    limits: Limits,
    retry: Retry,
    params: BTreeMap<String, Value>,
    init_params: BTreeMap<String, Value>,
    secrets: Vec<SecretBinding>,
    annotations: BTreeMap<String, Value>,
}

/// Warm-up and snapshot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Snapshot {
    /// Files with events, relative to the directory.
    warmup: Vec<PathBuf>,
    warmup_list: Option<PathBuf>,
    warmup_network: bool,
    annotate: Option<bool>,
    jit: Option<Jit>,
}

/// Grants to WebAssembly.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wasm {
    allow_hosts: Vec<HostPattern>,
    keyvalue: bool,
    config: BTreeMap<String, String>,
    preinit: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Limits {
    memory: Option<Text>,
    timeout: Option<Text>,
    logs: Option<Text>,
    cpu: Option<Text>,
}

/// Retries of failed non-blocking calls.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Retry {
    retries: Option<u32>,
    backoff: Option<Text>,
    max_backoff: Option<Text>,
    max_age: Option<Text>,
    on: Vec<FailureKind>,
}

/// A word on the command line that may be a number here.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Text {
    Word(String),
    Whole(u64),
    Fraction(f64),
}

impl Text {
    fn read<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
        let text = match self {
            Self::Word(word) => word.clone(),
            Self::Whole(number) => number.to_string(),
            Self::Fraction(number) => number.to_string(),
        };
        parse(&text).map_err(|why| format!("{key}: {why}"))
    }
}

impl Manifest {
    /// The manifest in `directory`; empty if there is none.
    pub(crate) fn in_directory(directory: &Path) -> Result<Self, Failure> {
        let read = |name: &str| match fs::read_to_string(directory.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(super::contents::cannot_read(&directory.join(name), &error)),
        };
        let wrong = |name: &str, why: String| {
            Failure::usage(format!("{}: {}", directory.join(name).display(), why.trim()))
                .hint("docs/cli.md lists what a manifest may say")
        };
        let mut manifest = match (read("flint.toml")?, read("flint.json")?) {
            (Some(_), Some(_)) => {
                return Err(Failure::usage(format!(
                    "{} has both a flint.toml and a flint.json",
                    directory.display()
                ))
                .hint("keep one of them"));
            }
            (Some(text), None) => Self::from_toml(&text).map_err(|why| wrong("flint.toml", why))?,
            (None, Some(text)) => {
                serde_json::from_str::<Self>(&text).map_err(|error| wrong("flint.json", error.to_string()))?
            }
            (None, None) => Self::default(),
        };
        for file in manifest.snapshot.warmup.iter_mut().chain(&mut manifest.snapshot.warmup_list) {
            *file = directory.join(&*file);
        }
        Ok(manifest)
    }

    fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// `args`, completed by this manifest.
    pub(crate) fn complete(self, args: FunctionArgs) -> Result<FunctionArgs, String> {
        use crate::cli::{cpu_millis, duration, function_name, mebibytes};
        let merged = |mut ours: BTreeMap<String, Value>, theirs: Vec<(String, Value)>| {
            ours.extend(theirs);
            ours.into_iter().collect()
        };
        let Limits { memory, timeout, logs, cpu } = self.limits;
        // Events on the command line replace the manifest's, in whichever form.
        let (warmup, warmup_list) = match args.warmup.is_empty() && args.warmup_list.is_none() {
            true => (self.snapshot.warmup, self.snapshot.warmup_list),
            false => (args.warmup, args.warmup_list),
        };
        // Hosts on the command line replace the manifest's, so that a grant can be revoked.
        let allow_hosts = if args.allow_hosts.is_empty() { self.wasm.allow_hosts } else { args.allow_hosts };
        let mut wasm_config = self.wasm.config;
        wasm_config.extend(args.wasm_config);
        let name = match (args.name, self.name) {
            (None, Some(name)) => Some(function_name(&name).map_err(|why| format!("name: {why}"))?),
            (name, _) => name,
        };
        Ok(FunctionArgs {
            name,
            kind: args.kind.or(self.kind),
            main: args.main.or(self.main),
            contract: args.contract.or(self.contract),
            memory: or_read(args.memory, memory, "limits.memory", mebibytes)?,
            timeout: or_read(args.timeout, timeout, "limits.timeout", duration)?,
            logs: or_read(args.logs, logs, "limits.logs", mebibytes)?,
            cpu: or_read(args.cpu, cpu, "limits.cpu", cpu_millis)?,
            isolation: args.isolation.or(self.isolation),
            start: args.start.or(self.start),
            reuse: args.reuse.or(self.reuse),
            warmup,
            warmup_list,
            warmup_network: args.warmup_network || self.snapshot.warmup_network,
            no_annotate: args.no_annotate || self.snapshot.annotate == Some(false),
            jit: args.jit.or(self.snapshot.jit),
            allow_hosts,
            keyvalue: args.keyvalue || self.wasm.keyvalue,
            wasm_config: wasm_config.into_iter().collect(),
            no_preinit: args.no_preinit || self.wasm.preinit == Some(false),
            retry: RetryArgs {
                retries: args.retry.retries.or(self.retry.retries),
                retry_backoff: or_read(
                    args.retry.retry_backoff,
                    self.retry.backoff,
                    "retry.backoff",
                    duration,
                )?,
                retry_max_backoff: or_read(
                    args.retry.retry_max_backoff,
                    self.retry.max_backoff,
                    "retry.max_backoff",
                    duration,
                )?,
                retry_max_age: or_read(
                    args.retry.retry_max_age,
                    self.retry.max_age,
                    "retry.max_age",
                    duration,
                )?,
                retry_on: if args.retry.retry_on.is_empty() { self.retry.on } else { args.retry.retry_on },
            },
            concurrency: args.concurrency.or(self.concurrency),
            build_timeout: args.build_timeout,
            network: args.network.or(self.network),
            params: merged(self.params, args.params),
            init_params: merged(self.init_params, args.init_params),
            // Secrets on the command line replace the manifest's, so that one can be revoked.
            secrets: if args.secrets.is_empty() { self.secrets } else { args.secrets },
            annotations: merged(self.annotations, args.annotations),
        })
    }
}

fn or_read<T>(
    arg: Option<T>,
    text: Option<Text>,
    key: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    match arg {
        Some(value) => Ok(Some(value)),
        None => text.map(|text| text.read(key, parse)).transpose(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_completes_the_command_line() {
        let manifest = Manifest::from_toml(
            "name = 'resize'\nkind = 'nodejs'\ncontract = 'handler'\nparams = { max = 128, by = 'file' }\n\
             [limits]\nmemory = 512\ntimeout = '90s'\ncpu = 0.5\n",
        )
        .unwrap();
        let args = FunctionArgs {
            name: Some("mine".into()),
            params: vec![("max".into(), json!(64))],
            ..Default::default()
        };
        let done = manifest.complete(args).unwrap();
        assert_eq!((done.name.as_deref(), done.kind.as_deref()), (Some("mine"), Some("nodejs")));
        assert_eq!(
            (done.memory, done.timeout, done.cpu),
            (Some(512), Some(Duration::from_secs(90)), Some(500))
        );
        assert_eq!(done.params, [("by".into(), json!("file")), ("max".into(), json!(64))]);
    }

    #[test]
    fn events_are_found_beside_the_manifest_and_give_way_to_the_command_line() {
        let dir = tempfile::tempdir().unwrap();
        let text = "[snapshot]\nwarmup = ['event.json']\nannotate = false\njit = 'numba'\n";
        fs::write(dir.path().join("flint.toml"), text).unwrap();
        let complete = |args| Manifest::in_directory(dir.path()).unwrap().complete(args).unwrap();
        let done = complete(FunctionArgs::default());
        assert_eq!(done.warmup, [dir.path().join("event.json")]);
        assert_eq!((done.no_annotate, done.jit, done.warmup_network), (true, Some(Jit::Numba), false));
        let done = complete(FunctionArgs { warmup: vec!["none".into()], ..Default::default() });
        assert_eq!(done.warmup, [PathBuf::from("none")]);
        let done = complete(FunctionArgs { warmup_list: Some("all.json".into()), ..Default::default() });
        assert!(done.warmup.is_empty() && done.warmup_list == Some("all.json".into()));
    }

    #[test]
    fn grants_are_read_and_hosts_give_way_to_the_command_line() {
        let text = "[wasm]\nallow_hosts = ['https://a.example']\nkeyvalue = true\npreinit = false\nconfig = { level = 'low', by = 'file' }\n";
        let complete = |args| Manifest::from_toml(text).unwrap().complete(args).unwrap();
        let done = complete(FunctionArgs::default());
        assert_eq!(done.allow_hosts, ["https://a.example".parse().unwrap()]);
        assert!(done.keyvalue && done.no_preinit);
        let done = complete(FunctionArgs {
            allow_hosts: vec!["b.example".parse().unwrap()],
            wasm_config: vec![("level".into(), "high".into())],
            ..Default::default()
        });
        assert_eq!(done.allow_hosts, ["b.example".parse().unwrap()]);
        assert_eq!(done.wasm_config, [("by".into(), "file".into()), ("level".into(), "high".into())]);
        assert!(Manifest::from_toml("[wasm]\nallow_hosts = ['ftp://x']").unwrap_err().contains("scheme"));
    }

    #[test]
    fn retries_are_read_and_give_way_to_the_command_line() {
        let text = "[retry]\nretries = 4\nbackoff = '2s'\nmax_age = '6h'\non = ['timeout', 'application']\n";
        let complete = |args| Manifest::from_toml(text).unwrap().complete(args).unwrap().retry;
        let done = complete(FunctionArgs::default()).resource().unwrap();
        assert_eq!((done.retries, done.backoff_ms, done.max_age_ms), (Some(4), Some(2000), Some(21_600_000)));
        assert_eq!(done.on, Some(vec![FailureKind::Timeout, FailureKind::Application]));
        let retry =
            RetryArgs { retries: Some(1), retry_on: vec![FailureKind::Developer], ..Default::default() };
        let done = complete(FunctionArgs { retry, ..Default::default() });
        assert_eq!((done.retries, done.retry_on), (Some(1), vec![FailureKind::Developer]));
        assert_eq!(RetryArgs::default().resource(), None);
        let wrong = Manifest::from_toml("retry = { backoff = 'soon' }").unwrap();
        assert!(wrong.complete(FunctionArgs::default()).unwrap_err().starts_with("retry.backoff: 'soon'"));
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        let error = Manifest::from_toml("memroy = 1").unwrap_err();
        assert!(error.contains("memroy") && error.contains("unknown field"), "{error}");
        let manifest = Manifest::from_toml("limits = { timeout = 60 }").unwrap();
        let error = manifest.complete(FunctionArgs::default()).unwrap_err();
        assert!(error.starts_with("limits.timeout: '60' is not a time"), "{error}");
        assert!(Manifest::from_toml("start = 'teleport'").is_err());
        let nameless = || Manifest::from_toml("name = ' '").unwrap();
        assert!(nameless().complete(FunctionArgs::default()).unwrap_err().starts_with("name: it is empty"));
        let named = FunctionArgs { name: Some("mine".into()), ..Default::default() };
        assert!(nameless().complete(named).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,120}") {
            let _ = Manifest::from_toml(&text);
            let _ = serde_json::from_str::<Manifest>(&text);
        }
    }
}
