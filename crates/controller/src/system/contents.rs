//! The built-in packages, made from files embedded in the binary.

use std::collections::BTreeMap;

use flint_executor::RuntimeKind;
use flint_model::{
    Annotations, ByteSize, Code, CodeFormat, Contract, EntityName, Function, FunctionPath, Isolation, Kind,
    NameError, NamespaceName, Network, Package, Parameters, Reuse, SnapshotOptions, Start, Strategy,
    StrategyRequest, Timestamp, Version, WasmOptions,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::NAMESPACE;
use crate::{ControllerError, address::address, built_in, kinds};

/// The functions by package and name.
const MANIFEST: &str = include_str!("../../../../functions/system/manifest.json");

/// The runtime of all functions with code.
const RUNTIME: &str = "nodejs:default";

macro_rules! code {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../functions/system/", $path)))),*]
    };
}

/// Code by its path in the manifest.
const CODE: &[(&str, &str)] = code![
    "samples/curl.js",
    "samples/greeting.js",
    "samples/helloWorld.js",
    "samples/wordCount.js",
    "utils/cat.js",
    "utils/date.js",
    "utils/echo.js",
    "utils/head.js",
    "utils/hosturl.js",
    "utils/namespace.js",
    "utils/smash.js",
    "utils/sort.js",
    "utils/split.js",
];

/// Their `updated` time: a constant, since they are never written.
const UPDATED: Timestamp = Timestamp::from_millis(1_767_225_600_000);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackageItem {
    description: String,
    #[serde(default)]
    annotations: BTreeMap<String, Value>,
    actions: BTreeMap<String, ActionItem>,
}

#[derive(Deserialize)]
struct ActionItem {
    /// Absent for built-in functions.
    code: Option<String>,
    #[serde(default)]
    network: Network,
    /// Annotations.
    #[serde(flatten)]
    annotations: BTreeMap<String, Value>,
}

/// The built-in packages and their functions.
#[derive(Debug)]
pub(crate) struct Contents {
    /// In order of name.
    pub(crate) packages: Vec<Package>,
    /// In order of package and name.
    pub(crate) functions: Vec<Function>,
}

impl Contents {
    /// For a server with these runtimes.
    pub(crate) fn new(runtimes: &[RuntimeKind]) -> Result<Self, ControllerError> {
        let wrong = |error: String| ControllerError::Internal(format!("the system's packages: {error}"));
        let manifest: BTreeMap<String, PackageItem> =
            serde_json::from_str(MANIFEST).map_err(|error| wrong(error.to_string()))?;
        // Without a usable runtime, calls report what is missing, as for users' functions.
        let kind = match kinds::resolve(RUNTIME, runtimes) {
            Ok(runtime) => runtime.kind.clone(),
            Err(_) => RUNTIME.parse().map_err(|error| wrong(format!("{error}")))?,
        };
        let mut contents = Self { packages: Vec::new(), functions: Vec::new() };
        for (name, item) in manifest {
            let made = item.actions.iter().map(|(action, item)| function(&name, action, item, &kind));
            contents.functions.extend(made.collect::<Result<Vec<_>, _>>().map_err(wrong)?);
            contents.packages.push(package(&name, item).map_err(|error| wrong(error.to_string()))?);
        }
        Ok(contents)
    }

    /// The package of that name.
    pub(crate) fn package(&self, name: &EntityName) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == *name)
    }

    /// The functions of a package, or of all.
    pub(crate) fn functions_in<'a>(
        &'a self,
        package: Option<&'a EntityName>,
    ) -> impl Iterator<Item = &'a Function> {
        self.functions
            .iter()
            .filter(move |function| package.is_none() || function.path.package.as_ref() == package)
    }
}

/// The code of a system function; empty if it is built in, `None` for a user's function.
pub(crate) fn code_of(function: &Function) -> Option<&'static str> {
    if function.path.namespace.as_str() != NAMESPACE {
        return None;
    }
    let code = CODE.iter().find(|(_, code)| address(code.as_bytes()) == function.code.digest);
    Some(code.map_or("", |(_, code)| *code))
}

/// Derived from the content, whichever version of the program it came with.
fn revision(of: &impl AsRef<[u8]>) -> u64 {
    let hash = blake3::hash(of.as_ref());
    // Six bytes: JSON readers take larger numbers inexactly.
    hash.as_bytes()[..6].iter().fold(1, |number, byte| number << 8 | u64::from(*byte))
}

fn annotations(of: impl IntoIterator<Item = (String, Value)>) -> Annotations {
    let mut annotations = Annotations::default();
    of.into_iter().for_each(|(key, value)| annotations.set(&key, value));
    annotations
}

fn package(name: &str, item: PackageItem) -> Result<Package, NameError> {
    let description = ("description".to_owned(), json!(item.description));
    Ok(Package {
        namespace: NamespaceName::parse(NAMESPACE)?,
        name: EntityName::parse(name)?,
        version: Version::FIRST,
        revision: 1,
        publish: true,
        annotations: annotations([description].into_iter().chain(item.annotations)),
        parameters: Parameters::default(),
        binding: None,
        updated: UPDATED,
    })
}

fn function(package: &str, name: &str, item: &ActionItem, runtime: &Kind) -> Result<Function, String> {
    let path: FunctionPath =
        format!("{NAMESPACE}/{package}/{name}").parse().map_err(|error: NameError| error.to_string())?;
    let (kind, code, start) = match &item.code {
        Some(file) => {
            let code = CODE.iter().find(|(path, _)| path == file);
            (runtime.clone(), code.ok_or_else(|| format!("{file} is missing"))?.1, Start::Fork)
        }
        None => (built_in::KIND.parse().map_err(|error| format!("{error}"))?, "", Start::Spawn),
    };
    // They never receive a caller's key.
    let no_key = ("provide-api-key".to_owned(), json!(false));
    Ok(Function {
        version: Version::FIRST,
        revision: revision(&format!("{path} {kind} {code}")),
        kind,
        code: Code {
            digest: address(code.as_bytes()),
            size: ByteSize::bytes(code.len() as u64),
            format: CodeFormat::Source,
        },
        main: None,
        image: None,
        contract: Contract::Handler,
        asked: StrategyRequest::default(),
        // The default for this kind; what the host lacks is replaced when it is called.
        strategy: Strategy {
            isolation: Isolation::Process,
            start,
            reuse: Reuse::Warm,
            concurrency: std::num::NonZeroU32::MIN,
        },
        snapshot: SnapshotOptions::default(),
        wasm: WasmOptions::default(),
        network: item.network,
        limits: Default::default(),
        parameters: Parameters::default(),
        annotations: annotations(item.annotations.clone().into_iter().chain([no_key])),
        publish: false,
        restored: None,
        updated: UPDATED,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in::BuiltIn;

    fn contents(state: Result<&str, &str>) -> Contents {
        let runtime = RuntimeKind {
            kind: "nodejs:22".parse().unwrap(),
            default: true,
            requires_main: false,
            state: state.map(str::to_owned).map_err(str::to_owned),
        };
        Contents::new(&[runtime]).unwrap()
    }

    #[test]
    fn every_function_has_code_or_is_built_in() {
        let contents = contents(Ok("found"));
        let names: Vec<_> = contents.packages.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["alarms", "messaging", "samples", "utils"]);
        for function in &contents.functions {
            let code = code_of(function).unwrap();
            assert_eq!(code.is_empty(), BuiltIn::of(function).is_some(), "{}", function.path);
            assert_eq!(function.kind.as_str(), if code.is_empty() { "builtin" } else { "nodejs:22" });
            assert!(function.annotations.get("description").is_some_and(Value::is_string));
            assert_eq!(function.annotations.is_truthy("feed"), code.is_empty(), "{}", function.path);
        }
        let used: Vec<_> =
            contents.functions.iter().filter_map(code_of).filter(|code| !code.is_empty()).collect();
        assert_eq!(used.len(), CODE.len(), "code that no function has");
    }

    #[test]
    fn revisions_tell_contents_apart() {
        let contents = contents(Ok("found"));
        let mut revisions: Vec<_> = contents.functions.iter().map(|function| function.revision).collect();
        revisions.sort_unstable();
        revisions.dedup();
        assert_eq!(revisions.len(), contents.functions.len());
    }

    #[test]
    fn they_are_there_without_their_runtime() {
        assert_eq!(contents(Err("no node: apt-get install nodejs")).functions[4].kind.as_str(), "nodejs:22");
        let none = Contents::new(&[]).unwrap();
        assert_eq!(none.functions[4].kind.as_str(), "nodejs:default");
    }

    #[test]
    fn code_of_users_is_not_taken_for_the_systems() {
        let contents = contents(Ok("found"));
        let mut function = contents.functions[5].clone();
        assert!(code_of(&function).is_some());
        function.path = "guest/f".parse().unwrap();
        assert_eq!(code_of(&function), None);
    }
}
