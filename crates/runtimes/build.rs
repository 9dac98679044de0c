//! Embeds the runtime shims, so that the binary alone is enough.
//!
//! Java comes as sources: they are compiled by the JDK found on the host where Flint runs, so the build needs none. The native
//! helpers of snapshots are compiled here, where there is a C compiler: one serves every Node.js, one every Python.

use std::{
    env,
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Folders of `runtimes/` and the endings of what is needed from them at run time.
const SHIMS: [(&str, &[&str]); 6] = [
    ("nodejs", &["js", "json", "cjs", "mjs"]),
    ("python", &["py"]),
    ("java", &["java", "MF", "txt"]),
    ("go", &["go"]),
    ("php", &["php"]),
    ("ruby", &["rb"]),
];
/// Native helpers, the folders of their `build.sh`, and what a build without a C compiler says.
const HELPERS: [(&str, &str); 2] = [
    ("nodejs/native/zygote.node", "Node.js functions will not be started from snapshots"),
    ("python/native/zygote.so", "clones of Python functions will be made more slowly"),
];
/// Folders beside the shims that are only for their development.
const LEFT_OUT: [&str; 5] = ["test", "tests", "build", "node_modules", "__pycache__"];

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?);
    let runtimes = here.join("../../runtimes");
    let mut list = String::from("&[\n");
    for (folder, endings) in SHIMS {
        let mut files = Vec::new();
        collect(&runtimes.join(folder), endings, &mut files)?;
        files.sort();
        for file in files {
            // Not the folder, in which tests leave files: a new file comes with one that uses it.
            println!("cargo::rerun-if-changed={}", file.display());
            let name = file.strip_prefix(&runtimes).map_err(io::Error::other)?;
            let source = fs::canonicalize(&file)?;
            writeln!(list, "    ({:?}, include_bytes!({:?})),", name.display(), source.display())
                .map_err(io::Error::other)?;
        }
    }
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    println!("cargo::rerun-if-changed={}", runtimes.join("native").display());
    for (name, without) in HELPERS {
        let helper = out.join(name.replace('/', "-"));
        let source = runtimes.join(name).with_file_name("");
        println!("cargo::rerun-if-changed={}", source.display());
        let built = Command::new("sh").arg(source.join("build.sh")).arg(&helper).status();
        if built.is_ok_and(|status| status.success()) {
            writeln!(list, "    ({name:?}, include_bytes!({helper:?})),").map_err(io::Error::other)?;
        } else {
            println!("cargo::warning=no C compiler: {without}");
        }
    }
    list.push(']');
    fs::write(out.join("shims.rs"), list)
}

fn collect(folder: &Path, endings: &[&str], files: &mut Vec<PathBuf>) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && !LEFT_OUT.iter().any(|name| entry.file_name() == *name) {
            collect(&path, endings, files)?;
        } else if kind.is_file()
            && path.extension().is_some_and(|end| endings.iter().any(|known| end == *known))
        {
            files.push(path);
        }
    }
    Ok(())
}
