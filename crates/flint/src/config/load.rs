//! Loads the configuration, and records the origin of each value.

use std::{collections::BTreeMap, env, path::Path};

use figment::{
    Figment, Provider,
    providers::{Format, Serialized, Toml},
    value::{Dict, Tag, Value},
};

use super::{Config, KEYS, Key};
use crate::{cli::DataArgs, failure::Failure};

/// The configuration with its origins.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    pub(crate) settings: Vec<Setting>,
}

/// The effective value of a key.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    /// As JSON; absent if it is not set and Flint determines it.
    pub(crate) value: Option<serde_json::Value>,
    /// `default`, a file, `FLINT_…`, or `--…`.
    pub(crate) source: String,
}

/// One origin of values.
struct Layer {
    /// Its name for users.
    name: String,
    dict: Dict,
    /// The option or variable of each key, if the origin alone does not tell.
    names: BTreeMap<String, String>,
}

/// Reads the file, the environment and the command line. `listen` is the option of `flint up`.
pub(crate) fn load(args: &DataArgs, listen: Option<&str>) -> Result<Loaded, Failure> {
    let mut environment = Vec::new();
    for (name, value) in env::vars_os() {
        // A name that is not UTF-8 is none of Flint's.
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => environment.push((name, value)),
            Err(value) if name.starts_with("FLINT_") && name.contains("__") => {
                return Err(Failure::usage(format!("{name}={}: it is not UTF-8", value.display())));
            }
            Err(_) => {}
        }
    }
    load_from(args, listen, environment.into_iter())
}

fn load_from(
    args: &DataArgs,
    listen: Option<&str>,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, Failure> {
    let mut layers = Vec::new();
    if let Some(path) = &args.config {
        layers.push(file(path)?);
    }
    layers.push(variables(environment)?);
    layers.push(options(args, listen)?);
    for layer in &layers {
        refuse_unknown(layer)?;
    }

    let mut figment = Figment::from(Serialized::defaults(Config::default()));
    for layer in &layers {
        figment = figment.merge(Serialized::defaults(layer.dict.clone()));
    }
    let config: Config = figment.extract().map_err(|error| wrong_value(&error, &layers))?;
    let shown = serde_json::to_value(&config).unwrap_or_default();
    let settings = KEYS
        .iter()
        .map(|key| {
            let (section, name) = split(key.path);
            let origin = layers.iter().rev().find(|layer| has(&layer.dict, section, name));
            Setting {
                key,
                value: shown
                    .get(section)
                    .and_then(|section| section.get(name))
                    .filter(|value| !value.is_null())
                    .cloned(),
                source: origin.map_or("default".to_owned(), |layer| layer.source_of(key.path)),
            }
        })
        .collect();
    Ok(Loaded { config, settings })
}

impl Layer {
    fn source_of(&self, path: &str) -> String {
        self.names.get(path).unwrap_or(&self.name).clone()
    }
}

fn split(path: &str) -> (&str, &str) {
    path.split_once('.').unwrap_or((path, ""))
}

fn has(dict: &Dict, section: &str, name: &str) -> bool {
    matches!(dict.get(section), Some(Value::Dict(_, inner)) if inner.contains_key(name))
}

fn file(path: &Path) -> Result<Layer, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("cannot read the configuration {name}: {error}"))
            .hint("check --config or FLINT_CONFIG")
    })?;
    let dict = Toml::string(&text)
        .data()
        .map_err(|error| Failure::usage(format!("{name} is not TOML: {error}")))?
        .into_values()
        .next()
        .unwrap_or_default();
    Ok(Layer { name, dict, names: BTreeMap::new() })
}

/// Reads `FLINT_SECTION__KEY`; variables without two underscores are not configuration, unless they look like
/// it.
fn variables(environment: impl Iterator<Item = (String, String)>) -> Result<Layer, Failure> {
    let mut layer = Layer { name: "environment".into(), dict: Dict::new(), names: BTreeMap::new() };
    for (variable, text) in environment {
        let Some(rest) = variable.strip_prefix("FLINT_") else { continue };
        let Some((section, name)) = rest.split_once("__") else {
            match meant(rest) {
                // An orchestrator's description of a service named `flint-gate` or the like.
                Some(_) if text.contains("://") => continue,
                Some(meant) => {
                    return Err(Failure::usage(format!("{variable} is no variable of Flint's")).hint(
                        format!("did you mean {meant}? section and key are joined by two underscores"),
                    ));
                }
                None => continue,
            }
        };
        let path = format!("{}.{}", section.to_lowercase(), name.to_lowercase());
        insert(&mut layer.dict, &path, parse(&text));
        layer.names.insert(path, variable);
    }
    Ok(layer)
}

/// The variable that one with a single underscore was probably meant to be.
fn meant(rest: &str) -> Option<String> {
    let path =
        KEYS.iter().map(|key| key.path).find(|path| path.replace('.', "_").eq_ignore_ascii_case(rest))?;
    Some(format!("FLINT_{}", path.replace('.', "__").to_uppercase()))
}

fn options(args: &DataArgs, listen: Option<&str>) -> Result<Layer, Failure> {
    let mut layer = Layer { name: "command line".into(), dict: Dict::new(), names: BTreeMap::new() };
    let mut set = |path: &str, value: Value, option: &str| {
        insert(&mut layer.dict, path, value);
        layer.names.insert(path.to_owned(), option.to_owned());
    };
    for text in &args.set {
        let Some((path, value)) = text.split_once('=') else {
            return Err(Failure::usage(format!(
                "--set {text}: write KEY=VALUE, for example --set log.filter=debug"
            )));
        };
        set(path.trim(), parse(value), "--set");
    }
    if let Some(dir) = &args.data_dir {
        let Some(text) = dir.to_str() else {
            return Err(Failure::usage(format!("--data-dir {}: the path is not UTF-8", dir.display())));
        };
        set("server.data_dir", Value::from(text), "--data-dir");
    }
    if let Some(listen) = listen {
        set("server.listen", Value::from(listen), "--listen");
    }
    Ok(layer)
}

/// Parses a word as a number, boolean or list, and otherwise as a string. No key needs an escape sequence,
/// and figment 0.10.19 panics at some invalid ones: a word with a backslash is always a string.
fn parse(text: &str) -> Value {
    if text.contains('\\') {
        return Value::from(text);
    }
    text.parse().unwrap_or_else(|_| Value::from(text))
}

fn insert(dict: &mut Dict, path: &str, value: Value) {
    let (section, name) = split(path);
    let entry = dict.entry(section.to_owned()).or_insert_with(|| Value::Dict(Tag::Default, Dict::new()));
    if let Value::Dict(_, inner) = entry {
        inner.insert(name.to_owned(), value);
    }
}

/// Refuses the first unknown key, suggesting the nearest known one.
fn refuse_unknown(layer: &Layer) -> Result<(), Failure> {
    let known = |path: &str| KEYS.iter().any(|key| key.path == path);
    for (section, value) in &layer.dict {
        let paths: Vec<String> = match value {
            Value::Dict(_, inner) if KEYS.iter().any(|key| split(key.path).0 == section) => {
                inner.keys().map(|name| format!("{section}.{name}")).collect()
            }
            Value::Dict(_, inner) if !inner.is_empty() => {
                inner.keys().map(|name| format!("{section}.{name}")).collect()
            }
            _ => vec![section.clone()],
        };
        if let Some(path) = paths.iter().find(|path| !known(path)) {
            let source = layer.source_of(path);
            // A word without a dot was taken for a section.
            let said = path.trim_end_matches('.');
            let failure = Failure::usage(format!("{source}: there is no configuration key '{said}'"));
            return Err(match nearest(said) {
                Some(near) => failure.hint(format!("did you mean '{near}'? `flint config` lists every key")),
                None => failure.hint("`flint config` lists every key"),
            });
        }
    }
    Ok(())
}

/// The key most similar to `path`, if any is.
fn nearest(path: &str) -> Option<&'static str> {
    let bare = path.rsplit('.').next().unwrap_or(path);
    KEYS.iter()
        .map(|key| {
            let whole = strsim::normalized_damerau_levenshtein(path, key.path);
            // The right key in the wrong section, or without one, counts as a near miss as well.
            let name = strsim::normalized_damerau_levenshtein(bare, split(key.path).1) - 0.05;
            (whole.max(name), key.path)
        })
        .filter(|(likeness, _)| *likeness > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, path)| path)
}

fn wrong_value(error: &figment::Error, layers: &[Layer]) -> Failure {
    let path = error.path.join(".");
    let (section, name) = split(&path);
    let source =
        layers.iter().rev().find(|layer| has(&layer.dict, section, name)).map(|layer| layer.source_of(&path));
    let message = format!("{}: {path}: {}", source.unwrap_or_else(|| "configuration".into()), error.kind);
    let failure = Failure::usage(message);
    match KEYS.iter().find(|key| key.path == path) {
        Some(key) => failure.hint(format!("{path} = {}  # {}", key.example, key.meaning)),
        None => failure.hint("`flint config` lists every key"),
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, time::Duration};

    use proptest::prelude::*;

    use super::*;

    fn with(toml: &str, environment: &[(&str, &str)], set: &[&str]) -> Result<Loaded, Failure> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(toml.as_bytes()).unwrap();
        let args = DataArgs {
            data_dir: None,
            config: Some(file.path().to_owned()),
            set: set.iter().map(|text| (*text).to_owned()).collect(),
        };
        load_from(
            &args,
            None,
            environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        )
    }

    #[test]
    fn the_command_line_wins_over_the_environment_over_the_file() {
        let toml = "[limits]\ninvocations_per_minute = 1\nconcurrent_invocations = 1\nfires_per_minute = 1\n[pool]\nkeep_alive = '5min'";
        let environment = [
            ("FLINT_LIMITS__CONCURRENT_INVOCATIONS", "2"),
            ("FLINT_LIMITS__FIRES_PER_MINUTE", "2"),
            ("FLINT_URL", "x"),
        ];
        let loaded = with(toml, &environment, &["limits.fires_per_minute=3"]).unwrap();
        let limits = &loaded.config.limits;
        assert_eq!(
            (limits.invocations_per_minute, limits.concurrent_invocations, limits.fires_per_minute),
            (1, 2, 3)
        );
        assert_eq!(loaded.config.pool.keep_alive, Duration::from_secs(300));
        let source = |path: &str| {
            loaded.settings.iter().find(|setting| setting.key.path == path).unwrap().source.clone()
        };
        assert_eq!(source("limits.concurrent_invocations"), "FLINT_LIMITS__CONCURRENT_INVOCATIONS");
        assert_eq!(source("limits.fires_per_minute"), "--set");
        assert_eq!(source("limits.max_memory"), "default");
        assert!(source("pool.keep_alive").contains("tmp"));
    }

    #[test]
    fn unknown_keys_are_refused_with_the_nearest_one() {
        let refused = |toml: &str| {
            let failure = with(toml, &[], &[]).unwrap_err();
            (failure.message, failure.hint.unwrap())
        };
        let (message, hint) = refused("[limits]\nmax_memroy = 1");
        assert!(
            message.contains("'limits.max_memroy'") && hint.contains("'limits.max_memory'"),
            "{message} {hint}"
        );
        let (_, hint) = refused("listen = 'x'");
        assert!(hint.contains("'server.listen'"), "{hint}");
        let (_, hint) = refused("[pools]\nkeep_alive = '1s'");
        assert!(hint.contains("'pool.keep_alive'"), "{hint}");
        assert!(
            with("", &[("FLINT_LIMITS_MAX_MEMORY", "1")], &[])
                .unwrap_err()
                .hint
                .is_some_and(|hint| hint.contains("FLINT_LIMITS__MAX_MEMORY"))
        );
        assert!(
            with(
                "",
                &[("FLINT_BIN", "1"), ("FLINT_LIMITS", "1"), ("FLINT_GATE_PORT", "tcp://10.0.0.1:80")],
                &[]
            )
            .is_ok()
        );
        assert!(
            with("", &[("FLINT_LIMITS__MAX_MEMROY", "1")], &[])
                .unwrap_err()
                .message
                .starts_with("FLINT_LIMITS__MAX_MEMROY")
        );
        let failure = with("", &[], &["listen=x"]).unwrap_err();
        assert!(failure.message.contains("'listen'") && failure.hint.unwrap().contains("'server.listen'"));
        assert!(with("", &[], &["nonsense=1"]).is_err() && with("", &[], &["nonsense"]).is_err());
    }

    #[test]
    fn wrong_values_name_the_key_its_origin_and_an_example() {
        let failure = with("[pool]\nkeep_alive = 'soon'", &[], &[]).unwrap_err();
        assert!(
            failure.message.contains("pool.keep_alive")
                && failure.message.contains("'soon' is not a duration"),
            "{failure}"
        );
        assert!(failure.hint.unwrap().contains("keep_alive = \"10min\""));
        let failure = with("", &[("FLINT_LIMITS__FIRES_PER_MINUTE", "many")], &[]).unwrap_err();
        assert!(
            failure.message.starts_with("FLINT_LIMITS__FIRES_PER_MINUTE: limits.fires_per_minute"),
            "{failure}"
        );
        let failure = with("", &[], &["runtimes.search=[\"/opt/node\", \"node\"]"]).unwrap_err();
        assert!(failure.message.contains("'node' is not an absolute path"), "{failure}");
        let found = with("", &[("FLINT_RUNTIMES__SEARCH", "[\"/opt/node\"]")], &[]).unwrap().config;
        assert_eq!(found.runtimes.search, [Path::new("/opt/node")]);
        for (set, part) in [
            ("wasm.stack=0", "between 64 KB and 64 MB"),
            ("wasm.stack=1GB", "between 64 KB and 64 MB"),
            ("wasm.threads=20000", "more than the 1024 allowed"),
            ("server.header_timeout=0", "does not switch it off"),
            ("server.collect_every=0s", "does not switch it off"),
            ("gate.idle_timeout=0ms", "does not switch it off"),
            ("async.lease=0", "does not switch it off"),
            (
                "server.web_hosts=[\"localhost\", \"https://faas.example.com\"]",
                "'https://faas.example.com' is not",
            ),
            ("server.web_hosts=[\"faas.example.com:443\"]", "without a scheme, a port"),
            ("server.web_hosts=[\"\"]", "is not the name of a host"),
        ] {
            let failure = with("", &[], &[set]).unwrap_err();
            let key = set.split('=').next().unwrap();
            assert!(failure.message.starts_with(&format!("--set: {key}: ")), "{failure}");
            assert!(failure.message.contains(part) && failure.hint.unwrap().contains(key), "{set}");
        }
        assert!(with("", &[], &["wasm.threads=8", "wasm.stack=2MB"]).is_ok());
        let hosts = with("", &[("FLINT_SERVER__WEB_HOSTS", "[\"localhost\", \"FaaS.example.com\"]")], &[]);
        assert_eq!(hosts.unwrap().config.server.web_hosts, ["localhost", "FaaS.example.com"]);
        assert!(with("not toml", &[], &[]).unwrap_err().message.contains("is not TOML"));
    }

    proptest! {
        #[test]
        fn nothing_in_the_environment_makes_the_reader_panic(section in "[A-Z_]{0,12}", name in "[A-Z_]{0,12}", value in "\\PC{0,40}") {
            let _ = with("", &[(&format!("FLINT_{section}__{name}"), &value)], &[]);
        }

        #[test]
        fn no_file_makes_the_reader_panic(text in "\\PC{0,120}") {
            let _ = with(&text, &[], &[]);
        }
    }
}
