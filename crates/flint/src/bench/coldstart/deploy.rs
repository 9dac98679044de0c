//! Starts servers when an arm needs them, and deploys functions, checking the results.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};

use super::{
    numba,
    rounds::KEEP_ALIVE,
    way::{Setting, Way},
    workload::{Language, Source, Workload},
};
use crate::bench::{interpreter, prepared::Prepared, server::Server};

/// Servers, and the code of what was deployed to them.
pub(super) struct Stage {
    scratch: PathBuf,
    samples: Option<PathBuf>,
    servers: HashMap<&'static str, Server>,
    /// numba's archives by function and kind of start, since packing takes a while.
    archives: HashMap<String, PathBuf>,
}

impl Stage {
    pub(super) fn new(scratch: &Path, samples: Option<PathBuf>) -> Self {
        Self { scratch: scratch.to_owned(), samples, servers: HashMap::new(), archives: HashMap::new() }
    }

    /// The server with this setting. Different purposes that would disturb each other get different servers.
    pub(super) async fn server(
        &mut self,
        setting: Setting,
        purpose: &'static str,
    ) -> anyhow::Result<&Server> {
        // The two purposes never run at the same time.
        let name = match (purpose, setting) {
            ("memory", Setting::SmallPages) => "memory-small-pages",
            ("memory", _) => "memory",
            (_, Setting::Plain) => "plain",
            (_, Setting::Standbys) => "standbys",
            (_, Setting::SmallPages) => "small-pages",
        };
        if !self.servers.contains_key(name) {
            // A server of that name may have existed before.
            let folder = self.scratch.join(format!("{name}-{purpose}"));
            fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
            let keep_alive = format!("{}ms", KEEP_ALIVE.as_millis());
            let mut settings = vec![
                ("FLINT_POOL__KEEP_ALIVE", keep_alive.as_str()),
                ("FLINT_POOL__KEEP_ALIVE_FORKED", keep_alive.as_str()),
                // A cold start brings up its own runtime, as on a container platform.
                ("FLINT_POOL__PREWARM", "0"),
                // numba exceeds the usual size of functions.
                ("FLINT_LIMITS__MAX_CODE", "512MB"),
                ("FLINT_PREPARE__MAX_UNPACKED", "2GB"),
            ];
            if purpose == "memory" {
                // Unlimited: the arm measures what instances use, not how many the budget allows.
                settings.push(("FLINT_POOL__MEMORY", "1024GB"));
            }
            settings.extend(setting.environment());
            let server = Server::start_with(&folder, &settings).await?;
            self.servers.insert(name, server);
        }
        self.servers.get(name).context("the server was just started")
    }

    /// Stops the servers, so that what follows runs alone.
    pub(super) fn clear(&mut self) {
        self.servers.clear();
    }

    /// Deploys `workload` in this way; returns its name on the server.
    pub(super) async fn deploy(
        &mut self,
        way: &Way,
        workload: &Workload,
        purpose: &'static str,
    ) -> anyhow::Result<(std::net::SocketAddr, String)> {
        let code = self.code(way, workload)?;
        let event = self.event(workload)?;
        let name = format!("{}-{}", workload.name, way.name);
        let start = way.start.context("an unsandboxed process is not deployed")?;
        let mut options: Vec<String> =
            ["--start", start, "--reuse", way.reuse, "--memory", "512", "--timeout", "60s"]
                .map(str::to_owned)
                .into();
        match workload.language {
            Language::Numba if way.is_fork() && way.warmed_up => {
                options.extend(["--jit".to_owned(), "numba".to_owned()]);
            }
            // The same interpreter as in the other Python arms.
            Language::Python if matches!(workload.source, Source::Text(_)) => {
                options.extend(["--kind".to_owned(), interpreter::python()?.kind]);
            }
            _ => {}
        }
        if way.is_fork() {
            let event = if way.warmed_up { event.display().to_string() } else { "none".to_owned() };
            options.extend(["--warmup".to_owned(), event]);
        }
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let server = self.server(way.setting, purpose).await?;
        let said = server.deployed(&code, &name, &options)?;
        let prepared = Prepared::of(&said);
        prepared.is_run_as(&name, start, way.reuse)?;
        if way.is_fork() && way.warmed_up {
            prepared.is_warmed_up(&name)?;
        }
        Ok((server.address, name))
    }

    /// A call of `workload`, as a warm-up file.
    fn event(&self, workload: &Workload) -> anyhow::Result<PathBuf> {
        let extension = if workload.content_type == "application/json" { "json" } else { "png" };
        self.write(&format!("{}-event.{extension}", workload.name), &workload.body)
    }

    fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
        let path = self.scratch.join(name);
        fs::write(&path, content).with_context(|| format!("writing {name}"))?;
        Ok(path)
    }

    /// The code of `workload`, in the form that `way` needs.
    pub(super) fn code(&mut self, way: &Way, workload: &Workload) -> anyhow::Result<PathBuf> {
        match (workload.source, workload.language) {
            (Source::Text(text), Language::Node) => {
                self.write(&format!("{}.js", workload.name), text.as_bytes())
            }
            (Source::Text(text), Language::Python) => {
                self.write(&format!("{}.py", workload.name), text.as_bytes())
            }
            (Source::Text(text), Language::Numba) => self.archive(way, workload, text),
            (Source::Sample(folder), _) => {
                let samples = self.samples.as_ref();
                let path = samples
                    .context("the sample functions are in Flint's repository: run the benchmark there")?
                    .join(folder);
                let packages =
                    ["node_modules", "virtualenv"].iter().any(|packages| path.join(packages).is_dir());
                ensure!(packages, "its packages are missing: run functions/samples/build.sh {folder}");
                Ok(path)
            }
        }
    }

    /// Where Flint does not annotate it, the decorator is written by hand, as a user would.
    fn archive(&mut self, way: &Way, workload: &Workload, text: &str) -> anyhow::Result<PathBuf> {
        let by_hand = !way.is_fork();
        let name = format!("{}-{}.zip", workload.name, if by_hand { "decorated" } else { "plain" });
        if let Some(archive) = self.archives.get(&name) {
            return Ok(archive.clone());
        }
        let kernel = workload.kernel;
        let main = match by_hand {
            true => format!("{text}\n\nimport numba\n\n{kernel} = numba.njit({kernel})\n"),
            false => text.to_owned(),
        };
        let archive = self.scratch.join(&name);
        numba::pack(&archive, &main)?;
        self.archives.insert(name, archive.clone());
        Ok(archive)
    }
}

/// The command line of the shim of `language` without Flint.
pub(super) fn shim_argv(server: &Server, language: Language) -> anyhow::Result<Vec<String>> {
    let (mut argv, shim) = match language {
        Language::Node => (interpreter::node()?.command(&[]), server.shim("nodejs/shim.js")?),
        Language::Python | Language::Numba => {
            (interpreter::python()?.command(&interpreter::PYTHON_OPTIONS), server.shim("python/shim.py")?)
        }
    };
    argv.push(shim.display().to_string());
    Ok(argv)
}
