//! JavaScript: componentize-qjs (QuickJS), or componentize-js (StarlingMonkey) if installed beside the
//! handler. Either puts the engine and the loaded handler into a component.

mod asynchronous;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use asynchronous::{Asynchrony, asynchrony};

use super::{
    Job, Output, find,
    handler::{self, WIT, WORLD},
    missing,
    run::Runner,
};
use crate::failure::Failure;

const GLUE: &str = include_str!("glue/command.js");
const HOST: &str = include_str!("glue/host.js");
/// The glue files: QuickJS with an event loop, QuickJS without, and StarlingMonkey with its own.
const LOOP: &[(&str, &str)] = &[
    ("flint-engine.js", include_str!("glue/quickjs.js")),
    ("flint-loop.js", include_str!("glue/loop.js")),
    ("flint-promise.js", include_str!("glue/promise.js")),
    ("flint-async.js", include_str!("glue/async.js")),
];
const STILL: &[(&str, &str)] = &[("flint-engine.js", include_str!("glue/still.js"))];
const STARLINGMONKEY: &[(&str, &str)] = &[("flint-engine.js", include_str!("glue/starling.js"))];
/// `WORLD` with the imports of the event loop.
const WAITING_WORLD: &str = "waiting-handler";
/// Translates all code that waits to the global Promise, which belongs to the event loop.
const TRANSLATE: &[&str] =
    &["--supported:async-await=false", "--supported:async-generator=false", "--supported:for-await=false"];
/// A bug of esbuild (0.28 at least) in asynchronous generators that are left early, and its correction: the
/// first `await` in a `finally` ended the generator, because it was told to return once more. Only values
/// from `yield*` are to be passed on.
const LEFT_EARLY: (&str, &str) = (r#"k === "return" ? k : "next""#, r#"k === "return" && v[1] ? k : "next""#);
/// A handler that esbuild has translated, or that was not an ES module.
const FUNCTION: &str = "flint-function.js";
/// The tested versions.
const INSTALL: &str =
    "npm install --save-dev componentize-qjs@0.4.5 esbuild (beside the handler, or with -g for every one)";
const INSTALL_ESBUILD: &str = "npm install --save-dev esbuild";

/// The tool that puts JavaScript into a component.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Engine {
    /// Small and quick to build. The glue provides its event loop.
    QuickJs(PathBuf),
    /// Has an event loop and the web's APIs.
    StarlingMonkey(PathBuf),
}

impl Engine {
    /// The more capable one if installed beside the handler, otherwise the available one.
    fn find(beside: &[PathBuf]) -> Option<Self> {
        let (small, large) = ("componentize-qjs", "componentize-js");
        find::beside(large, beside)
            .map(Self::StarlingMonkey)
            .or_else(|| find::program(small, beside).map(Self::QuickJs))
            .or_else(|| find::program(large, &[]).map(Self::StarlingMonkey))
    }

    fn command(&self, world: &str, glue: &Path, wit: &Path, root: &Path, file: &Path) -> Command {
        match self {
            Self::QuickJs(tool) => {
                let mut command = Command::new(tool);
                // Few hosts support the component model's asynchrony: the synchronous runtime runs on all.
                command.args(["--sync", "--world", world]).arg("--wit").arg(wit).arg("--js").arg(glue);
                command.arg("--module-root").arg(root).arg("-o").arg(file);
                command
            }
            Self::StarlingMonkey(tool) => {
                let mut command = Command::new(tool);
                command
                    .arg(glue)
                    .arg("--wit")
                    .arg(wit)
                    .args(["-n", world, "-d", "fetch-event", "-o"])
                    .arg(file);
                command
            }
        }
    }

    /// The glue around a handler, and the WIT world that it needs.
    fn glue(&self, asynchrony: &Asynchrony) -> (&'static [(&'static str, &'static str)], &'static str) {
        match (self, asynchrony) {
            (Self::StarlingMonkey(_), _) => (STARLINGMONKEY, WORLD),
            (Self::QuickJs(_), Asynchrony::None) => (STILL, WORLD),
            (Self::QuickJs(_), _) => (LOOP, WAITING_WORLD),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::QuickJs(_) => "componentize-qjs",
            Self::StarlingMonkey(_) => "componentize-js",
        }
    }
}

pub(super) fn build(job: Job<'_>, runner: &Runner<'_>, scratch: &Path) -> Result<Output, Failure> {
    let beside = find::upwards(find::directory_of(job.path), &["node_modules/.bin"]);
    let Some(engine) = Engine::find(&beside) else {
        return Err(missing(
            job,
            "there is no componentize-qjs, which puts JavaScript into WebAssembly",
            INSTALL,
        ));
    };
    let root = scratch.join("project");
    let entry = entry(job.path)?;
    let asynchrony = asynchrony(&entry);
    let esbuild = find::program("esbuild", &beside);
    let function = place(job, runner, (&engine, &asynchrony), esbuild, &entry, &root)?;
    let (around, world) = engine.glue(&asynchrony);
    let large = matches!(engine, Engine::StarlingMonkey(_)).to_string();
    handler::write(&root, "flint-host.js", &HOST.replace("@BIGINT@", &large))?;
    for (name, text) in around {
        handler::write(&root, name, text)?;
    }
    // As a string literal, whatever the file's name.
    let function = serde_json::Value::String(function).to_string();
    let glue = GLUE.replace("'@FUNCTION@'", &function).replace("@MAIN@", &handler::names(job)?);
    let glue = handler::write(&root, "flint-command.js", &glue)?;
    let wit = handler::write(scratch, "command.wit", WIT)?;
    let file = scratch.join("function.wasm");
    runner.run(engine.command(world, &glue, &wit, &root, &file).current_dir(&root))?;
    Ok(Output { file, with: engine.name().to_owned() })
}

/// Puts the handler into `root` in the form the engine accepts; returns the name to import it by.
fn place(
    job: Job<'_>,
    runner: &Runner<'_>,
    (engine, asynchrony): (&Engine, &Asynchrony),
    esbuild: Option<PathBuf>,
    entry: &Path,
    root: &Path,
) -> Result<String, Failure> {
    let text = fs::read_to_string(entry)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", entry.display())))?;
    let form = form(entry, &text);
    let bundled = match (engine, asynchrony, form) {
        (_, _, Form::Requiring) | (Engine::QuickJs(_), Asynchrony::Certain(_), _) => true,
        (Engine::QuickJs(_), Asynchrony::Possible, _) => esbuild.is_some(),
        _ => false,
    };
    if !bundled && form == Form::Module {
        handler::copy(job.path, root, &tools(job.path))?;
        let inside = entry.strip_prefix(find::directory_of(job.path)).unwrap_or(entry);
        return Ok(format!("./{}", inside.display()));
    }
    fs::create_dir_all(root).map_err(|error| super::cannot_write(root, &error))?;
    match esbuild {
        Some(esbuild) if bundled => bundle(runner, &esbuild, engine, entry, &root.join(FUNCTION))?,
        None if bundled => return Err(without_esbuild(job, entry, (engine, asynchrony))),
        _ => drop(handler::write(root, FUNCTION, &wrapped(&text))?),
    }
    Ok(format!("./{FUNCTION}"))
}

/// The parts of `node_modules` that are not the handler's: npm's `dev` packages, such as build tools.
fn tools(path: &Path) -> Vec<String> {
    #[derive(Default, Deserialize)]
    struct Lock {
        #[serde(default)]
        packages: BTreeMap<String, Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        #[serde(default)]
        dev: bool,
    }
    let lock = fs::read(path.join("node_modules/.package-lock.json")).unwrap_or_default();
    let lock: Lock = serde_json::from_slice(&lock).unwrap_or_default();
    let dev = lock.packages.into_iter().filter(|(_, package)| package.dev).map(|(name, _)| name);
    dev.chain(["node_modules/.bin".to_owned()]).collect()
}

/// The handler's file.
fn entry(path: &Path) -> Result<PathBuf, Failure> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let named = fs::read_to_string(path.join("package.json")).ok().and_then(|text| {
        let package: serde_json::Value = serde_json::from_str(&text).ok()?;
        Some(package.get("main")?.as_str()?.to_owned())
    });
    let names = named.iter().map(String::as_str).chain(["index.js", "index.mjs", "index.cjs"]);
    names.map(|name| path.join(name)).find(|file| file.is_file()).ok_or_else(|| {
        Failure::usage(format!(
            "{} has no file that main in its package.json names, and no index.js",
            path.display()
        ))
    })
}

/// QuickJS only loads ES modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// An ES module.
    Module,
    /// A CommonJS module that requires no other.
    Alone,
    /// A CommonJS module that requires others.
    Requiring,
}

/// By the extension, otherwise by the code: CommonJS has CommonJS exports and no ES module syntax.
fn form(entry: &Path, text: &str) -> Form {
    let says = |words: &[&str]| {
        text.lines().any(|line| words.iter().any(|word| line.trim_start().starts_with(word)))
    };
    let commonjs = match entry.extension().and_then(|extension| extension.to_str()) {
        Some("mjs") => false,
        Some("cjs") => true,
        _ => {
            !says(&["export ", "export{", "import "])
                && ["exports", "require("].iter().any(|word| text.contains(word))
        }
    };
    match (commonjs, text.contains("require(")) {
        (false, _) => Form::Module,
        (true, false) => Form::Alone,
        (true, true) => Form::Requiring,
    }
}

/// Wraps a CommonJS module without requires as an ES module, keeping its line numbers.
fn wrapped(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let begin = "const module = { exports: {} }; (function (exports, module) { ";
    format!(
        "{begin}{text}\n}}).call(module.exports, module.exports, module);\nexport default module.exports;\n"
    )
}

/// Bundles the handler and everything it requires into one ES module for the engine.
fn bundle(
    runner: &Runner<'_>,
    esbuild: &Path,
    engine: &Engine,
    entry: &Path,
    into: &Path,
) -> Result<(), Failure> {
    let mut command = Command::new(esbuild);
    command.arg(entry).args(["--bundle", "--format=esm", "--platform=neutral", "--external:wasi:*"]);
    command.args(["--main-fields=module,main", "--log-level=warning"]);
    if let Engine::QuickJs(_) = engine {
        command.args(TRANSLATE);
    }
    command.arg(format!("--outfile={}", into.display()));
    runner.run(&mut command)?;
    let made = fs::read_to_string(into)
        .map_err(|error| Failure::local(format!("cannot read {}: {error}", into.display())))?;
    let made = made.replacen(LEFT_EARLY.0, LEFT_EARLY.1, 1);
    fs::write(into, made).map_err(|error| super::cannot_write(into, &error))
}

fn without_esbuild(job: Job<'_>, entry: &Path, (engine, asynchrony): (&Engine, &Asynchrony)) -> Failure {
    let (what, instead) = match (engine, asynchrony) {
        (Engine::QuickJs(_), Asynchrony::Certain(file)) => (
            format!(
                "{} is asynchronous, and there is no esbuild to translate that for QuickJS",
                file.display()
            ),
            "use promises without `async`, `await` and `import()`",
        ),
        _ => (
            format!(
                "{} requires other CommonJS modules, and there is no esbuild to make one ES module of them",
                entry.display()
            ),
            "write `import` and `export` instead of `require` and `exports`",
        ),
    };
    missing(job, &what, &format!("{INSTALL_ESBUILD}, or {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_told_apart() {
        let form = |name: &str, text: &str| form(Path::new(name), text);
        assert_eq!(form("a.js", "const x = require('x');\nexports.main = () => 1;\n"), Form::Requiring);
        assert_eq!(form("a.js", "module.exports = { main }"), Form::Alone);
        assert_eq!(form("a.cjs", "export const x = 1"), Form::Alone);
        assert_eq!(form("a.js", "export function main() { return 'exports' }"), Form::Module);
        assert_eq!(form("a.mjs", "exports.main = 1"), Form::Module);
        assert_eq!(form("a.js", "  import x from './x.js';\nexports"), Form::Module);
    }

    #[test]
    fn the_engine_that_can_do_more_is_taken_where_it_is_beside_the_handler() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("node_modules/.bin");
        fs::create_dir_all(&bin).unwrap();
        let tool = |name: &str| {
            fs::write(bin.join(name), "").unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
            bin.join(name)
        };
        let beside = [bin.clone()];
        let small = tool("componentize-qjs");
        assert_eq!(Engine::find(&beside), Some(Engine::QuickJs(small)));
        let large = tool("componentize-js");
        assert_eq!(Engine::find(&beside), Some(Engine::StarlingMonkey(large)));
    }

    #[test]
    fn tools_are_not_part_of_the_function() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(tools(dir.path()), ["node_modules/.bin"]);
        fs::create_dir(dir.path().join("node_modules")).unwrap();
        let lock =
            r#"{"packages": {"node_modules/esbuild": {"dev": true}, "node_modules/used": {"version": "1"}}}"#;
        fs::write(dir.path().join("node_modules/.package-lock.json"), lock).unwrap();
        assert_eq!(tools(dir.path()), ["node_modules/esbuild", "node_modules/.bin"]);
    }

    #[test]
    fn the_entry_is_what_the_package_says() {
        let dir = tempfile::tempdir().unwrap();
        assert!(entry(dir.path()).is_err());
        fs::write(dir.path().join("index.mjs"), "").unwrap();
        assert_eq!(entry(dir.path()).unwrap(), dir.path().join("index.mjs"));
        fs::write(dir.path().join("package.json"), r#"{"main": "fn.js"}"#).unwrap();
        fs::write(dir.path().join("fn.js"), "").unwrap();
        assert_eq!(entry(dir.path()).unwrap(), dir.path().join("fn.js"));
    }
}
