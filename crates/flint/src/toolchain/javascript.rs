//! JavaScript: componentize-qjs, which puts QuickJS and the started handler into a component.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Job, Output, find,
    handler::{self, WIT, WORLD},
    missing,
    run::Runner,
};
use crate::failure::Failure;

const GLUE: &str = include_str!("glue/command.js");
const HOST: &str = include_str!("glue/host.js");
/// The release that this was tried with.
const INSTALL: &str =
    "npm install --save-dev componentize-qjs@0.4.5 (beside the handler, or with -g for every one)";
/// What npm put beside the handler's own packages.
const TOOLS: &[&str] = &["node_modules/.bin", "node_modules/componentize-qjs", "node_modules/@andreiltd"];

pub(super) fn build(job: Job<'_>, runner: &Runner<'_>, scratch: &Path) -> Result<Output, Failure> {
    let beside = find::upwards(find::directory_of(job.path), &["node_modules/.bin"]);
    let Some(tool) = find::program("componentize-qjs", &beside) else {
        return Err(missing(
            job,
            "there is no componentize-qjs, which puts JavaScript into WebAssembly",
            INSTALL,
        ));
    };
    let root = scratch.join("project");
    let entry = entry(job.path)?;
    let function = match bundler(job, &entry, &beside)? {
        Some(esbuild) => {
            fs::create_dir_all(&root).map_err(|error| super::cannot_write(&root, &error))?;
            bundle(runner, &esbuild, &entry, &root)?
        }
        None => {
            handler::copy(job.path, &root, TOOLS)?;
            let inside = entry.strip_prefix(find::directory_of(job.path)).unwrap_or(&entry);
            format!("./{}", inside.display())
        }
    };
    handler::write(&root, "flint-host.js", HOST)?;
    let glue = GLUE.replace("@FUNCTION@", &function).replace("@MAIN@", &handler::names(job)?);
    let glue = handler::write(&root, "flint-command.js", &glue)?;
    let wit = handler::write(scratch, "command.wit", WIT)?;
    let file = scratch.join("function.wasm");
    let mut command = Command::new(tool);
    // Hosts with the component model's own asynchrony are few: the synchronous runtime runs on all.
    command.args(["--sync", "--world", WORLD]);
    command.arg("--wit").arg(wit).arg("--js").arg(glue).arg("--module-root").arg(&root).arg("-o").arg(&file);
    command.current_dir(&root);
    runner.run(&mut command)?;
    Ok(Output { file, with: "componentize-qjs".to_owned() })
}

/// The file with the handler.
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

/// esbuild, where the code needs it: QuickJS loads ES modules, and nothing else.
fn bundler(job: Job<'_>, entry: &Path, beside: &[PathBuf]) -> Result<Option<PathBuf>, Failure> {
    let text = fs::read_to_string(entry)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", entry.display())))?;
    if !is_commonjs(entry, &text) {
        return Ok(None);
    }
    match find::program("esbuild", beside) {
        Some(esbuild) => Ok(Some(esbuild)),
        None => Err(missing(
            job,
            &format!(
                "{} is a CommonJS module, and there is no esbuild to turn it into an ES module",
                entry.display()
            ),
            "npm install --save-dev esbuild, or write `export function main` instead of `exports.main =`",
        )),
    }
}

/// By the extension, else by what the code says: a module that exports nothing as ES modules do, and something as CommonJS does.
fn is_commonjs(entry: &Path, text: &str) -> bool {
    match entry.extension().and_then(|extension| extension.to_str()) {
        Some("mjs") => false,
        Some("cjs") => true,
        _ => {
            let says = |words: &[&str]| {
                text.lines().any(|line| words.iter().any(|word| line.trim_start().starts_with(word)))
            };
            !says(&["export ", "export{", "import "])
                && ["exports", "require("].iter().any(|word| text.contains(word))
        }
    }
}

/// The handler and all that it requires as one ES module; its name as the glue imports it.
fn bundle(runner: &Runner<'_>, esbuild: &Path, entry: &Path, into: &Path) -> Result<String, Failure> {
    let name = "flint-function.js";
    let mut command = Command::new(esbuild);
    command.arg(entry).args([
        "--bundle",
        "--format=esm",
        "--platform=neutral",
        "--main-fields=module,main",
        "--log-level=warning",
    ]);
    command.arg(format!("--outfile={}", into.join(name).display()));
    runner.run(&mut command)?;
    Ok(format!("./{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_told_apart() {
        let is = |name: &str, text: &str| is_commonjs(Path::new(name), text);
        assert!(is("a.js", "const x = require('x');\nexports.main = () => 1;\n"));
        assert!(is("a.js", "module.exports = { main }") && is("a.cjs", "export const x = 1"));
        assert!(!is("a.js", "export function main() { return 'exports' }"));
        assert!(!is("a.mjs", "exports.main = 1") && !is("a.js", "  import x from './x.js';\nexports"));
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
