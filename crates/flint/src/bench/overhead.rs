//! `overhead`: the time that Flint adds to a call, and its throughput.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flint_lab::{
    Arm, ArmError, ArmPlan, ArmReport, ArmRounds, Connection, HttpArm, HttpRequest, InTurn, Load,
    ProcessTree, Report, Target, Unjudged, median, median_ratio, run_rounds,
};

use tokio::io::AsyncWriteExt as _;

use super::{
    Run,
    asked::check_arms,
    bare_http, interpreter, janitor,
    peers::Peer,
    run::show,
    server::{self, Server},
    shim_link::ShimArm,
};

const NODE_HELLO: &str = "exports.main = (params) => ({ greeting: `Hello, ${params.name}` });\n";
const PYTHON_HELLO: &str = "def main(params):\n    return {'greeting': 'Hello, ' + params['name']}\n";
const ARGUMENTS: &[u8] = br#"{"name":"Flint"}"#;
const ANSWER: &[u8] = br#"{"greeting":"Hello, Flint"}"#;
/// Calls of warm processes, started in this host's default way.
const WARM: [&str; 2] = ["--reuse", "warm"];
/// Number of functions called in turn by the arm that measures the cost of variety.
const VARIETY: usize = 100;

/// How long the calls accepted by an arm may take to be made, before the next arm.
const SETTLED_WITHIN: Duration = Duration::from_secs(120);
const FLINT_VARIETY: &str = "flint-variety-100";
/// The same number of plain servers, called in turn.
const PLAIN_VARIETY: &str = "plain-variety-100";

/// The well-known guest key, which exists while a server listens on loopback (the OpenWhisk contract's default user).
pub(super) const GUEST: &str =
    "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP";

/// All arms; some at several concurrencies.
const ARMS: [&str; 14] = [
    "bare-http",
    "shim-node",
    "flint-node",
    "shim-python",
    "flint-python",
    "plain-node",
    "flint-node-shared",
    FLINT_VARIETY,
    PLAIN_VARIETY,
    "plain-python",
    "plain-spawn-cat",
    "flint-stdio-cat",
    "flint-stdio-cat-kept",
    "flint-async-accept",
];

struct Scale {
    rounds: usize,
    round: Duration,
}

pub(super) async fn run(run: &mut Run) -> anyhow::Result<Report> {
    check_arms(&run.effort.arms, ARMS)?;
    let mut scale = if run.effort.quick {
        Scale { rounds: 3, round: Duration::from_millis(700) }
    } else {
        Scale { rounds: 5, round: Duration::from_secs(3) }
    };
    scale.rounds = run.effort.rounds(scale.rounds);
    let scratch = janitor::scratch()?;
    // A deploy of each takes a snapshot.
    let wants_many = run.effort.arms.is_empty() || run.effort.arms.iter().any(|arm| arm == FLINT_VARIETY);
    let code = Code::write(scratch.path(), if wants_many { VARIETY } else { 0 })?;

    // Accepting calls is faster than executing them.
    let settings =
        [("FLINT_LIMITS__MAX_CONCURRENCY", "32"), ("FLINT_LIMITS__CONCURRENT_INVOCATIONS", "10000000")];
    let server = Server::start_with(scratch.path(), &settings).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Unreadable counts as absent: no server has zero.
    let idle = Some(ProcessTree::new(server.pid()).root_memory().rss).filter(|bytes| *bytes > 0);
    deploy(&server, &code)?;
    let node_peer = Peer::node(&code.node, scratch.path())?;
    let python_peer = Peer::python(&code.python, scratch.path())?;
    let bare = bare_http::start(ANSWER)?;
    // The control: a hundred processes on this machine without Flint. They take half a minute, too long for a
    // quick run.
    let wants_control = match &run.effort.arms[..] {
        [] => !run.effort.quick,
        asked => asked.iter().any(|arm| arm == PLAIN_VARIETY),
    };
    let many_peers = if wants_control { VARIETY } else { 0 };
    let many_peers: Vec<Peer> =
        (0..many_peers).map(|_| Peer::node(&code.node, scratch.path())).collect::<Result<_, _>>()?;

    let peers = Peers { node: &node_peer, many: &many_peers, python: &python_peer };
    let plans = plans(&scale, &server, &peers, bare, &code)?;
    let plans = chosen(&run.effort.arms, plans)?;
    let bar = run.bar.clone();
    let progress = |arm: &str, done: usize, steps: usize| show(&bar, arm, done, steps);
    let pause = Duration::from_millis(200);
    let how = (scale.rounds, pause);
    let arms = run_rounds("calls", plans, how, &run.folder, &mut run.noise, &progress).await?;
    Ok(report(run.report("overhead"), &arms, idle, server.binary_size()?))
}

/// Keeps the requested arms.
fn chosen(asked: &[String], plans: Vec<ArmPlan>) -> anyhow::Result<Vec<ArmPlan>> {
    for plan in &plans {
        ensure!(
            ARMS.contains(&plan.name.as_str()),
            "{} is not among the arms that can be asked for",
            plan.name
        );
    }
    Ok(plans.into_iter().filter(|plan| asked.is_empty() || asked.contains(&plan.name)).collect())
}

/// Plain servers: one Node.js function, the same number as is called in turn (or none), and one Python
/// function.
struct Peers<'a> {
    node: &'a Peer,
    many: &'a [Peer],
    python: &'a Peer,
}

struct Code {
    node: PathBuf,
    /// Functions that do the same and differ in a comment, as different functions do: a deploy of code that the
    /// server knows makes no snapshot.
    many: Vec<PathBuf>,
    python: PathBuf,
    cat: PathBuf,
}

impl Code {
    fn write(scratch: &Path, many: usize) -> anyhow::Result<Self> {
        let code = Self {
            node: scratch.join("hello.js"),
            many: (0..many).map(|n| scratch.join(format!("hello-{n}.js"))).collect(),
            python: scratch.join("hello.py"),
            cat: "/bin/cat".into(),
        };
        std::fs::write(&code.node, NODE_HELLO).context("writing hello.js")?;
        for (n, file) in code.many.iter().enumerate() {
            std::fs::write(file, format!("{NODE_HELLO}// {n}\n")).context("writing a hundred functions")?;
        }
        std::fs::write(&code.python, PYTHON_HELLO).context("writing hello.py")?;
        Ok(code)
    }
}

fn deploy(server: &Server, code: &Code) -> anyhow::Result<()> {
    let kind = interpreter::python()?.kind;
    server.deploy(&code.node, "hello-node", &WARM)?;
    // The same interpreter as in the other Python arms.
    server.deploy(&code.python, "hello-python", &[&WARM[..], &["--kind", &kind]].concat())?;
    // One process for all clients, like a plain server.
    server.deploy(&code.node, "hello-shared", &[&WARM[..], &["--concurrency", "32"]].concat())?;
    server.deploy(&code.cat, "cat", &["--contract", "stdio"])?;
    server.deploy(&code.cat, "cat-kept", &["--contract", "stdio", "--reuse", "warm"])?;
    code.many.iter().enumerate().try_for_each(|(n, file)| server.deploy(file, &format!("hello-{n}"), &WARM))
}

fn invoke(address: SocketAddr, function: &str, query: &str, body: &[u8], status: u16) -> HttpRequest {
    let headers = [
        format!("authorization: Basic {}", BASE64.encode(GUEST)),
        "content-type: application/json".to_owned(),
    ];
    let path = format!("/api/v1/namespaces/_/actions/{function}?{query}");
    HttpRequest::new("POST", &path, address, &headers, body, status)
}

fn plans(
    scale: &Scale,
    server: &Server,
    peers: &Peers<'_>,
    bare: SocketAddr,
    code: &Code,
) -> anyhow::Result<Vec<ArmPlan>> {
    let plain = |address: SocketAddr| {
        let json = ["content-type: application/json".to_owned()];
        Box::new(HttpArm::new(address, vec![HttpRequest::new("POST", "/", address, &json, ARGUMENTS, 200)]))
            as Box<dyn Arm>
    };
    let through_flint = |function: &str| {
        let request = invoke(server.address, function, "blocking=true&result=true", ARGUMENTS, 200);
        Box::new(HttpArm::new(server.address, vec![request])) as Box<dyn Arm>
    };
    let shim = |mut argv: Vec<String>, file: PathBuf, code: &Path| {
        argv.push(file.display().to_string());
        let check = Arc::new(|result: &[u8]| result == ANSWER);
        Box::new(ShimArm::new(argv, code.to_owned(), ARGUMENTS.into(), check)) as Box<dyn Arm>
    };
    let shim_node = shim(interpreter::node()?.command(&[]), server.shim("nodejs/shim.js")?, &code.node);
    let shim_python = shim(
        interpreter::python()?.command(&interpreter::PYTHON_OPTIONS),
        server.shim("python/shim.py")?,
        &code.python,
    );
    let variety = (0..VARIETY)
        .map(|n| invoke(server.address, &format!("hello-{n}"), "blocking=true&result=true", ARGUMENTS, 200))
        .collect();
    let accept = invoke(server.address, "hello-node", "blocking=false", ARGUMENTS, 202);
    let accept = AcceptArm { http: HttpArm::new(server.address, vec![accept]), address: server.address };
    let cat = |function: &str| {
        let headers =
            [format!("authorization: Basic {}", BASE64.encode(GUEST)), "content-type: text/plain".to_owned()];
        let path = format!("/v1/functions/{function}/invoke");
        let request = HttpRequest::new("POST", &path, server.address, &headers, b"Hello, Flint", 200);
        Box::new(HttpArm::new(server.address, vec![request])) as Box<dyn Arm>
    };
    let flint = Some(ProcessTree::new(server.pid()));

    let plan = |name: &str, function: Option<&str>, concurrency, arm, process| ArmPlan {
        name: name.into(),
        function: function.map(str::to_owned),
        arm,
        load: Load { concurrency, duration: scale.round, warm_up: warm_up(concurrency) },
        process,
    };
    // Each of them is warmed up as much as the single function: the arm measures variety, not cold functions.
    let plan_of_many = |name: &str, function, concurrency, arm, process| {
        let mut plan = plan(name, function, concurrency, arm, process);
        plan.load.warm_up *= VARIETY;
        plan
    };
    let node = Some("hello-node");
    let python = Some("hello-python");
    let flint_variety = Box::new(HttpArm::new(server.address, variety)) as Box<dyn Arm>;
    let plans = vec![
        plan("bare-http", None, 1, plain(bare), None),
        plan("shim-node", node, 1, shim_node, None),
        plan("flint-node", node, 1, through_flint("hello-node"), flint),
        plan("shim-python", python, 1, shim_python, None),
        plan("flint-python", python, 1, through_flint("hello-python"), flint),
        plan("bare-http", None, 32, plain(bare), None),
        plan("plain-node", node, 32, plain(peers.node.address), Some(ProcessTree::new(peers.node.pid()))),
        plan("flint-node", node, 32, through_flint("hello-node"), flint),
        plan("flint-node-shared", Some("hello-shared"), 32, through_flint("hello-shared"), flint),
        plan_of_many(FLINT_VARIETY, node, 32, flint_variety, flint),
        plan(
            "plain-python",
            python,
            32,
            plain(peers.python.address),
            Some(ProcessTree::new(peers.python.pid())),
        ),
        plan("flint-python", python, 32, through_flint("hello-python"), flint),
        plan("plain-spawn-cat", Some("cat"), 32, Box::new(SpawnArm), None),
        plan("flint-stdio-cat", Some("cat"), 32, cat("cat"), flint),
        plan("flint-stdio-cat-kept", Some("cat-kept"), 32, cat("cat-kept"), flint),
        plan("flint-async-accept", node, 64, Box::new(accept), flint),
    ];
    let many: Vec<_> = peers.many.iter().map(|peer| plain(peer.address)).collect();
    let control =
        (!many.is_empty()).then(|| plan_of_many(PLAIN_VARIETY, node, 32, Box::new(InTurn::new(many)), None));
    Ok(plans.into_iter().chain(control).collect())
}

/// Uncounted calls per connection.
fn warm_up(concurrency: usize) -> usize {
    if concurrency == 1 { 200 } else { 20 }
}

/// The cost of a process per call without Flint: no sandbox, no HTTP, no limits.
struct SpawnArm;

#[async_trait]
impl Arm for SpawnArm {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        Ok(Box::new(SpawnArm))
    }
}

#[async_trait]
impl Connection for SpawnArm {
    async fn call(&mut self) -> Result<(), ArmError> {
        let mut process =
            tokio::process::Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        if let Some(mut stdin) = process.stdin.take() {
            stdin.write_all(b"Hello, Flint").await?;
        }
        let output = process.wait_with_output().await?;
        match output.stdout == b"Hello, Flint" {
            true => Ok(()),
            false => Err(ArmError::WrongAnswer(String::from_utf8_lossy(&output.stdout).into_owned())),
        }
    }
}

/// Asynchronous accepts; the accepted calls are waited for before the next arm.
struct AcceptArm {
    http: HttpArm,
    address: SocketAddr,
}

#[async_trait]
impl Arm for AcceptArm {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        self.http.connect().await
    }

    async fn settle(&self) -> Result<(), ArmError> {
        let emptied = async {
            while server::metric(self.address, "flint_async_queue_depth").await? > 0.0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        };
        tokio::time::timeout(SETTLED_WITHIN, emptied).await.unwrap_or(Err(ArmError::Timeout(SETTLED_WITHIN)))
    }
}

/// The promises, without measurements.
pub(super) fn targets_of_nothing() -> Vec<Target> {
    report(Report::default(), &[], None, 0).targets
}

fn report(empty: Report, arms: &[ArmRounds], idle_rss: Option<u64>, binary: u64) -> Report {
    let arm = |name: &str, concurrency: usize| {
        arms.iter().find(|arm| arm.plan.name == name && arm.plan.load.concurrency == concurrency)
    };
    let rate = |name, concurrency| arm(name, concurrency).and_then(|arm| median(&arm.rates()));
    let rate_ratio = |a, b| {
        let (a, b) = (arm(a, 32)?, arm(b, 32)?);
        median_ratio(&a.rates(), &b.rates())
    };
    // The time that Flint adds: the difference within each round, then the median of the rounds.
    let added = |flint, shim, quantile| {
        let (flint, shim) = (arm(flint, 1)?.quantiles_us(quantile), arm(shim, 1)?.quantiles_us(quantile));
        let differences: Vec<f64> = flint.iter().zip(&shim).map(|(flint, shim)| flint - shim).collect();
        median(&differences)
    };
    let ratios: BTreeMap<String, f64> = [
        ("flint-node / plain-node calls/s at 32", rate_ratio("flint-node", "plain-node")),
        ("flint-python / plain-python calls/s at 32", rate_ratio("flint-python", "plain-python")),
        ("flint-node / bare-http calls/s at 32", rate_ratio("flint-node", "bare-http")),
        ("flint-node-shared / plain-node calls/s at 32", rate_ratio("flint-node-shared", "plain-node")),
        ("flint-stdio-cat / plain-spawn-cat calls/s at 32", rate_ratio("flint-stdio-cat", "plain-spawn-cat")),
        (
            "flint-stdio-cat-kept / plain-spawn-cat calls/s at 32",
            rate_ratio("flint-stdio-cat-kept", "plain-spawn-cat"),
        ),
        ("100 functions in turn / one function", rate_ratio(FLINT_VARIETY, "flint-node")),
        ("100 plain Node servers in turn / one", rate_ratio(PLAIN_VARIETY, "plain-node")),
        ("100 functions in turn / 100 plain Node servers in turn", rate_ratio(FLINT_VARIETY, PLAIN_VARIETY)),
    ]
    .into_iter()
    .filter_map(|(name, ratio)| Some((name.to_owned(), ratio?)))
    .collect();
    let ratio = |name: &str| ratios.get(name).copied();
    // The pairs that the promises compare.
    let comparisons = [
        ("flint-node", "shim-node", 1),
        ("flint-python", "shim-python", 1),
        ("flint-node", "plain-node", 32),
        ("flint-python", "plain-python", 32),
        ("flint-node-shared", "plain-node", 32),
        (FLINT_VARIETY, "flint-node", 32),
        (FLINT_VARIETY, PLAIN_VARIETY, 32),
    ]
    .into_iter()
    .filter_map(|(a, b, callers)| arm(a, callers)?.compared(arm(b, callers)?))
    .collect();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let unread = idle_rss
        .is_none()
        .then(|| Unjudged::NotMeasured("the memory of the idle server cannot be read".to_owned()));
    let targets = vec![
        Target::at_most(
            "latency added to a Node call, p50, µs",
            added("flint-node", "shim-node", 0.5),
            100.0,
        )
        .of("S1"),
        Target::at_most(
            "latency added to a Node call, p99, µs",
            added("flint-node", "shim-node", 0.99),
            1000.0,
        )
        .of("S2"),
        Target::at_most(
            "latency added to a Python call, p50, µs",
            added("flint-python", "shim-python", 0.5),
            100.0,
        )
        .of("S3"),
        Target::at_most(
            "latency added to a Python call, p99, µs",
            added("flint-python", "shim-python", 0.99),
            1000.0,
        )
        .of("S4"),
        Target::at_least("warm Node calls/s at 32", rate("flint-node", 32), 7000.0).of("S5"),
        Target::at_least("warm Python calls/s at 32", rate("flint-python", 32), 7000.0).of("S6"),
        Target::at_least(
            "of a plain Node server's calls/s",
            ratio("flint-node / plain-node calls/s at 32"),
            0.7,
        )
        .of("S7"),
        Target::at_least(
            "of a plain Python server's calls/s",
            ratio("flint-python / plain-python calls/s at 32"),
            0.7,
        )
        .of("S8"),
        Target::at_least(
            "of a plain Node server's calls/s, one process for all clients too",
            ratio("flint-node-shared / plain-node calls/s at 32"),
            0.7,
        )
        .of("S7"),
        Target::at_least(
            "stdio /bin/cat calls/s at 32, a process a call",
            rate("flint-stdio-cat-kept", 32),
            1500.0,
        )
        .of("S9"),
        Target::at_least(
            "stdio /bin/cat calls/s at 32, a sandbox a call",
            rate("flint-stdio-cat", 32),
            1500.0,
        )
        .of("S9"),
        Target::at_least("durable asynchronous accepts/s at 64", rate("flint-async-accept", 64), 5000.0)
            .of("S10"),
        Target::at_least(
            "100 functions in turn, of one's calls/s",
            ratio("100 functions in turn / one function"),
            0.7,
        )
        .of("S11"),
        Target::at_most("Flint idle, RSS, MiB", idle_rss.map(mib), 40.0).of("S12").unless(unread),
        Target::at_most("binary, MiB", Some(mib(binary)), 60.0).of("S13").exactly(),
    ];
    let mut reports: Vec<ArmReport> = arms.iter().map(ArmReport::from).collect();
    reports.push(ArmReport { arm: "flint-idle".into(), rss_bytes: idle_rss, ..ArmReport::default() });
    Report { arms: reports, ratios, targets, comparisons, ..empty }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_cannot_be_read_is_not_little() {
        let s12 = |idle| {
            let targets = report(Report::default(), &[], idle, 0).targets;
            targets.into_iter().find(|target| target.promise.as_deref() == Some("S12")).unwrap()
        };
        let read = s12(Some(30 << 20));
        assert_eq!((read.value, read.met), (Some(30.0), Some(true)));
        let unread = s12(None);
        let why = Some(Unjudged::NotMeasured("the memory of the idle server cannot be read".into()));
        assert_eq!((unread.value, unread.met, unread.unjudged), (None, None, why));
    }
}
