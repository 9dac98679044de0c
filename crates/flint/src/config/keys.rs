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
        "Address and port to listen on; an address other than loopback requires that a key exists (`flint namespace create`)",
    ),
    key("server.data_dir", r#""/var/lib/flint""#, "The data directory; each server needs its own"),
    key("server.threads", "1", "Threads that serve requests; by default half of the cores"),
    key(
        "server.max_connections",
        "8192",
        "Maximum concurrent connections. Further ones end idle ones, those never or long not used first; where all have a request, they wait. Lowered if the open-file limit would leave too few files for functions",
    ),
    key("server.max_header", r#""64KB""#, "Maximum size of a request head, at least 8KB"),
    key(
        "server.header_timeout",
        r#""15s""#,
        "Maximum time for a client to send a request head, and for a connection to stay idle",
    ),
    key("server.drain_timeout", r#""15s""#, "How long a stopping server waits for running calls"),
    key(
        "server.credential_ttl",
        r#""30s""#,
        "How long a verified key is cached, which saves a look-up for each request. Removing or blocking a key takes effect at once on this server",
    ),
    key("server.collect_every", r#""10min""#, "How often unused code and artefacts are removed"),
    key(
        "server.rewarm",
        r#""1h""#,
        "After a start, functions called within this time are made ready again before their next calls; 0 = none",
    ),
    key(
        "server.web_hosts",
        r#"["faas.example.com"]"#,
        "Hosts under which each namespace has a subdomain for its web actions: NAMESPACE.HOST/PACKAGE/ACTION",
    ),
    key(
        "limits.invocations_per_minute",
        "60000",
        "Maximum calls per minute per namespace; 0 = none are admitted",
    ),
    key(
        "limits.concurrent_invocations",
        "1000",
        "Maximum concurrent calls per namespace, queued or running; 0 = none are admitted",
    ),
    key(
        "limits.fires_per_minute",
        "60000",
        "Maximum trigger firings per minute per namespace; 0 = none are admitted",
    ),
    key("limits.min_timeout", r#""100ms""#, "Shortest time limit that a function may request"),
    key("limits.max_timeout", r#""5min""#, "Longest time limit that a function may request"),
    key("limits.min_memory", r#""128MB""#, "Smallest memory limit that a function may request"),
    key("limits.max_memory", r#""512MB""#, "Largest memory limit that a function may request"),
    key("limits.min_logs", "0", "Smallest log limit that a function may request"),
    key("limits.max_logs", r#""10MB""#, "Largest log limit that a function may request"),
    key(
        "limits.max_concurrency",
        "1",
        "Largest number of concurrent calls per instance that a function may request",
    ),
    key(
        "limits.max_sequence",
        "50",
        "Maximum functions in a sequence, and maximum functions that a composition calls",
    ),
    key("limits.max_code", r#""48MB""#, "Maximum size of a function's code"),
    key(
        "limits.max_parameters",
        r#""1MB""#,
        "Maximum size of a function's parameters, and of its annotations",
    ),
    key("limits.max_payload", r#""1MB""#, "Maximum size of a call's JSON body"),
    key(
        "limits.max_result",
        r#""1MB""#,
        "Maximum size of a call's JSON result; a record holds up to 64 MB of result and annotations, and says if the result was too large",
    ),
    key("limits.truncation", r#""1MB""#, "How much of an oversized result its error shows"),
    key("limits.max_body", r#""256MB""#, "Maximum size of a call's binary or streamed body"),
    key(
        "limits.max_blocking_wait",
        r#""1min""#,
        "How long a blocking call waits before it is answered with 202 and continues in the background",
    ),
    key("defaults.timeout", r#""1min""#, "Time limit of a function that requests none"),
    key("defaults.memory", r#""256MB""#, "Memory limit of a function that requests none"),
    key("defaults.logs", r#""10MB""#, "Log limit of a function that requests none"),
    key(
        "defaults.cpu_millis",
        "1000",
        "CPU limit of a function that requests none, in thousandths of a core",
    ),
    key("defaults.processes", "1024", "Maximum processes and threads of a function that requests no limit"),
    key("defaults.tmp", r#""64MB""#, "Size of /tmp of a function that requests none"),
    key(
        "pool.memory",
        r#""4GB""#,
        "Memory for all instances together; if unset, 60 % of the host's or the cgroup's memory",
    ),
    key(
        "pool.nested_memory",
        r#""1GB""#,
        "Additional memory for calls that functions wait for; if unset, a quarter of pool.memory",
    ),
    key(
        "pool.start_charge",
        r#""64MB""#,
        "Memory charged for an instance of a function that has never been measured",
    ),
    key("pool.keep_alive", r#""10min""#, "How long an idle instance is kept"),
    key("pool.keep_alive_forked", r#""30s""#, "How long an idle clone of a snapshot is kept"),
    key(
        "pool.pause_grace",
        r#""10s""#,
        "How long an instance is idle before it is paused (gets no CPU time)",
    ),
    key(
        "pool.protected",
        r#""1min""#,
        "How long an idle instance is protected from eviction for a namespace that exceeds its share",
    ),
    key("pool.sample_every", r#""1s""#, "How often the memory of recently used instances is measured"),
    key("pool.stopping", "64", "Maximum instances being stopped at once"),
    key(
        "pool.prewarm",
        "1",
        "Runtimes of each kind to keep started without a function; 0 = none, nor a Java compiler",
    ),
    key(
        "pool.prewarm_kinds",
        r#"["nodejs:20"]"#,
        "Runtimes to prewarm, `nodejs` or `nodejs:default` for this host's default one; if unset, the default Node.js and Python",
    ),
    key(
        "pool.prewarm_memory",
        r#""256MB""#,
        "Memory limit of prewarmed runtimes; they serve functions with this limit",
    ),
    key("queue.per_function", "1000", "Maximum calls of one function that wait for an instance"),
    key("queue.total", "10000", "Maximum calls of all functions together that wait for an instance"),
    key("queue.max_wait", r#""1min""#, "Maximum time that a call waits for an instance"),
    key("queue.starts", "4", "Maximum instances being started at once; if unset, two per core"),
    key(
        "queue.starts_per_function",
        "4",
        "Maximum instances of one function being started at once; if unset, two per core",
    ),
    key(
        "async.max_attempts",
        "3",
        "Maximum attempts of an accepted call when Flint or the host fails, if its function has no retry settings",
    ),
    key(
        "async.running",
        "256",
        "Maximum accepted calls that run at once, not counting sequences and compositions; one namespace leaves others a quarter",
    ),
    key("async.waiting", "4096", "Maximum accepted calls that wait in memory; the rest wait on disk"),
    key("async.lease", r#""1min""#, "How long a server that stops responding keeps its calls from others"),
    key("async.retry_delay", r#""1s""#, "Delay before the first retry; doubled for each further one"),
    key("async.retry_max_delay", r#""5min""#, "Maximum delay before a retry"),
    key(
        "async.retries_running",
        "64",
        "Maximum retried calls of one namespace that run at once; never more than half of its limits.concurrent_invocations",
    ),
    key(
        "async.retries_waiting",
        "10000",
        "Maximum calls of one namespace that wait for a retry or, at most half of them, are put off; calls that fail beyond that become dead letters",
    ),
    key(
        "async.retries_waiting_size",
        r#""64MB""#,
        "Maximum size of the calls of one namespace that wait for a retry, arguments and attempts included",
    ),
    key(
        "async.put_off_for",
        r#""24h""#,
        "How long after its acceptance a call that the host cannot run is put off; then it is attempted like any other; 0 = not at all",
    ),
    key("dead_letters.max_count", "10000", "Maximum dead letters of one namespace; 0 = none are kept"),
    key(
        "dead_letters.max_size",
        r#""64MB""#,
        "Maximum size of one namespace's dead letters, arguments and attempts included",
    ),
    key("dead_letters.max_age", r#""336h""#, "How long dead letters are kept; 0 = no limit"),
    key(
        "dead_letters.when_full",
        r#""drop-oldest""#,
        "Which dead letter is dropped when there is no room: drop-oldest or drop-newest",
    ),
    key(
        "versions.keep",
        "10",
        "Earlier versions of a function to keep, besides those that an alias names; 0 = none",
    ),
    key("versions.max_aliases", "32", "Maximum aliases of a function"),
    key(
        "secrets.key_file",
        r#""/etc/flint/secrets.key""#,
        "File with the encryption keys of secrets, 64 hex digits per line: the first encrypts, all decrypt; if unset, secrets.key in the data directory, created when first needed",
    ),
    key(
        "secrets.key_env",
        r#""FLINT_SECRETS_KEY""#,
        "Name of an environment variable of the server that holds the keys instead, separated by commas",
    ),
    key("secrets.per_namespace", "100", "Maximum secrets of a namespace"),
    key("secrets.max_size", r#""64KB""#, "Maximum size of a secret"),
    key("feeds.per_namespace", "100", "Maximum triggers of a namespace that have a feed of /whisk.system"),
    key("feeds.min_interval", r#""1s""#, "Minimum interval between two firings of an alarm"),
    key(
        "feeds.missed",
        r#""once""#,
        "How missed firings of an alarm are handled: once = fire once, for the latest; none = skip them all",
    ),
    key("feeds.missed_window", r#""1h""#, "Maximum age of a missed firing that is made up for"),
    key(
        "feeds.nats_hosts",
        "[]",
        "Hosts whose NATS servers feeds may connect to: HOST, *.DOMAIN or *, with :PORT if it is not 4222; if empty, there are no NATS feeds",
    ),
    key(
        "feeds.nats_allow_private",
        "false",
        "Allow NATS servers at addresses of this machine and of private networks",
    ),
    key(
        "feeds.nats_connections",
        "256",
        "Maximum concurrent NATS connections, one per trigger; further feeds wait",
    ),
    key("feeds.nats_connections_per_namespace", "16", "Maximum concurrent NATS connections of one namespace"),
    key("store.max_age", r#""168h""#, "How long activation records are kept; 0 = no limit"),
    key(
        "store.max_size",
        r#""10GB""#,
        "Maximum size of all activation records, beyond which the oldest are removed; 0 = no limit",
    ),
    key(
        "store.sync",
        r#""durable""#,
        "What an acknowledged write survives: durable = a power failure, process-only = the end of the process (for tests)",
    ),
    key(
        "network.dns",
        r#"["9.9.9.9"]"#,
        "Name servers for functions with network egress; if empty, those of the host's /etc/resolv.conf that are not loopback addresses",
    ),
    key(
        "network.allow_private",
        "false",
        "Allow functions with network egress to reach private addresses (10.0.0.0/8 and the like)",
    ),
    key(
        "gate.enabled",
        "true",
        "Allow functions with the annotation provide-api-key to reach the OpenWhisk API from their sandboxes; if false, `__OW_API_HOST` names an address that they cannot reach",
    ),
    key(
        "gate.port",
        "3233",
        "Port of the OpenWhisk API on a sandbox's loopback address; functions cannot use this port themselves",
    ),
    key(
        "gate.connections",
        "64",
        "Maximum concurrent connections to the OpenWhisk API from one instance; further ones wait",
    ),
    key(
        "gate.max_connections",
        "4096",
        "Maximum concurrent connections to the OpenWhisk API from all instances together, at most half of them from one namespace; further ones wait. Lowered if the open-file limit is low",
    ),
    key(
        "gate.idle_timeout",
        r#""15s""#,
        "How long a connection to the OpenWhisk API may stay idle, take to send a request head, or leave a response unread",
    ),
    key(
        "sandbox.uid_base",
        "1600000",
        "First user ID of the range that instances run as; ignored without root. Several servers on one host should each have a range of their own",
    ),
    key("sandbox.spare_networks", "8", "Empty network namespaces to keep ready"),
    key(
        "sandbox.recycle",
        "256",
        "Ended instances whose cgroup and network are kept for the next instance of the same function",
    ),
    key(
        "sandbox.favor_cgroup_moves",
        "true",
        "As root: set the option favordynmods of this host's cgroup v2 when the first function is frozen. Without it, a fork after a pause takes about 10 ms longer; with it, starting a process costs slightly more on the whole host. It stays set until the next boot",
    ),
    key(
        "runtimes.search",
        r#"["/opt/node", "/opt/pyenv/versions"]"#,
        "Where to look for language runtimes besides PATH: directories with programs, installations with a bin directory, or directories of installations, as version managers keep them",
    ),
    key("prepare.max_files", "65536", "Maximum files, directories and links in a code archive"),
    key("prepare.max_unpacked", r#""512MB""#, "Maximum uncompressed size of a code archive"),
    key(
        "prepare.min_free",
        r#""1GB""#,
        "Free space that deploys leave on the data directory's disk; if unset, 1 GB, or a twentieth of a smaller disk",
    ),
    key(
        "prepare.per_namespace",
        r#""10GB""#,
        "Maximum space on the data directory's disk for the unpacked code of one namespace; 0 = no limit",
    ),
    key("prepare.build_timeout", r#""1min""#, "Time limit of a build step at deploy"),
    key("prepare.build_memory", r#""1GB""#, "Memory limit of a build step at deploy"),
    key("prepare.build_size", r#""256MB""#, "Maximum bytes that a build step at deploy may write"),
    key(
        "prepare.concurrent_builds",
        "2",
        "Maximum concurrent builds; waiting namespaces take turns; if unset, one for every two processors",
    ),
    key("snapshot.standbys", "4", "Maximum clones forked ahead of demand for one busy function; 0 = none"),
    key(
        "snapshot.standby_idle",
        r#""10min""#,
        "How long after its last call a function keeps one of them. A function whose calls are further apart has none",
    ),
    key(
        "snapshot.idle",
        r#""1h""#,
        "How long an unused snapshot (not called, nothing running from it) is kept; after that, calls start in a prewarmed runtime, and the sixth within this time recreates the snapshot",
    ),
    key("snapshot.warmup_calls", "2000", "Maximum calls in which a function's warm-up events are repeated"),
    key("snapshot.warmup_budget", r#""10s""#, "Time limit for warming up a function"),
    key(
        "snapshot.made_at_once",
        "1",
        "Maximum snapshots created at once that no call waits for, which leaves processors to calls; one namespace has at most half of them, rounded up. After a restart there is one for each function that is called, and one for each deploy of what was frozen before; by default half of the cores",
    ),
    key("snapshot.huge_pages", "true", "Move the heaps of snapshots to huge pages where the host has them"),
    key(
        "wasm.instances",
        "4000",
        "Maximum concurrent Wasm instances; if unset, what pool.memory and the host's vm.max_map_count allow (`flint doctor` says which), at most 20,000",
    ),
    key(
        "wasm.keep_resident",
        r#""2MB""#,
        "How much of an instance's memory stays in RAM for the next instance of the same code; writing more than that makes each call slower",
    ),
    key(
        "wasm.table_keep_resident",
        r#""64KB""#,
        "How much of an instance's table of functions stays in RAM for the next instance of the same code",
    ),
    key("wasm.table_elements", "20000", "Maximum elements of an instance's table of functions"),
    key("wasm.stack", r#""1MB""#, "Maximum stack of a Wasm function, 64KB to 64MB"),
    key(
        "wasm.fuel",
        "0",
        "Units of work that a call may do, about one per Wasm instruction; 0 = not counted, which is faster",
    ),
    key("wasm.max_module", r#""64MB""#, "Maximum size of a module or component to compile"),
    key(
        "wasm.compile_timeout",
        r#""1min""#,
        "Time limit for compiling a module or component, and for running its initialiser",
    ),
    key(
        "wasm.compile_memory",
        r#""2GB""#,
        "Memory limit for compiling a module or component, and for running its initialiser, each in its own process",
    ),
    key(
        "wasm.http_0_3",
        "true",
        "Also run components for wasi:http 0.3, up to 256 at once. Off by default, because wasmtime calls its implementation experimental and gives it no security patches",
    ),
    key(
        "wasm.threads",
        "1",
        "Threads for Wasm calls that compute for longer than 10 ms, at most 1024; by default half of the cores",
    ),
    key("wasm.keyvalue_keys", "100000", "Maximum keys in the `wasi:keyvalue` buckets of a namespace"),
    key(
        "wasm.keyvalue_size",
        r#""64MB""#,
        "Maximum size of the `wasi:keyvalue` buckets of a namespace, keys and values together",
    ),
    key("log.filter", r#""info""#, "Log level, or levels by module, such as info,flint_invoker=debug"),
    key("log.format", r#""text""#, "Log format: text or json"),
    key(
        "metrics.functions",
        "500",
        "Maximum functions with metrics of their own; the others are counted together",
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
