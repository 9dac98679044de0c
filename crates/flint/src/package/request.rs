//! Builds a deploy request from a path and the user's options.

use std::{fs, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use flint_api_native::resource::{
    CodeUpload, DeployRequest, LimitsPatch, ParameterResource, SnapshotRequest, WasmResource,
};
use flint_model::{CodeFormat, SecretBinding};
use serde_json::Value;

use super::{
    archive,
    contents::{self, cannot_read, is_executable},
    kind::{self, Guess},
    manifest::Manifest,
    warmup,
};
use crate::{
    cli::FunctionArgs,
    failure::Failure,
    toolchain::{self, Job, Language},
};

/// A package to deploy.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    /// The function's name.
    pub(crate) name: String,
    pub(crate) request: DeployRequest,
    /// Size of the code in bytes.
    pub(crate) size: usize,
    /// Remarks for the user.
    pub(crate) notes: Vec<String>,
}

/// Packs the file or directory at `path`, building it first if needed; `told` hears what a build is doing.
/// Blocks.
pub(crate) fn package(path: &Path, args: FunctionArgs, told: &dyn Fn(&str)) -> Result<Package, Failure> {
    let meta = fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
    if !meta.is_dir() && !meta.is_file() {
        // A pipe without a writer never ends, nor do some devices.
        return Err(Failure::usage(format!("{} is neither a file nor a directory", path.display()))
            .hint("write the code to a file, and deploy that"));
    }
    let (code, guess, args, notes) = match (meta.is_dir(), toolchain::of_file(path, &args)) {
        (true, _) => directory(path, args, told)?,
        (false, Some(language)) => built(language, path, args, told)?,
        (false, None) => {
            let code = contents::read(path)?;
            let guess = kind::of_file(path, &code, is_executable(&meta))?;
            (code, guess, args, Vec::new())
        }
    };
    if code.is_empty() {
        return Err(Failure::usage(format!("{} is empty", path.display())));
    }
    let Some(kind) = args.kind.clone().or(guess.kind.as_deref().map(str::to_owned)) else {
        return Err(kind::unknown(path, guess.format));
    };
    let name = match &args.name {
        Some(name) => name.clone(),
        None => kind::name_of(path)?,
    };
    let size = code.len();
    Ok(Package { name, request: request(kind, guess, code, args)?, size, notes })
}

type Read = (Vec<u8>, Guess, FunctionArgs, Vec<String>);

fn directory(path: &Path, args: FunctionArgs, told: &dyn Fn(&str)) -> Result<Read, Failure> {
    let args = Manifest::in_directory(path)?.complete(args).map_err(|why| {
        let names = ["flint.json", "flint.toml"].map(|name| path.join(name));
        let name = names.iter().find(|name| name.exists()).unwrap_or(&names[1]);
        Failure::usage(format!("{}: {why}", name.display()))
    })?;
    let contents = contents::of_directory(path)?;
    if contents.entries.is_empty() {
        return Err(Failure::usage(format!("{} has no files to deploy", path.display()))
            .hint("look into its .flintignore, or give another directory"));
    }
    let kind = kind::of_names(contents.entries.iter().map(|entry| entry.name.as_str()));
    if let Some(language) = toolchain::of_directory(path, kind.as_deref(), &args) {
        return built(language, path, args, told);
    }
    let guess = Guess { format: CodeFormat::Zip, kind, contract: None };
    Ok((archive::zip(path, &contents)?, guess, args, contents.notes))
}

/// The module that a project builds. Options about the source are used up by the build.
fn built(language: Language, path: &Path, args: FunctionArgs, told: &dyn Fn(&str)) -> Result<Read, Failure> {
    let within = args.build_timeout.unwrap_or(toolchain::BUILD_TIMEOUT);
    let job = Job { path, main: args.main.as_deref(), within };
    let built = toolchain::build(language, job, told)?;
    let guess = kind::of_file(Path::new("function.wasm"), &built.wasm, false)?;
    Ok((built.wasm, guess, FunctionArgs { kind: None, main: None, ..args }, vec![built.note]))
}

/// The annotation that names a function's secrets, if it has any.
fn secrets(bindings: &[SecretBinding]) -> Option<(String, Value)> {
    let list: Vec<_> = bindings.iter().map(ToString::to_string).collect();
    (!list.is_empty()).then(|| (SecretBinding::ANNOTATION.to_owned(), list.into()))
}

fn request(kind: String, guess: Guess, code: Vec<u8>, args: FunctionArgs) -> Result<DeployRequest, Failure> {
    let code = match (guess.format, String::from_utf8(code)) {
        (CodeFormat::Source, Ok(text)) => CodeUpload { format: guess.format, text: Some(text), base64: None },
        (CodeFormat::Source, Err(error)) => {
            let at = error.utf8_error().valid_up_to();
            return Err(Failure::usage(format!("the source is not UTF-8: byte {at} cannot be read"))
                .hint("save the file as UTF-8"));
        }
        (format, Ok(text)) => CodeUpload { format, text: None, base64: Some(STANDARD.encode(text)) },
        (format, Err(error)) => {
            CodeUpload { format, text: None, base64: Some(STANDARD.encode(error.as_bytes())) }
        }
    };
    let parameter = |init: bool| move |(key, value): (String, Value)| ParameterResource { key, value, init };
    Ok(DeployRequest {
        kind: Some(kind),
        main: args.main,
        code: Some(code),
        contract: args.contract.or(guess.contract),
        isolation: args.isolation,
        start: args.start,
        reuse: args.reuse,
        snapshot: SnapshotRequest {
            warmup: warmup::events(&args.warmup, args.warmup_list.as_deref())?,
            warmup_network: args.warmup_network,
            annotate: args.no_annotate.then_some(false),
            jit: args.jit,
        },
        wasm: WasmResource {
            allow_hosts: args.allow_hosts,
            keyvalue: args.keyvalue,
            config: args.wasm_config.into_iter().collect(),
            preinit: args.no_preinit.then_some(false),
        },
        network: args.network,
        limits: LimitsPatch {
            timeout_ms: args.timeout.map(|timeout| timeout.as_millis() as u64),
            memory_mb: args.memory,
            logs_mb: args.logs,
            concurrency: args.concurrency,
            cpu_millis: args.cpu,
            ..LimitsPatch::default()
        },
        retry: args.retry.resource(),
        parameters: args
            .params
            .into_iter()
            .map(parameter(false))
            .chain(args.init_params.into_iter().map(parameter(true)))
            .collect(),
        annotations: args.annotations.into_iter().chain(secrets(&args.secrets)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(name: &str, content: &[u8], args: FunctionArgs) -> Result<Package, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        package(&path, args, &|_| {})
    }

    #[test]
    fn a_source_file_travels_as_text_and_a_binary_as_base64() {
        let package = packed("hello.js", b"exports.main = () => 1", FunctionArgs::default()).unwrap();
        assert_eq!(
            (package.name.as_str(), package.request.kind.as_deref()),
            ("hello", Some("nodejs:default"))
        );
        assert_eq!(package.request.code.unwrap().text.as_deref(), Some("exports.main = () => 1"));
        let package =
            packed("Hello.jar", b"PK..", FunctionArgs { kind: Some("java".into()), ..Default::default() })
                .unwrap();
        assert_eq!(package.request.kind.as_deref(), Some("java"));
        assert_eq!(package.request.code.unwrap().base64.as_deref(), Some("UEsuLg=="));
    }

    #[test]
    fn what_cannot_be_deployed_is_refused_with_the_cause() {
        let message = |result: Result<Package, Failure>| result.unwrap_err().message;
        assert!(message(packed("a.js", b"", FunctionArgs::default())).ends_with("is empty"));
        assert!(message(packed("a.py", b"\xff\xfe", FunctionArgs::default())).contains("not UTF-8"));
        assert!(
            message(package(Path::new("/nowhere/a.js"), FunctionArgs::default(), &|_| {}))
                .contains("/nowhere/a.js")
        );
        let zero = message(package(Path::new("/dev/zero"), FunctionArgs::default(), &|_| {}));
        assert!(zero.contains("neither a file"), "{zero}");
        let dir = tempfile::tempdir().unwrap();
        assert!(message(package(dir.path(), FunctionArgs::default(), &|_| {})).contains("no files"));
        fs::write(dir.path().join("data.bin"), "x").unwrap();
        assert!(message(package(dir.path(), FunctionArgs::default(), &|_| {})).contains("which runtime"));
        fs::write(dir.path().join("flint.toml"), "kind = 'python'\nname = 'x'").unwrap();
        assert_eq!(
            package(dir.path(), FunctionArgs::default(), &|_| {}).unwrap().request.kind.as_deref(),
            Some("python")
        );
        fs::remove_file(dir.path().join("flint.toml")).unwrap();
        fs::write(dir.path().join("flint.json"), r#"{"limits": {"timeout": "soon"}}"#).unwrap();
        let why = message(package(dir.path(), FunctionArgs::default(), &|_| {}));
        assert!(why.contains("flint.json: limits.timeout: 'soon'"), "{why}");
    }
}
