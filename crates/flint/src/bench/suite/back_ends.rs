//! Back ends of workloads: started and stopped by the scripts in scripts/backends.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};

use super::manifest::{Manifest, Values};
use crate::{
    bench::{janitor::Note, tied::tied},
    client::GUEST_KEY,
    output::tell,
};

/// The back ends of one server, stopped on drop.
pub(super) struct BackEnds {
    /// How to stop them, with their folders, in this order.
    started: Vec<(PathBuf, PathBuf, Note)>,
    pub(super) values: Values,
}

impl BackEnds {
    /// Creates the network in which sandboxes reach back ends, if `manifest` needs any. It has to exist
    /// before the Flint server.
    pub(super) fn network(manifest: &Manifest, scratch: &Path) -> anyhow::Result<Self> {
        let mut these = Self { started: Vec::new(), values: Values::new() };
        if !manifest.back_ends.is_empty() {
            // A back end may run as another user, who needs access to its folder.
            fs::set_permissions(scratch, fs::Permissions::from_mode(0o711))
                .context("opening the scratch directory")?;
            let scripts = scripts(manifest)?.join("network");
            these.one(&scripts, &scratch.join("network"), &[], "").context("the network of the back ends")?;
        }
        Ok(these)
    }

    /// Starts the back ends of `manifest`. `server` is the Flint server, for those that call it.
    pub(super) fn start(&mut self, manifest: &Manifest, scratch: &Path, server: &str) -> anyhow::Result<()> {
        let network = scratch.join("network");
        for name in &manifest.back_ends {
            let options = ["--network".as_ref(), network.as_os_str()];
            let said = self
                .one(&scripts(manifest)?.join(name), &scratch.join(name), &options, server)
                .with_context(|| format!("the back end {name}"))?;
            self.values.insert(name.clone(), said);
        }
        Ok(())
    }

    /// Their versions, as far as known.
    pub(super) fn versions(&self) -> Vec<(String, String)> {
        let said = self.values.iter().filter_map(|(name, said)| Some((name, said.get("version")?)));
        said.filter(|(_, version)| !version.is_empty())
            .map(|(name, version)| (name.clone(), version.clone()))
            .collect()
    }

    fn one(
        &mut self,
        scripts: &Path,
        folder: &Path,
        options: &[&std::ffi::OsStr],
        server: &str,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let script = scripts.join("start.sh");
        let stop = scripts.join("stop.sh");
        let note = Note::to_run(&stop, folder)?;
        let output = tied(&script)
            .arg(folder)
            .args(options)
            .env("FLINT_URL", server)
            .env("FLINT_AUTH", GUEST_KEY)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("running {}", script.display()))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        self.started.push((stop, folder.to_owned(), note));
        let said = String::from_utf8_lossy(&output.stdout);
        let pair = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(said.lines().filter_map(pair).collect())
    }
}

/// The folder of the back ends' scripts, beside that of the functions.
fn scripts(manifest: &Manifest) -> anyhow::Result<PathBuf> {
    manifest
        .beside("scripts/backends")
        .context("the back ends' scripts are missing: scripts/backends beside functions")
}

impl Drop for BackEnds {
    fn drop(&mut self) {
        for (stop, folder, _) in self.started.iter().rev() {
            match Command::new(stop).arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).status() {
                Ok(status) if status.success() => {}
                _ => tell!("flint bench: {} {} failed: end it by hand", stop.display(), folder.display()),
            }
        }
    }
}

/// Runs a program of a workload in its folder, with the back ends' values in its environment: S3_URL and the
/// like.
pub(super) fn run(
    folder: &Path,
    command: &[String],
    values: &Values,
    more: &[(&str, &str)],
    input: Option<&[u8]>,
) -> anyhow::Result<()> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    // A path is relative to the workload's folder.
    let found = if program.contains('/') { folder.join(program).into_os_string() } else { program.into() };
    let mut process = tied(found);
    process.args(arguments).current_dir(folder).envs(more.iter().copied());
    for (back_end, said) in values {
        for (key, value) in said {
            process.env(format!("{back_end}_{key}").to_uppercase().replace('-', "_"), value);
        }
    }
    let mut child = process
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {program} in {}", folder.display()))?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // A program may exit without reading everything; its exit code is the verdict.
        let _ = stdin.write_all(input);
    }
    let output = child.wait_with_output().context("waiting for it")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let end: Vec<_> = said.trim().lines().rev().take(5).collect();
        bail!(
            "{program} ended with {}: {}",
            output.status,
            end.into_iter().rev().collect::<Vec<_>>().join(" / ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_of_the_back_ends_and_says_what_is_wrong() {
        let values = Values::from([("my-db".into(), BTreeMap::from([("url".into(), "u".into())]))]);
        let sh = |text: &str| ["sh".to_owned(), "-c".to_owned(), text.to_owned()];
        let here = Path::new("/");
        let script = r#"[ "$MY_DB_URL$SIZE" = utest ] && [ "$(cat)" = in ]"#;
        run(here, &sh(script), &values, &[("SIZE", "test")], Some(b"in")).unwrap();
        let error = run(here, &sh("echo no >&2; exit 3"), &values, &[], None).unwrap_err().to_string();
        assert!(error.contains("exit status: 3: no"), "{error}");
        run(here, &[], &values, &[], None).unwrap();
    }
}
