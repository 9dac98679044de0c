//! Finds where the code in a function's directory begins.

use std::{fs, path::Path};

use flint_executor::PrepareError;
use flint_model::{CodeFormat, Function};

use super::tree::bad;
use crate::discover::{Engine, Family, Runtime, node};

/// The path of a function's code inside sandboxes.
pub const CODE: &str = "/function";

fn language(engine: &Engine) -> Option<&Runtime> {
    match engine {
        Engine::Language(runtime) => Some(runtime),
        Engine::Native => None,
    }
}

/// The file name under which a single file is stored.
pub(super) fn file_name(engine: &Engine, format: CodeFormat) -> &'static str {
    match (engine, format) {
        (_, CodeFormat::Jar) => "function.jar",
        (Engine::Language(runtime), CodeFormat::Source) => match runtime.family {
            Family::Node => "index.js",
            Family::Python => "main.py",
            // A public class must be in a file of its name, to which the Java build renames this one.
            Family::Java => "Main.java",
            Family::Go => "main.go",
            Family::Php => "index.php",
            Family::Ruby => "main.rb",
        },
        _ => "exec",
    }
}

/// A second name of a single file, for a Node.js that recognises an ES module by its name only; the shim uses
/// the one that fits.
pub(super) fn other_name(engine: &Engine, format: CodeFormat) -> Option<&'static str> {
    let needs =
        |runtime: &Runtime| runtime.family == Family::Node && !node::detects_modules(&runtime.version);
    (format == CodeFormat::Source && language(engine).is_some_and(needs)).then_some("index.mjs")
}

/// Checks that a single file is valid for its kind.
pub(super) fn check_file(
    engine: &Engine,
    format: CodeFormat,
    code: &[u8],
    kind: &str,
) -> Result<(), PrepareError> {
    if code.is_empty() {
        return Err(bad("the code is empty"));
    }
    match (engine, format) {
        (Engine::Language(_), CodeFormat::Source) => match std::str::from_utf8(code) {
            Ok(_) => Ok(()),
            Err(error) => {
                let at = error.valid_up_to();
                Err(bad(format!(
                    "the source text is not UTF-8 (byte {at}): archives and binaries are deployed as such"
                )))
            }
        },
        (Engine::Language(runtime), CodeFormat::Jar) if runtime.family == Family::Java => Ok(()),
        (Engine::Language(runtime), CodeFormat::Executable) if runtime.family == Family::Go => {
            check_program(code, "the code")
        }
        (Engine::Language(_), _) => Err(bad(format!(
            "the kind {kind} takes source text or an archive: for a program choose the kind native"
        ))),
        (Engine::Native, CodeFormat::Jar) => Err(bad("a jar needs a kind of the family java")),
        (Engine::Native, _) => check_program(code, "the code"),
    }
}

/// Checks that the kernel can execute it.
fn check_program(start: &[u8], what: &str) -> Result<(), PrepareError> {
    const ELF: &[u8] = b"\x7fELF";
    /// Offset of the field `e_machine`, which is little-endian on both architectures.
    const MACHINE: std::ops::Range<usize> = 18..20;
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    if start.starts_with(b"#!") {
        if start.split(|byte| *byte == b'\n').next().is_some_and(|line| line.ends_with(b"\r")) {
            return Err(bad(format!(
                "{what} is a script with Windows line ends: save it with Unix line ends"
            )));
        }
        return Ok(());
    }
    if !start.starts_with(ELF) {
        return Err(bad(format!("{what} is neither a Linux program (ELF) nor a script that begins with #!")));
    }
    match start.get(MACHINE) {
        Some(found) if found == machine.to_le_bytes() => Ok(()),
        _ => Err(bad(format!(
            "{what} is a program for another processor: build it for {}",
            std::env::consts::ARCH
        ))),
    }
}

/// The path inside the sandbox at which the code of an unpacked archive begins. Fails if there is nothing to
/// start with.
pub(super) fn find(engine: &Engine, folder: &Path, function: &Function) -> Result<String, PrepareError> {
    let has = |name: &str| folder.join(name).is_file();
    let brings_program =
        matches!(engine, Engine::Language(runtime) if runtime.family == Family::Go) && has("exec");
    let Some(runtime) = language(engine).filter(|_| !brings_program) else {
        if !has("exec") {
            return Err(bad(format!("the archive has no program named 'exec'{}", inner_folder(folder))));
        }
        let start = read_start(&folder.join("exec"))?;
        check_program(&start, "'exec'")?;
        return Ok(format!("{CODE}/exec"));
    };
    let (candidates, wanted): (&[&str], _) = match runtime.family {
        Family::Node => (
            &["package.json", "index.js", "index.mjs", "index.cjs", "main.js", "main.mjs"],
            "package.json with \"main\", and no index.js,",
        ),
        Family::Python => (&["__main__.py", "main.py", "index.py"], "__main__.py or main.py"),
        Family::Java => return Ok(CODE.to_owned()),
        Family::Go => {
            (&["main.go", "go.mod", "src", "exec.go"], "main.go, no src/ and no program named exec")
        }
        Family::Php => (&["index.php", "main.php"], "index.php"),
        Family::Ruby => (&["main.rb", "index.rb"], "main.rb"),
    };
    let by_main = function.main.as_deref().and_then(|main| main.rsplit_once('.')).is_some_and(|(file, _)| {
        let file = file.replace('.', "/");
        // Keeps `join` from taking an absolute path of the host.
        let file = file.trim_start_matches('/');
        ["", ".js", ".mjs", ".cjs", ".py", "/index.js", "/__init__.py"]
            .iter()
            .any(|end| has(&format!("{file}{end}")))
    });
    if by_main || candidates.iter().any(|name| folder.join(name).exists()) {
        return Ok(CODE.to_owned());
    }
    Err(bad(format!("the archive has no {wanted} at its top{}", inner_folder(folder))))
}

/// The file for the interpreter to start with when the function is a program of its own (contracts `stdio`,
/// `http`, `openwhisk`).
pub(super) fn script(engine: &Engine, folder: &Path) -> Option<String> {
    let runtime = language(engine)?;
    let candidates: &[&str] = match runtime.family {
        Family::Node => &["index.js", "index.mjs", "index.cjs", "main.js", "main.mjs"],
        Family::Python => &["__main__.py", "main.py", "index.py"],
        Family::Java => &["function.jar"],
        // Only sources are compiled; an executable in the archive is used as it is.
        Family::Go if folder.join("exec").is_file() => return None,
        Family::Go => return Some(CODE.to_owned()),
        Family::Php => &["index.php", "main.php"],
        Family::Ruby => &["main.rb", "index.rb"],
    };
    let first =
        candidates.iter().find(|name| folder.join(name).is_file()).map(|name| format!("{CODE}/{name}"));
    // Node.js resolves a package's "main" itself.
    first.or_else(|| folder.join("package.json").is_file().then(|| CODE.to_owned()))
}

/// A hint on the most common mistake.
fn inner_folder(folder: &Path) -> String {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    match (entries.next(), entries.next()) {
        (Some(only), None) if only.path().is_dir() => {
            format!(
                "; everything in it is inside the folder '{}': pack that folder's content",
                only.file_name().display()
            )
        }
        _ => String::new(),
    }
}

fn read_start(path: &Path) -> Result<Vec<u8>, PrepareError> {
    use std::io::Read;
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(256).read_to_end(&mut start));
    read.map_err(|error| super::tree::failed(format!("reading {}", path.display()), &error))?;
    Ok(start)
}
