//! The options of the commands that deploy and call.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;
use flint_model::{Contract, HostPattern, Isolation, Jit, Network, Reuse, SecretBinding, Start};
use serde_json::{Value, value::RawValue};

use super::{ManifestArgs, RetryArgs, values};

/// What a function is to be; each wins over the directory's flint.toml.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct FunctionArgs {
    /// Function name, `name` or `package/name` [default: name of the file or directory]
    #[arg(long, value_name = "NAME", value_parser = values::function_name)]
    pub(crate) name: Option<String>,
    /// Runtime, `family` or `family:version` [default: by extension and content]
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Entry point: a function; for Java `Class` or `Class#method`; for a build of several programs, the one to use
    #[arg(long)]
    pub(crate) main: Option<String>,
    /// How the code receives a call: handler, stdio, http, openwhisk, actionloop, skeleton; for WebAssembly wasm-core, wasi-command, wasi-http
    /// [default: by kind and content]
    #[arg(long)]
    pub(crate) contract: Option<Contract>,
    /// Memory limit of an instance, in MB
    #[arg(long, value_name = "MB", value_parser = values::mebibytes)]
    pub(crate) memory: Option<u64>,
    /// Time limit for loading the code and for each call: 500ms, 60s, 5m
    #[arg(long, value_parser = values::duration)]
    pub(crate) timeout: Option<Duration>,
    /// Log limit of an activation, in MB
    #[arg(long, value_name = "MB", value_parser = values::mebibytes)]
    pub(crate) logs: Option<u64>,
    /// CPU limit in cores: 0.5, or 500m
    #[arg(long, value_name = "CORES", value_parser = values::cpu_millis)]
    pub(crate) cpu: Option<u32>,
    /// What isolates an instance: process, wasm; not available yet: gvisor, microvm [default: wasm for the contracts of WebAssembly, else process]
    #[arg(long)]
    pub(crate) isolation: Option<Isolation>,
    /// How instances are started: spawn, fork, instantiate; not available yet: restore [default: instantiate for isolation wasm; fork for Node.js and
    /// Python handlers if the host can; else spawn]
    #[arg(long)]
    pub(crate) start: Option<Start>,
    /// Whether an instance is reused after a call: never, warm [default: never if forked, for the contract stdio and for isolation wasm; else warm]
    #[arg(long)]
    pub(crate) reuse: Option<Reuse>,
    /// Warm-up call before the snapshot is taken: a .json file holds arguments, any other a request body; `none` = no warm-up calls,
    /// whatever flint.toml names. Repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) warmup: Vec<PathBuf>,
    /// Warm-up calls from a JSON array of events: {"params":…}, or {"body":BASE64,"content_type":…}
    #[arg(long, value_name = "FILE")]
    pub(crate) warmup_list: Option<PathBuf>,
    /// Allow the warm-up to use the function's network
    #[arg(long)]
    pub(crate) warmup_network: bool,
    /// Do not optimise the code that the warm-up reaches; for Java, write no class archive
    #[arg(long)]
    pub(crate) no_annotate: bool,
    /// Compile what can be compiled, unless that changes a result of the warm-up: numba (Python)
    #[arg(long)]
    pub(crate) jit: Option<Jit>,
    /// Host that a WebAssembly function may send HTTP requests to: [http://|https://]HOST[:PORT]; HOST is a name, *.NAME or *. Repeatable
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allow_hosts: Vec<HostPattern>,
    /// Allow a WebAssembly function to use its namespace's key-value buckets
    #[arg(long)]
    pub(crate) keyvalue: bool,
    /// Value that a WebAssembly function reads through wasi:config. Repeatable
    #[arg(long = "wasm-config", value_name = "K=V", value_parser = values::pair)]
    pub(crate) wasm_config: Vec<(String, String)>,
    /// Do not run a WebAssembly module's initialiser at deploy
    #[arg(long)]
    pub(crate) no_preinit: bool,
    /// Maximum concurrent calls in one instance
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<NonZeroU32>,
    #[command(flatten)]
    pub(crate) retry: RetryArgs,
    /// What the function may connect to: none, egress
    #[arg(long)]
    pub(crate) network: Option<Network>,
    /// Time limit for building to WebAssembly, if a build is needed [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) build_timeout: Option<Duration>,
    /// Default argument; JSON if it parses as JSON. Repeatable
    #[arg(long = "param", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) params: Vec<(String, Value)>,
    /// Environment variable, set when the code is loaded. Repeatable
    #[arg(long = "init-param", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) init_params: Vec<(String, Value)>,
    /// Secret of the namespace to put in the environment [default variable: the secret's name]. Repeatable
    #[arg(long = "secret", value_name = "NAME[=VARIABLE]")]
    pub(crate) secrets: Vec<SecretBinding>,
    /// Annotation. Repeatable
    #[arg(long = "annotation", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) annotations: Vec<(String, Value)>,
}

#[derive(Debug, Args)]
#[command(override_usage = "flint deploy [OPTIONS] <PATH>\n       flint deploy -f <MANIFEST> [OPTIONS]")]
pub(crate) struct DeployArgs {
    /// File (.wasm .c .go .js .mjs .cjs .py .php .rb .java .jar .zip .tar.gz .tgz or an executable) or directory to deploy
    #[arg(required_unless_present = "manifest", conflicts_with = "manifest")]
    pub(crate) path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) function: FunctionArgs,
    #[command(flatten)]
    pub(crate) manifest: ManifestArgs,
}

/// What a call is given.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CallArgs {
    /// Argument; JSON if it parses as JSON. With -f it is sent in the query. Repeatable
    #[arg(short = 'p', long = "param", value_name = "K=V", value_parser = values::argument)]
    pub(crate) params: Vec<(String, Box<RawValue>)>,
    /// File with a JSON object of arguments; `-` is stdin
    #[arg(short = 'P', long = "param-file", value_name = "FILE")]
    pub(crate) param_file: Option<PathBuf>,
    /// File to send as the request body; `-` is stdin. Its extension sets the content type
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Request header, 'Name: value'. Repeatable
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = values::header)]
    pub(crate) headers: Vec<(http::HeaderName, http::HeaderValue)>,
}

#[derive(Debug, Args)]
pub(crate) struct InvokeArgs {
    /// Function to call; NAME@VERSION and NAME@ALIAS select a version
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) call: CallArgs,
    /// Write the response to a file
    #[arg(short = 'o', long = "output", value_name = "FILE", conflicts_with = "asynchronous")]
    pub(crate) output: Option<PathBuf>,
    /// Do not wait for the result: print the activation ID once the call is durably accepted
    #[arg(long = "async")]
    pub(crate) asynchronous: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// File or directory to watch
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) function: FunctionArgs,
    /// Argument of each call; JSON if it parses as JSON. Repeatable
    #[arg(short = 'p', value_name = "K=V", value_parser = values::argument)]
    pub(crate) call_params: Vec<(String, Box<RawValue>)>,
    /// File with a JSON object of arguments
    #[arg(short = 'P', long = "param-file", value_name = "FILE")]
    pub(crate) param_file: Option<PathBuf>,
    /// File to send as the request body
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Deploy and call once, then exit
    #[arg(long)]
    pub(crate) once: bool,
}
