//! The documentation of every configuration key. A test compares this list with the types.

/// One configuration key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// `section.key`.
    pub(crate) path: &'static str,
    /// What it says.
    pub(crate) meaning: &'static str,
    /// A value that it may have.
    pub(crate) example: &'static str,
}

const fn key(path: &'static str, example: &'static str, meaning: &'static str) -> Key {
    Key { path, meaning, example }
}

/// Every key there is. Examples are TOML values.
pub(crate) const KEYS: &[Key] = &[
    key(
        "server.listen",
        r#""127.0.0.1:3233""#,
        "Address and port. Other than loopback only after a key was created (`flint namespace create`)",
    ),
    key("server.data_dir", r#""/var/lib/flint""#, "Where everything is kept; one server a directory"),
    key("server.threads", "1", "Threads that serve requests; built in: half of the cores"),
    key(
        "server.max_connections",
        "8192",
        "Connections at once; further ones wait to be accepted. Fewer where the limit of open files would leave too few for functions",
    ),
    key("server.max_header", r#""64KB""#, "Largest head of a request, at least 8KB"),
    key(
        "server.header_timeout",
        r#""15s""#,
        "How long a client may take to send a request's head; also how long a connection may stay idle",
    ),
    key("server.drain_timeout", r#""15s""#, "How long a stop waits for calls that are running"),
    key(
        "server.credential_ttl",
        r#""30s""#,
        "How long a checked key is remembered, and so works on after it was removed",
    ),
    key("server.collect_every", r#""10min""#, "How often code and artefacts are removed that nothing uses"),
    key(
        "server.web_hosts",
        r#"["faas.example.com"]"#,
        "Hosts below which each namespace has a name for its web actions: NAMESPACE.HOST/PACKAGE/ACTION",
    ),
    key("limits.invocations_per_minute", "60000", "Calls per minute and namespace; 0 = no call is admitted"),
    key(
        "limits.concurrent_invocations",
        "1000",
        "Calls at once, queued or running, per namespace; 0 = no call is admitted",
    ),
    key(
        "limits.fires_per_minute",
        "60000",
        "Trigger firings per minute and namespace; 0 = no firing is admitted",
    ),
    key("limits.min_timeout", r#""100ms""#, "Shortest time limit that a function may ask for"),
    key("limits.max_timeout", r#""5min""#, "Longest time limit that a function may ask for"),
    key("limits.min_memory", r#""128MB""#, "Smallest memory limit that a function may ask for"),
    key("limits.max_memory", r#""512MB""#, "Largest memory limit that a function may ask for"),
    key("limits.min_logs", "0", "Smallest log limit that a function may ask for"),
    key("limits.max_logs", r#""10MB""#, "Largest log limit that a function may ask for"),
    key("limits.max_concurrency", "1", "Most calls at once in one instance that a function may ask for"),
    key("limits.max_sequence", "50", "Most functions of a sequence, and most that a composition calls"),
    key("limits.max_code", r#""48MB""#, "Largest code"),
    key("limits.max_parameters", r#""1MB""#, "Largest parameters, and largest annotations, of one function"),
    key("limits.max_payload", r#""1MB""#, "Largest JSON body of a call"),
    key(
        "limits.max_result",
        r#""1MB""#,
        "Largest JSON result of a call; a record has room for 64 MB of it and the annotations, and says that it was too large where it was",
    ),
    key("limits.truncation", r#""1MB""#, "How much of a result that is too large its error shows"),
    key("limits.max_body", r#""256MB""#, "Largest binary or streamed body of a call"),
    key(
        "limits.max_blocking_wait",
        r#""1min""#,
        "How long a blocking call waits before it is answered with 202 and goes on by itself",
    ),
    key("defaults.timeout", r#""1min""#, "Time limit of a function that asks for none"),
    key("defaults.memory", r#""256MB""#, "Memory limit of a function that asks for none"),
    key("defaults.logs", r#""10MB""#, "Log limit of a function that asks for none"),
    key(
        "defaults.cpu_millis",
        "1000",
        "CPU limit of a function that asks for none, in thousandths of a core",
    ),
    key("defaults.processes", "1024", "Processes and threads of a function that asks for no number"),
    key("defaults.tmp", r#""64MB""#, "Size of /tmp of a function that asks for none"),
    key(
        "pool.memory",
        r#""4GB""#,
        "Memory of all instances together; absent = 60 % of the host's or the cgroup's",
    ),
    key(
        "pool.nested_memory",
        r#""1GB""#,
        "Memory beyond that for calls that functions wait for; absent = a quarter of pool.memory",
    ),
    key(
        "pool.start_charge",
        r#""64MB""#,
        "Memory that an instance of a function never measured before is charged",
    ),
    key("pool.keep_alive", r#""10min""#, "How long an instance without calls is kept"),
    key("pool.keep_alive_forked", r#""30s""#, "How long a clone of a snapshot without calls is kept"),
    key(
        "pool.pause_grace",
        r#""10s""#,
        "How long an instance is without calls before the processor is taken away from it",
    ),
    key(
        "pool.protected",
        r#""1min""#,
        "How long an idle instance is safe from the needs of a namespace beyond its share",
    ),
    key("pool.sample_every", r#""1s""#, "How often the memory of used instances is measured"),
    key("pool.stopping", "64", "Instances being stopped at once"),
    key("pool.prewarm", "1", "Runtimes kept started without a function, of each kind; 0 = none"),
    key(
        "pool.prewarm_kinds",
        r#"["nodejs:20"]"#,
        "Which runtimes, `nodejs` or `nodejs:default` for this host's default one; absent = the default Node.js and Python",
    ),
    key(
        "pool.prewarm_memory",
        r#""256MB""#,
        "The memory limit they are started with: they serve functions with this limit",
    ),
    key("queue.per_function", "1000", "Calls of one function that may wait for an instance at once"),
    key("queue.total", "10000", "Calls that may wait for an instance at once, all functions together"),
    key("queue.max_wait", r#""1min""#, "How long a call may wait for an instance"),
    key("queue.starts", "4", "Instances being started at once; absent = two for each core"),
    key(
        "queue.starts_per_function",
        "4",
        "Instances of one function being started at once; absent = two for each core",
    ),
    key(
        "async.max_attempts",
        "3",
        "How often an accepted call is attempted when Flint or the host fails, and its function says nothing about retries",
    ),
    key("async.running", "256", "Accepted calls that run at once, beside sequences and compositions"),
    key("async.waiting", "4096", "Accepted calls that wait in memory; the rest waits on disk"),
    key("async.lease", r#""1min""#, "How long a server that stops answering keeps its calls from others"),
    key(
        "async.retry_delay",
        r#""1s""#,
        "How long after a failed attempt the next one comes; doubled for each further one",
    ),
    key("async.retry_max_delay", r#""5min""#, "The longest such time"),
    key(
        "async.retries_running",
        "64",
        "Calls of one namespace that failed before and run at once; never more than half of its limits.concurrent_invocations",
    ),
    key(
        "async.retries_waiting",
        "10000",
        "Calls of one namespace that wait for a further attempt; what fails beyond that becomes a dead letter",
    ),
    key("async.retries_waiting_size", r#""64MB""#, "What those may take, arguments and attempts"),
    key("dead_letters.max_count", "10000", "Dead letters of one namespace; 0 = none are kept"),
    key("dead_letters.max_size", r#""64MB""#, "What they may take, arguments and attempts"),
    key("dead_letters.max_age", r#""336h""#, "How long they are kept; 0 = at any age"),
    key(
        "dead_letters.when_full",
        r#""drop-oldest""#,
        "Which one goes where there is no room for all: drop-oldest or drop-newest",
    ),
    key(
        "versions.keep",
        "10",
        "Earlier versions of a function that are kept beside those that an alias names; 0 = none",
    ),
    key("versions.max_aliases", "32", "Aliases that a function may have"),
    key(
        "secrets.key_file",
        r#""/etc/flint/secrets.key""#,
        "The file with the key of secrets, 64 hex digits a line: the first encrypts, all decrypt; absent = secrets.key in the data directory, made when it is first needed",
    ),
    key(
        "secrets.key_env",
        r#""FLINT_SECRETS_KEY""#,
        "The name of an environment variable of the server that has the keys instead, with commas between them",
    ),
    key("secrets.per_namespace", "100", "Secrets of a namespace"),
    key("secrets.max_size", r#""64KB""#, "The longest secret"),
    key("feeds.per_namespace", "100", "How many triggers of a namespace may have a feed of /whisk.system"),
    key("feeds.min_interval", r#""1s""#, "How close two firings of an alarm may follow each other"),
    key(
        "feeds.missed",
        r#""once""#,
        "What becomes of an alarm's instants that pass while nothing can be fired: once = one firing for the latest, none = nothing",
    ),
    key("feeds.missed_window", r#""1h""#, "How long ago that latest one may be"),
    key(
        "feeds.nats_hosts",
        "[]",
        "Hosts whose NATS servers feeds may connect to: HOST, *.DOMAIN or *, with :PORT if it is not 4222; none = there are no such feeds",
    ),
    key(
        "feeds.nats_allow_private",
        "false",
        "Whether those may have addresses of this machine and of private networks",
    ),
    key(
        "feeds.nats_connections",
        "256",
        "Connections to NATS at once, one for each trigger; further feeds wait",
    ),
    key("feeds.nats_connections_per_namespace", "16", "Those of one namespace"),
    key("store.max_age", r#""168h""#, "How long activation records are kept; 0 = at any age"),
    key(
        "store.max_size",
        r#""10GB""#,
        "How much activation records may take before the oldest are removed; 0 = no bound",
    ),
    key(
        "store.sync",
        r#""durable""#,
        "What an acknowledged write survives: durable = a power cut, process-only = the end of the process (for tests)",
    ),
    key(
        "network.dns",
        r#"["9.9.9.9"]"#,
        "Name servers for functions with network egress; empty = the host's own where a function can reach them",
    ),
    key(
        "network.allow_private",
        "false",
        "Whether functions with network egress reach private addresses (10.0.0.0/8 and the like)",
    ),
    key(
        "gate.enabled",
        "true",
        "Whether functions with the annotation provide-api-key reach the OpenWhisk API from their sandboxes; without it `__OW_API_HOST` names an address that they do not reach",
    ),
    key(
        "gate.port",
        "3233",
        "Where they find it, on the loopback of their sandbox; they cannot use the port themselves",
    ),
    key("gate.connections", "64", "Connections to it at once from one instance; further ones wait"),
    key(
        "gate.max_connections",
        "4096",
        "Connections to it at once from all instances together, at most half of them one namespace's; further ones wait. Fewer with a low limit of open files",
    ),
    key(
        "gate.idle_timeout",
        r#""15s""#,
        "How long such a connection may stay idle, take to send a request's head, or leave an answer unread",
    ),
    key(
        "sandbox.uid_base",
        "1600000",
        "First user id of the range that instances run as; ignored without root",
    ),
    key("sandbox.spare_networks", "8", "Empty network namespaces kept ready"),
    key(
        "sandbox.recycle",
        "256",
        "Ended instances whose cgroup and network are kept for the next instance of the same function",
    ),
    key(
        "sandbox.favor_cgroup_moves",
        "true",
        "As root: set the option favordynmods of this host's cgroup v2 when the first function is frozen. Without it a fork after a pause takes some 10 ms longer. It makes starting processes on the whole host a little dearer, and stays set until the next boot",
    ),
    key(
        "runtimes.search",
        r#"["/opt/node", "/opt/pyenv/versions"]"#,
        "Where language runtimes are looked for besides PATH: folders with programs, installations with a bin, or folders of installations, as version managers keep them",
    ),
    key("prepare.max_files", "65536", "Most files, folders and links in an archive of code"),
    key("prepare.max_unpacked", r#""512MB""#, "Most bytes in an archive of code, uncompressed"),
    key(
        "prepare.min_free",
        r#""1GB""#,
        "Free space that deploys leave on the data directory's disk; absent = 1 GB, or a twentieth of a smaller disk",
    ),
    key(
        "prepare.per_namespace",
        r#""10GB""#,
        "The most that the unpacked code of one namespace may take of the data directory's disk; 0 = no bound",
    ),
    key("prepare.build_timeout", r#""1min""#, "How long a build step at deploy may take"),
    key("prepare.build_memory", r#""1GB""#, "Memory for a build step at deploy"),
    key("prepare.build_size", r#""256MB""#, "Most bytes that a build step at deploy may write"),
    key(
        "prepare.concurrent_builds",
        "2",
        "Builds at once, of which the namespaces that wait take turns; absent = one for every two processors",
    ),
    key(
        "snapshot.standbys",
        "4",
        "The most clones that are forked ahead of need for one busy function; 0 = none",
    ),
    key(
        "snapshot.idle",
        r#""1h""#,
        "How long a snapshot that is not called, and that nothing runs from, is kept; the next calls start in a prewarmed runtime, and the sixth within that time makes it anew",
    ),
    key("snapshot.warmup_calls", "2000", "The most calls that a function's warm-up events are repeated in"),
    key("snapshot.warmup_budget", r#""10s""#, "How long that may take"),
    key(
        "snapshot.made_at_once",
        "1",
        "How many snapshots for which no call waits are made at a time, so that calls find processors beside them: after a restart, one for each function that is called; built in: half of the cores",
    ),
    key("snapshot.huge_pages", "true", "Move the heaps of snapshots to huge pages, where the host has them"),
    key(
        "wasm.instances",
        "4000",
        "Wasm instances at once; absent = what pool.memory and the host's vm.max_map_count allow (`flint doctor` says which)",
    ),
    key(
        "wasm.keep_resident",
        r#""2MB""#,
        "How much of an instance's memory stays in RAM for the next instance of the same code; what functions write beyond it makes each call slower",
    ),
    key("wasm.table_keep_resident", r#""64KB""#, "The same for a table of functions"),
    key("wasm.table_elements", "20000", "The most elements of an instance's table of functions"),
    key("wasm.stack", r#""1MB""#, "The deepest stack of a Wasm function, 64KB to 64MB"),
    key(
        "wasm.fuel",
        "0",
        "Units of work that a call may do, about one for each Wasm instruction; 0 = not counted, which is quicker",
    ),
    key("wasm.max_module", r#""64MB""#, "The largest module or component that is compiled"),
    key("wasm.compile_timeout", r#""1min""#, "How long compiling one may take, and how long its initialiser"),
    key(
        "wasm.compile_memory",
        r#""2GB""#,
        "The most memory that compiling one may take, or running its initialiser, each in a process of its own",
    ),
    key(
        "wasm.http_0_3",
        "true",
        "Run components for wasi:http 0.3 as well, up to 256 at once. Off, because wasmtime calls its implementation experimental and gives it no security patches",
    ),
    key(
        "wasm.threads",
        "1",
        "Threads for Wasm calls that compute for longer than 10 ms, at most 1024; built in: half of the cores",
    ),
    key("wasm.keyvalue_keys", "100000", "How many keys a namespace may keep in its `wasi:keyvalue` buckets"),
    key("wasm.keyvalue_size", r#""64MB""#, "How much it may keep there, keys and values together"),
    key(
        "log.filter",
        r#""info""#,
        "What is logged: a level, or levels by module, such as info,flint_invoker=debug",
    ),
    key("log.format", r#""text""#, "text or json"),
    key(
        "metrics.functions",
        "500",
        "How many functions have metrics of their own; the others are counted together",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Config;

    fn leaves(prefix: &str, value: &serde_json::Value, into: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    leaves(&path, value, into);
                }
            }
            _ => {
                into.insert(prefix.to_owned());
            }
        }
    }

    #[test]
    fn every_key_is_listed_and_every_listed_key_exists() {
        let mut in_types = BTreeSet::new();
        leaves("", &serde_json::to_value(Config::default()).unwrap(), &mut in_types);
        let listed: BTreeSet<_> = KEYS.iter().map(|key| key.path.to_owned()).collect();
        let missing: Vec<_> = in_types.difference(&listed).collect();
        assert!(missing.is_empty(), "keys without a meaning: {missing:?}");
        for key in KEYS {
            let (section, name) = key.path.split_once('.').unwrap();
            let toml = format!("[{section}]\n{name} = {}", key.example);
            let parsed: Result<Config, _> = toml::from_str(&toml);
            assert!(parsed.is_ok(), "{toml}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn the_reference_lists_every_key() {
        let reference = include_str!("../../../../docs/configuration.md");
        for key in KEYS {
            assert!(
                reference.contains(&format!("`{}`", key.path)),
                "docs/configuration.md does not mention {}",
                key.path
            );
        }
    }
}
