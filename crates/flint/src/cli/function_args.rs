//! The options of the commands that deploy and call.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use clap::Args;
use flint_model::{Contract, HostPattern, Isolation, Jit, Network, Reuse, SecretBinding, Start};
use serde_json::{Value, value::RawValue};

use super::{ManifestArgs, RetryArgs, values};

/// What a function is to be; each wins over the directory's flint.toml.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(crate) struct FunctionArgs {
    /// Its name, `name` or `package/name` [default: the file's or directory's name]
    #[arg(long, value_name = "NAME", value_parser = values::function_name)]
    pub(crate) name: Option<String>,
    /// Its runtime, `family` or `family:version` [default: by extension and content]
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Its entry point: a function, for Java `Class` or `Class#method`; of what is built, the program among several
    #[arg(long)]
    pub(crate) main: Option<String>,
    /// How its code receives a call: handler, stdio, http, openwhisk, …
    #[arg(long)]
    pub(crate) contract: Option<Contract>,
    /// Memory of one instance in MB
    #[arg(long, value_name = "MB", value_parser = values::mebibytes)]
    pub(crate) memory: Option<u64>,
    /// Time for loading, and for each call: 500ms, 60s, 5m
    #[arg(long, value_parser = values::duration)]
    pub(crate) timeout: Option<Duration>,
    /// How much one activation may log, in MB
    #[arg(long, value_name = "MB", value_parser = values::mebibytes)]
    pub(crate) logs: Option<u64>,
    /// CPU time in cores: 0.5, or 500m
    #[arg(long, value_name = "CORES", value_parser = values::cpu_millis)]
    pub(crate) cpu: Option<u32>,
    /// Isolation, at least: process, gvisor, microvm, wasm
    #[arg(long)]
    pub(crate) isolation: Option<Isolation>,
    /// How instances come to be: spawn, fork, restore, instantiate [default: fork for Node.js and Python where the host can, else spawn]
    #[arg(long)]
    pub(crate) start: Option<Start>,
    /// What becomes of an instance after a call: never, warm [default: never for what is forked, else warm]
    #[arg(long)]
    pub(crate) reuse: Option<Reuse>,
    /// Call it with this before its snapshot is taken: a .json file = arguments, any other = a request body; `none` = with nothing,
    /// whatever flint.toml says. Repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) warmup: Vec<PathBuf>,
    /// The same with a JSON array of events: {"params":…}, or {"body":BASE64,"content_type":…}
    #[arg(long, value_name = "FILE")]
    pub(crate) warmup_list: Option<PathBuf>,
    /// Let the warm-up use the function's network
    #[arg(long)]
    pub(crate) warmup_network: bool,
    /// Do not drive what the warm-up reaches to optimised code
    #[arg(long)]
    pub(crate) no_annotate: bool,
    /// Compile what can be, if that changes no result of the warm-up: numba (Python)
    #[arg(long)]
    pub(crate) jit: Option<Jit>,
    /// Where a WebAssembly function may send HTTP requests: [http://|https://]HOST[:PORT], HOST a name, *.NAME or *. Repeatable
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) allow_hosts: Vec<HostPattern>,
    /// Let a WebAssembly function use its namespace's key-value buckets
    #[arg(long)]
    pub(crate) keyvalue: bool,
    /// What wasi:config tells a WebAssembly function. Repeatable
    #[arg(long = "wasm-config", value_name = "K=V", value_parser = values::pair)]
    pub(crate) wasm_config: Vec<(String, String)>,
    /// Do not run a WebAssembly module's initialiser at deploy
    #[arg(long)]
    pub(crate) no_preinit: bool,
    /// Calls at once in one instance
    #[arg(long, value_name = "N")]
    pub(crate) concurrency: Option<NonZeroU32>,
    #[command(flatten)]
    pub(crate) retry: RetryArgs,
    /// What it may connect to: none, egress
    #[arg(long)]
    pub(crate) network: Option<Network>,
    /// Time for building it into WebAssembly, where that is called for [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) build_timeout: Option<Duration>,
    /// A default argument; JSON when it reads as JSON. Repeatable
    #[arg(long = "param", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) params: Vec<(String, Value)>,
    /// An argument for the environment, set when the code is loaded. Repeatable
    #[arg(long = "init-param", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) init_params: Vec<(String, Value)>,
    /// A secret of the namespace that it is given in its environment, by default in the variable of its name. Repeatable
    #[arg(long = "secret", value_name = "NAME[=VARIABLE]")]
    pub(crate) secrets: Vec<SecretBinding>,
    /// An annotation. Repeatable
    #[arg(long = "annotation", value_name = "K=V", value_parser = values::parameter)]
    pub(crate) annotations: Vec<(String, Value)>,
}

#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    /// A file (.wasm .c .go .js .mjs .cjs .py .php .rb .java .jar .zip .tar.gz .tgz or an executable) or a directory
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
    /// An argument; JSON when it reads as JSON. With -f it goes to the query. Repeatable
    #[arg(short = 'p', long = "param", value_name = "K=V", value_parser = values::argument)]
    pub(crate) params: Vec<(String, Box<RawValue>)>,
    /// A file with arguments, a JSON object; `-` is stdin
    #[arg(short = 'P', long = "param-file", value_name = "FILE")]
    pub(crate) param_file: Option<PathBuf>,
    /// A file to send as the request body; `-` is stdin. Its extension gives the content type
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A request header, 'Name: value'. Repeatable
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = values::header)]
    pub(crate) headers: Vec<(http::HeaderName, http::HeaderValue)>,
}

#[derive(Debug, Args)]
pub(crate) struct InvokeArgs {
    /// The function; NAME@VERSION and NAME@ALIAS call a version
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) call: CallArgs,
    /// Write the answer to a file
    #[arg(short = 'o', long = "output", value_name = "FILE", conflicts_with = "asynchronous")]
    pub(crate) output: Option<PathBuf>,
    /// Do not wait: print the activation's id as soon as the call is safely accepted
    #[arg(long = "async")]
    pub(crate) asynchronous: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DevArgs {
    /// A file or a directory to watch
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) function: FunctionArgs,
    /// An argument of each call; JSON when it reads as JSON. Repeatable
    #[arg(short = 'p', value_name = "K=V", value_parser = values::argument)]
    pub(crate) call_params: Vec<(String, Box<RawValue>)>,
    /// A file with arguments, a JSON object
    #[arg(short = 'P', long = "param-file", value_name = "FILE")]
    pub(crate) param_file: Option<PathBuf>,
    /// A file to send as the request body
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Deploy and call once, without watching
    #[arg(long)]
    pub(crate) once: bool,
}
