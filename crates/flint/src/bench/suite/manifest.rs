//! A workload: the `bench.json` beside its functions, in the format of functions/README.md. Adding a workload
//! needs no Rust.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::expect::Rule;

/// The back ends' values, by back end and key.
pub(super) type Values = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Manifest {
    pub(super) name: String,
    pub(super) suite: String,
    #[serde(default)]
    pub(super) build: Vec<String>,
    #[serde(default)]
    pub(super) back_ends: Vec<String>,
    #[serde(default)]
    pub(super) seed: Vec<String>,
    pub(super) variants: Vec<Variant>,
    sizes: BTreeMap<String, Sized>,
    #[serde(default)]
    oracle: Option<Oracle>,
    #[serde(default)]
    warmup: Option<Warmup>,
    /// How it is told to take a certain time.
    #[serde(default)]
    pub(super) duration: Option<Told>,
    /// Server settings that it needs, `key=value`.
    #[serde(default)]
    pub(super) server: Vec<String>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
    /// A time in its responses that the function has measured.
    #[serde(default)]
    pub(super) says: Option<Says>,
    /// The selected named input, instead of that of the size.
    #[serde(skip)]
    input: Option<String>,
    #[serde(skip)]
    pub(super) folder: PathBuf,
}

/// A time in ms within responses.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Says {
    /// Its JSON pointer.
    pub(super) at: String,
}

/// The workload in one language.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) entry: String,
    pub(super) functions: Vec<Deployed>,
    #[serde(default)]
    pub(super) sequences: BTreeMap<String, Vec<String>>,
}

/// A function of the workload.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Deployed {
    pub(super) name: String,
    pub(super) code: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) main: Option<String>,
    #[serde(default)]
    pub(super) contract: Option<String>,
    #[serde(default)]
    pub(super) memory_mb: Option<u64>,
    #[serde(default)]
    pub(super) timeout_s: Option<u64>,
    #[serde(default)]
    pub(super) network: Option<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// The arguments of warm-up calls.
    #[serde(default)]
    warmup: Vec<Value>,
    /// Called by its own warm-up, before which it has to exist.
    #[serde(default)]
    pub(super) calls_itself: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct Sized {
    params: Value,
    #[serde(default)]
    expect: BTreeMap<String, Rule>,
    #[serde(default)]
    entry: Option<String>,
    #[serde(default)]
    crowd: Option<Crowd>,
}

/// Concurrent callers, each with this number of calls, one after the other.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Crowd {
    pub(super) callers: usize,
    pub(super) calls: usize,
}

#[derive(Clone, Debug, Deserialize)]
struct Oracle {
    program: Vec<String>,
}

/// A workload that takes a given time, in ms.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Told {
    /// The parameter.
    pub(super) param: String,
    /// Where the response repeats it.
    pub(super) answer: String,
}

/// Functions sleep by clocks that tick in milliseconds, and Node.js rounds its timers down.
const CLOCK: Duration = Duration::from_millis(2);

impl Told {
    fn told_by(&self, params: &Value) -> Option<Duration> {
        let told = params.get(&self.param)?;
        let ms = told.as_u64().or_else(|| told.as_str()?.parse().ok())?;
        Some(Duration::from_millis(ms))
    }

    /// Verifies that the response to a call told `ms` repeats that, and took as long.
    pub(super) fn verify(&self, ms: u64, body: &[u8], took: Duration) -> Result<(), String> {
        not_before(Duration::from_millis(ms), took)?;
        let said: Value = serde_json::from_slice(body).map_err(|error| format!("it is not JSON: {error}"))?;
        match said.pointer(&self.answer).and_then(Value::as_u64) == Some(ms) {
            true => Ok(()),
            false => Err(format!("{} is not {ms}", self.answer)),
        }
    }
}

/// Refuses a response that came earlier than the time told, whatever it says.
fn not_before(told: Duration, took: Duration) -> Result<(), String> {
    match took.saturating_add(CLOCK) >= told {
        true => Ok(()),
        false => Err(format!(
            "it was told to take {} ms and was there after {:.1}",
            told.as_millis(),
            took.as_secs_f64() * 1e3
        )),
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Warmup {
    size: String,
}

/// Folders with packages, not workloads.
const FOREIGN: [&str; 5] = ["node_modules", "virtualenv", "build", "target", ".git"];

/// All workloads below `functions`; an unreadable one is an error that names it.
pub(super) fn all(functions: &Path) -> anyhow::Result<Vec<Manifest>> {
    let (mut found, mut folders) = (Vec::new(), vec![(functions.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        let path = folder.join("bench.json");
        if path.is_file() {
            found.push(Manifest::read(&path)?);
        }
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?.flatten()
        {
            let foreign = FOREIGN.iter().any(|name| entry.file_name() == *name);
            if depth < 3 && !foreign && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    found.sort_by(|a, b| (&a.suite, &a.name).cmp(&(&b.suite, &b.name)));
    Ok(found)
}

/// The folder of the workloads, if run within Flint's repository.
pub(in crate::bench) fn functions() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("finding the current directory")?;
    here.ancestors()
        .map(|folder| folder.join("functions"))
        .find(|folder| folder.is_dir())
        .context("the workloads are in Flint's repository: run the benchmark there, or name their folder with --set functions=DIR")
}

impl Manifest {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let mut manifest: Self = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is not a workload", path.display()))?;
        manifest.folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        for variant in &manifest.variants {
            let known = variant.functions.iter().any(|function| function.name == variant.entry)
                || variant.sequences.contains_key(&variant.entry);
            ensure!(known, "{}: the entry {} is none of its functions", path.display(), variant.entry);
        }
        Ok(manifest)
    }

    /// The folder of that name in the workload's folder or its nearest ancestor that has one.
    pub(super) fn beside(&self, name: &str) -> Option<PathBuf> {
        self.folder.ancestors().map(|folder| folder.join(name)).find(|folder| folder.is_dir())
    }

    /// Its title in reports.
    pub(super) fn title(&self, variant: &Variant) -> String {
        match &self.input {
            None => format!("{} {}", self.name, variant.name),
            Some(input) => format!("{}:{input} {}", self.name, variant.name),
        }
    }

    /// Its named inputs, besides those of the sizes that every workload has.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &str> {
        self.sizes.keys().map(String::as_str).filter(|name| !["test", "small", "large"].contains(name))
    }

    /// The workload with one of these.
    pub(super) fn with_input(&self, name: &str) -> Self {
        Self { input: Some(name.to_owned()), ..self.clone() }
    }

    fn size(&self, size: &str) -> anyhow::Result<&Sized> {
        let size = self.input.as_deref().unwrap_or(size);
        self.sizes.get(size).with_context(|| format!("{} has no size {size}", self.name))
    }

    /// The called function: the variant's entry, unless the size has one of its own.
    pub(super) fn entry<'a>(&'a self, variant: &'a Variant, size: &str) -> anyhow::Result<&'a str> {
        Ok(self.size(size)?.entry.as_deref().unwrap_or(&variant.entry))
    }

    /// The number of concurrent callers, if the workload is about that.
    pub(super) fn crowd(&self, size: &str) -> Option<Crowd> {
        self.size(size).ok()?.crowd
    }

    /// The arguments of a call.
    pub(super) fn params(&self, size: &str, values: &Values) -> anyhow::Result<Value> {
        self.filled(&self.size(size)?.params, values)
    }

    /// The arguments of warm-up calls of one of its functions. The entry has its own, or else those of the
    /// workload's warm-up or of the measured call; other functions have their own.
    pub(super) fn events(
        &self,
        function: &Deployed,
        is_entry: bool,
        size: &str,
        values: &Values,
    ) -> anyhow::Result<Vec<Value>> {
        if is_entry && function.warmup.is_empty() {
            let of = self.warmup.as_ref().map_or(size, |warmup| &warmup.size);
            return Ok(vec![self.params(of, values)?]);
        }
        ensure!(
            !function.warmup.is_empty(),
            "{} is called by others, and {} does not say with what it is to be warmed up",
            function.name,
            self.folder.join("bench.json").display()
        );
        function.warmup.iter().map(|params| self.filled(params, values)).collect()
    }

    /// Replaces `{"$file": …}` by the file's bytes in base64, and `${back-end.key}` by the back end's value.
    fn filled(&self, value: &Value, values: &Values) -> anyhow::Result<Value> {
        Ok(match value {
            Value::Object(fields) => match fields.get("$file").and_then(Value::as_str) {
                Some(file) if fields.len() == 1 => {
                    let path = self.folder.join(file);
                    let bytes = fs::read(&path).with_context(|| {
                        format!("reading {}: the workload's build makes its inputs", path.display())
                    })?;
                    Value::String(BASE64.encode(bytes))
                }
                _ => Value::Object(
                    fields
                        .iter()
                        .map(|(key, field)| Ok((key.clone(), self.filled(field, values)?)))
                        .collect::<anyhow::Result<Map<_, _>>>()?,
                ),
            },
            Value::Array(items) => Value::Array(
                items.iter().map(|item| self.filled(item, values)).collect::<anyhow::Result<_>>()?,
            ),
            Value::String(text) => Value::String(substitute(text, values)?),
            other => other.clone(),
        })
    }

    /// Verifies a response's body at this size. `took` is the time from sending the request to the end of its
    /// response, by the caller's clock.
    pub(super) fn verify(&self, size: &str, body: &[u8], took: Duration) -> Result<(), String> {
        let size = self.size(size).map_err(|error| error.to_string())?;
        self.took_its_time(size, None, took)?;
        let answer = match size.expect.get("").is_some_and(|rule| rule.encoding.is_some()) {
            true => Value::String(BASE64.encode(body)),
            false => serde_json::from_slice(body).map_err(|error| format!("it is not JSON: {error}"))?,
        };
        for (pointer, rule) in &size.expect {
            rule.broken_by(answer.pointer(pointer)).map_or(Ok(()), |why| {
                Err(format!("{}: {why}", if pointer.is_empty() { "it" } else { pointer }))
            })?;
        }
        Ok(())
    }

    /// Verifies that a call took the time it was told: `ms`, or else that of all calls of this size.
    pub(super) fn in_time(&self, size: &str, ms: Option<u64>, took: Duration) -> Result<(), String> {
        self.took_its_time(self.size(size).map_err(|error| error.to_string())?, ms, took)
    }

    fn took_its_time(&self, size: &Sized, ms: Option<u64>, took: Duration) -> Result<(), String> {
        let Some(told) = &self.duration else { return Ok(()) };
        let told = ms.map(Duration::from_millis).or_else(|| told.told_by(&size.params));
        told.map_or(Ok(()), |told| not_before(told, took))
    }

    /// A time in a response that the function has measured, in µs.
    pub(super) fn said(&self, body: &[u8]) -> Option<f64> {
        let says = self.says.as_ref()?;
        let answer: Value = serde_json::from_slice(body).ok()?;
        Some(answer.pointer(&says.at)?.as_f64()? * 1e3)
    }

    pub(super) const fn has_oracle(&self) -> bool {
        self.oracle.is_some()
    }

    /// Verifies a response by the workload's own program, if it has one.
    pub(super) fn ask_oracle(
        &self,
        size: &str,
        params: &Value,
        body: &[u8],
        values: &Values,
    ) -> anyhow::Result<()> {
        let Some(oracle) = &self.oracle else { return Ok(()) };
        let answer: Value =
            serde_json::from_slice(body).unwrap_or_else(|_| Value::String(BASE64.encode(body)));
        let size = self.input.as_deref().unwrap_or(size);
        let asked = serde_json::json!({ "size": size, "params": params, "answer": answer });
        super::back_ends::run(
            &self.folder,
            &oracle.program,
            values,
            &[("SIZE", size)],
            Some(asked.to_string().as_bytes()),
        )
        .with_context(|| format!("the oracle of {}", self.name))
    }
}

/// Replaces variables by the back ends' values.
pub(super) fn substitute(text: &str, values: &Values) -> anyhow::Result<String> {
    let (mut rest, mut out) = (text, String::new());
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else {
            bail!("'{text}' has a ${{ that does not end")
        };
        let value = name.split_once('.').and_then(|(back_end, key)| values.get(back_end)?.get(key));
        out.push_str(before);
        out.push_str(value.with_context(|| format!("no back end says {name}"))?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;

    fn manifest(folder: &Path, text: &Value) -> anyhow::Result<Manifest> {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("bench.json"), text.to_string()).unwrap();
        Manifest::read(&folder.join("bench.json"))
    }

    fn example() -> Value {
        json!({
            "name": "resize", "suite": "s", "about": "", "source": "", "back_ends": ["s3"],
            "variants": [{ "name": "node", "entry": "resize-node",
                "functions": [{ "name": "resize-node", "code": "index.js", "kind": "nodejs" }] }],
            "sizes": {
                "test": { "params": { "img": { "$file": "in.bin" }, "url": "${s3.url}/x", "n": [1] },
                          "expect": { "/n": { "equals": 1.0 }, "/late": { "absent": true } } },
                "raw": { "params": {}, "entry": "other", "expect": { "": { "length": 4, "encoding": "base64" } } }
            },
            "warmup": { "size": "raw", "calls": 3 }
        })
    }

    #[test]
    fn params_are_filled_and_answers_judged() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("s/resize");
        let manifest = manifest(&folder, &example()).unwrap();
        fs::write(folder.join("in.bin"), b"abc").unwrap();
        let values = Values::from([("s3".into(), BTreeMap::from([("url".into(), "http://x".into())]))]);
        let params = manifest.params("test", &values).unwrap();
        assert_eq!(params, json!({ "img": "YWJj", "url": "http://x/x", "n": [1] }));
        assert!(
            manifest
                .params("test", &Values::new())
                .unwrap_err()
                .to_string()
                .contains("no back end says s3.url")
        );
        assert_eq!(manifest.verify("test", br#"{"n":1}"#, AT_ONCE), Ok(()));
        assert_eq!(manifest.verify("test", br#"{"n":2}"#, AT_ONCE).unwrap_err(), "/n: 2 is not 1.0");
        assert!(manifest.verify("test", b"<html>", AT_ONCE).unwrap_err().contains("not JSON"));
        assert_eq!(manifest.verify("raw", b"\xff\xfe", AT_ONCE), Ok(()));
        let variant = &manifest.variants[0];
        assert_eq!(
            (manifest.entry(variant, "test").unwrap(), manifest.entry(variant, "raw").unwrap()),
            ("resize-node", "other")
        );
        assert_eq!(all(scratch.path()).unwrap().len(), 1);
    }

    #[test]
    fn every_function_of_a_chain_has_warm_up_events_of_its_own() {
        let scratch = tempfile::tempdir().unwrap();
        let mut chain = example();
        chain["variants"][0]["functions"] = json!([
            { "name": "back", "code": "back.js", "kind": "nodejs", "warmup": [{ "n": 1 }, { "url": "${s3.url}" }] },
            { "name": "resize-node", "code": "index.js", "kind": "nodejs" },
            { "name": "cold", "code": "cold.js", "kind": "nodejs" },
        ]);
        let chain = manifest(scratch.path(), &chain).unwrap();
        let values = Values::from([("s3".into(), BTreeMap::from([("url".into(), "http://x".into())]))]);
        let events = |at: usize, is_entry| {
            let function = &chain.variants[0].functions[at];
            chain.events(function, is_entry, "test", &values).map_err(|error| error.to_string())
        };
        assert_eq!(events(0, false).unwrap(), [json!({ "n": 1 }), json!({ "url": "http://x" })]);
        // The workload's own warm-up is for the entry.
        assert_eq!(events(1, true).unwrap(), [json!({})]);
        assert!(events(2, false).unwrap_err().starts_with("cold is called by others, and "));
    }

    #[test]
    fn what_is_told_to_take_its_time_has_taken_it() {
        let scratch = tempfile::tempdir().unwrap();
        let mut sleep = example();
        sleep["sizes"] =
            json!({ "test": { "params": { "time": "100" }, "expect": { "/slept": { "equals": 100 } } } });
        sleep["duration"] = json!({ "param": "time", "answer": "/slept" });
        let sleep = manifest(scratch.path(), &sleep).unwrap();
        let ms = Duration::from_millis;
        let (right, told) = (br#"{"slept":100}"#, sleep.duration.as_ref().unwrap());
        assert_eq!(
            sleep.verify("test", right, ms(3)).unwrap_err(),
            "it was told to take 100 ms and was there after 3.0"
        );
        assert!(told.verify(100, right, ms(3)).is_err() && told.verify(99, right, ms(100)).is_err());
        for took in [ms(99), ms(100), ms(5000)] {
            assert_eq!(sleep.in_time("test", None, took), Ok(()));
            assert!(sleep.in_time("test", Some(6000), took).is_err());
            assert_eq!((sleep.verify("test", right, took), told.verify(100, right, took)), (Ok(()), Ok(())));
        }
    }

    #[test]
    fn a_manifest_that_is_none_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let mut wrong = example();
        wrong["variants"][0]["entry"] = "nobody".into();
        let error = manifest(scratch.path(), &wrong).unwrap_err().to_string();
        assert!(error.contains("bench.json: the entry nobody is none of its functions"), "{error}");
        assert!(manifest(scratch.path(), &json!({ "name": "x" })).is_err());
    }
}
