//! A workload brought up in one way: its own server, back ends and functions.

use std::{
    collections::HashSet,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flint_lab::{HttpClient, HttpRequest, ProcessTree, TreeMemory, memory_of};
use serde_json::{Value, json};

use super::{
    back_ends::{self, BackEnds},
    belongings::Belongings,
    manifest::{Deployed, Manifest, Variant, substitute},
    settings::settings,
    strategy::Wish,
};
use crate::{
    bench::{caller::post, interpreter, janitor, prepared::Prepared, server::Server},
    client::GUEST_KEY,
};

/// Options beyond the strategy.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) size: &'static str,
    /// Keep-alive of idle instances.
    pub(super) keep_alive: Duration,
    /// Memory of each function instead of the workload's, in MB.
    pub(super) memory_mb: Option<u64>,
    /// Concurrent calls, if instances are shared.
    pub(super) callers: usize,
    /// How many copies of the functions are deployed, under names of their own.
    pub(super) copies: usize,
    /// Clones are forked ahead, as by default; otherwise every call that needs one waits for it.
    pub(super) standbys: bool,
    /// Without a first call before the measurement, which would take the cold start away.
    pub(super) unchecked: bool,
    /// A trace is replayed with this speed-up: Flint's own idle limits are divided by it, and Flint's own
    /// choices are those of a default server.
    pub(super) compression: Option<f64>,
}

impl Options {
    pub(super) fn new(size: &'static str) -> Self {
        let keep_alive = Duration::from_secs(1);
        Self {
            size,
            keep_alive,
            memory_mb: None,
            callers: 1,
            copies: 1,
            standbys: false,
            unchecked: false,
            compression: None,
        }
    }
}

/// A workload that can be called.
pub(super) struct Site {
    server: Server,
    pub(super) back_ends: BackEnds,
    /// Processes that existed before the functions.
    before: HashSet<u32>,
    /// The server's memory before the functions, if instances are inside it.
    server_before: Option<TreeMemory>,
    pub(super) manifest: Manifest,
    pub(super) options: Options,
    /// The name of the entry.
    entry: String,
    /// One request per copy.
    pub(super) requests: Vec<HttpRequest>,
    /// How Flint runs the entry, in its own words.
    pub(super) chosen: String,
    /// The duration of the call before the measurement.
    pub(super) first_took: Option<Duration>,
    _scratch: tempfile::TempDir,
}

/// Builds a workload's functions; once, before any site of it.
pub(super) fn build(manifest: &Manifest) -> anyhow::Result<()> {
    back_ends::run(&manifest.folder, &manifest.build, &Default::default(), &[], None)
        .with_context(|| format!("building {}", manifest.name))
}

impl Site {
    pub(super) async fn open(
        manifest: &Manifest,
        variant: &Variant,
        wish: Wish,
        options: Options,
    ) -> anyhow::Result<Self> {
        let scratch = janitor::scratch()?;
        let mut settings = settings(variant, wish, &options)?;
        if !manifest.back_ends.is_empty() {
            settings.push(("FLINT_NETWORK__ALLOW_PRIVATE".to_owned(), "true".to_owned()));
        }
        for setting in &manifest.server {
            let (key, value) = setting.split_once('=').context("a server setting without '='")?;
            settings.push((format!("FLINT_{}", key.to_uppercase().replace('.', "__")), value.to_owned()));
        }
        let settings: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let folder = scratch.path().join("server");
        fs::create_dir(&folder).context("making the server's folder")?;
        let mut back_ends = BackEnds::network(manifest, scratch.path())?;
        let server = Server::start_with(&folder, &settings).await?;
        back_ends.start(manifest, scratch.path(), &format!("http://{}", server.address))?;
        back_ends::run(&manifest.folder, &manifest.seed, &back_ends.values, &[("SIZE", options.size)], None)
            .context("filling the back ends")?;
        let before = server.own_processes();
        let server_before = wish.wasm.then(|| memory_of(server.pid()));
        let mut site = Self {
            server,
            back_ends,
            before,
            server_before,
            manifest: manifest.clone(),
            options,
            entry: String::new(),
            requests: Vec::new(),
            chosen: String::new(),
            first_took: None,
            _scratch: scratch,
        };
        for copy in 0..site.options.copies {
            site.deploy(variant, wish, copy).await?;
        }
        if !site.options.unchecked {
            site.check().await?;
        }
        Ok(site)
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.server.address
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    async fn deploy(&mut self, variant: &Variant, wish: Wish, copy: usize) -> anyhow::Result<()> {
        let entry = self.manifest.entry(variant, self.options.size)?.to_owned();
        let tools = if wish.wasm { wasm_tools(&self.manifest) } else { None };
        for function in &variant.functions {
            if wish.wasm && copy > 0 {
                self.copy_built(&function.name, copy).await?;
                continue;
            }
            let is_entry = function.name == entry;
            let events = self.events(function, wish, is_entry)?;
            let name = copied(&function.name, copy);
            if !events.is_empty() && function.calls_itself {
                // Its warm-up events find it.
                self.put(function, wish, &name, tools.as_deref(), &[])?;
            }
            let prepared = self.put(function, wish, &name, tools.as_deref(), &events)?;
            if let Some((start, reuse)) = wish.asked {
                prepared.is_run_as(&function.name, start, reuse)?;
            }
            if wish.warmed_up {
                prepared.is_warmed_up(&function.name)?;
            }
            if is_entry {
                self.chosen = prepared.to_string();
            }
        }
        for (name, parts) in &variant.sequences {
            self.sequence(name, parts).await?;
        }
        let params = self.manifest.params(self.options.size, &self.back_ends.values)?;
        self.entry = entry;
        self.requests.push(self.request(copy, &params));
        Ok(())
    }

    fn put(
        &self,
        function: &Deployed,
        wish: Wish,
        name: &str,
        tools: Option<&Path>,
        events: &[Value],
    ) -> anyhow::Result<Prepared> {
        let options = self.deploy_options(function, wish, events)?;
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let code = self.manifest.folder.join(&function.code);
        Ok(Prepared::of(&self.server.deployed_with(tools, &code, name, &options)?))
    }

    /// The warm-up events of a function, in an arm with warm-up: for each function of a chain, so that the
    /// arm's name holds.
    fn events(&self, function: &Deployed, wish: Wish, is_entry: bool) -> anyhow::Result<Vec<Value>> {
        match wish.warmed_up && can_fork(function, wish) {
            true => self.manifest.events(function, is_entry, self.options.size, &self.back_ends.values),
            false => Ok(Vec::new()),
        }
    }

    /// A call of a copy of the entry.
    pub(super) fn request(&self, copy: usize, params: &Value) -> HttpRequest {
        let body = params.to_string();
        post(self.address(), &copied(&self.entry, copy), "application/json", body.as_bytes())
    }

    fn deploy_options(
        &self,
        function: &Deployed,
        wish: Wish,
        events: &[Value],
    ) -> anyhow::Result<Vec<String>> {
        let mut options: Vec<String> = Vec::new();
        let mut add = |option: &str, value: String| options.extend([option.to_owned(), value]);
        let is_wasm = function.kind == "wasm";
        if let Some((start, reuse)) = wish.asked {
            ensure!(!is_wasm, "a WebAssembly module is instantiated for each call: the arm wasm does that");
            add("--start", start.to_owned());
            add("--reuse", reuse.to_owned());
        }
        if wish.wasm && !is_wasm {
            ensure!(
                matches!(function.kind.as_str(), "nodejs" | "python"),
                "nothing makes WebAssembly of {} functions",
                function.kind
            );
            add("--isolation", "wasm".to_owned());
        }
        if wish.shared {
            add("--concurrency", self.options.callers.to_string());
        }
        let has_environment = self.manifest.folder.join(&function.code).join("virtualenv").is_dir();
        match function.kind.as_str() {
            _ if wish.wasm => {}
            // The host's interpreter, unless the code brings an environment.
            "python" if !has_environment => add("--kind", interpreter::python()?.kind),
            "java" | "nodejs" => add("--kind", function.kind.clone()),
            _ => {}
        }
        let memory = self.options.memory_mb.or(function.memory_mb).unwrap_or(256);
        add("--memory", memory.to_string());
        add("--timeout", format!("{}s", function.timeout_s.unwrap_or(60)));
        for (option, value) in
            [("--main", &function.main), ("--contract", &function.contract), ("--network", &function.network)]
        {
            if let Some(value) = value {
                add(option, value.clone());
            }
        }
        for (name, value) in &function.env {
            let value = Value::String(substitute(value, &self.back_ends.values)?);
            add("--init-param", format!("{name}={value}"));
        }
        match events {
            [] if can_fork(function, wish) => add("--warmup", "none".to_owned()),
            [] => {}
            events => {
                let events: Vec<_> = events.iter().map(|params| json!({ "params": params })).collect();
                let path = self._scratch.path().join("events.json");
                fs::write(&path, Value::from(events).to_string()).context("writing the warm-up events")?;
                add("--warmup-list", path.display().to_string());
                if function.network.as_deref() == Some("egress") {
                    options.push("--warmup-network".to_owned());
                }
            }
        }
        Ok(options)
    }

    async fn sequence(&self, name: &str, parts: &[String]) -> anyhow::Result<()> {
        let components: Vec<_> = parts.iter().map(|part| format!("/_/{part}")).collect();
        let body = json!({ "exec": { "kind": "sequence", "components": components } });
        self.action("PUT", &format!("{name}?overwrite=true"), Some(&body)).await?;
        Ok(())
    }

    /// Copies the built code of the first one: building it again would give the same, and take longer than
    /// everything else.
    async fn copy_built(&self, name: &str, copy: usize) -> anyhow::Result<()> {
        let first = self.action("GET", &format!("{name}?code=true"), None).await?;
        let mut body = json!({});
        for part in ["exec", "limits", "annotations", "parameters"] {
            body[part] = first[part].clone();
        }
        self.action("PUT", &format!("{}?overwrite=true", copied(name, copy)), Some(&body)).await?;
        Ok(())
    }

    /// Requests an action from the server.
    async fn action(&self, method: &str, action: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let headers = [
            format!("authorization: Basic {}", BASE64.encode(GUEST_KEY)),
            "content-type: application/json".to_owned(),
        ];
        let path = format!("/api/v1/namespaces/_/actions/{action}");
        let body = body.map_or_else(String::new, Value::to_string);
        let request = HttpRequest::new(method, &path, self.address(), &headers, body.as_bytes(), 200);
        let answer = HttpClient::connect(self.address()).await?.exchange(&request).await?;
        ensure!(answer.status == 200, "{method} {action}: {}", String::from_utf8_lossy(&answer.body));
        serde_json::from_slice(&answer.body).with_context(|| format!("reading the action {action}"))
    }

    /// Makes one call whose response the workload's own program verifies too; only for one copy, since all
    /// have the same code.
    async fn check(&mut self) -> anyhow::Result<()> {
        let (size, request) =
            (self.options.size, self.requests.first().context("nothing was deployed")?.clone());
        let mut client = HttpClient::connect(self.address()).await?;
        let sent = Instant::now();
        let answer = tokio::time::timeout(Duration::from_secs(300), client.exchange(&request))
            .await
            .context("no answer to the first call")??;
        let took = sent.elapsed();
        self.first_took = Some(took);
        let shown = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
        ensure!(answer.status == 200, "status {}: {}", answer.status, shown());
        if let Err(why) = self.manifest.verify(size, &answer.body, took) {
            bail!("a wrong answer, {why}: {}", shown());
        }
        let params = self.manifest.params(size, &self.back_ends.values)?;
        self.manifest.ask_oracle(size, &params, &answer.body, &self.back_ends.values)
    }

    /// Instances, zygotes and pools. The server and its launcher existed before; for instances inside the
    /// server, its growth counts.
    pub(super) fn belongings(&self) -> Belongings {
        Belongings {
            tree: ProcessTree::new(self.pid()),
            apart: self.before.clone(),
            inside: self.server_before.map(|before| (self.pid(), before)),
        }
    }
}

/// Whether the arm may use a snapshot of it.
fn can_fork(function: &Deployed, wish: Wish) -> bool {
    matches!(function.kind.as_str(), "nodejs" | "python")
        && !wish.wasm
        && wish.asked.is_none_or(|(start, _)| start == "fork")
}

/// The tools for JavaScript and Python in WebAssembly, if scripts/wasm-tools.sh has installed them; otherwise
/// `flint deploy` reports what is missing.
fn wasm_tools(manifest: &Manifest) -> Option<PathBuf> {
    let script = manifest.beside("scripts")?.join("wasm-tools.sh");
    let output = Command::new(script).arg("--installed").stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().into())
}

/// The name of a copy. Functions call each other by name, so only single functions can be copied.
fn copied(name: &str, copy: usize) -> String {
    if copy == 0 { name.to_owned() } else { format!("{name}-{copy}") }
}
