//! What a function is granted, and what all functions share.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use flint_gate::Gates;
use flint_model::{ByteSize, Function, HostPattern, NamespaceName};
use flint_store::{KeyValue, KeyValueQuota};
use wasmtime_wasi_config::WasiConfigVariables;

use super::{
    OpenFiles,
    http::{HttpBounds, HttpClient, Reach},
};

/// What an initialiser is called, whatever function it is of: several share what it leaves.
const INITIALISED_AS: &str = "function";

/// What functions get at through their grants.
#[derive(Clone)]
#[repr(align(128))]
pub struct Services {
    /// Where buckets are kept; absent: there are none on this server.
    pub values: Option<Arc<dyn KeyValue>>,
    /// How much a namespace may keep there.
    pub quota: KeyValueQuota,
    /// What sends their requests.
    pub http: Arc<HttpClient>,
    /// How they reach the server's own API; absent: they do not.
    pub gates: Option<Gates>,
    /// The files that they have open together.
    pub files: OpenFiles,
}

impl Services {
    /// How much a namespace may keep unless the operator says otherwise.
    pub const QUOTA: KeyValueQuota = KeyValueQuota { keys: 100_000, bytes: ByteSize::mib(64) };

    /// With the usual bounds, and no way to the server's API. Files are a part of what this process may have open by now.
    pub fn new(values: Option<Arc<dyn KeyValue>>) -> Result<Self, rustls::Error> {
        let http = Arc::new(HttpClient::new(HttpBounds::default(), Reach::Public)?);
        Ok(Self { values, quota: Self::QUOTA, http, gates: None, files: OpenFiles::of_this_process() })
    }
}

/// What one function is granted, the same for all its calls.
#[repr(align(128))]
pub struct Grants {
    /// Whose buckets it uses.
    pub(super) namespace: NamespaceName,
    /// What it is called, as its first argument.
    pub(super) name: String,
    pub(super) allow_hosts: Arc<[HostPattern]>,
    pub(super) key_value: bool,
    pub(super) config: WasiConfigVariables,
    /// The folder that it sees as `/assets`.
    pub(super) assets: Option<PathBuf>,
    /// Set when random bytes were drawn; then these are no secret.
    pub(super) drawn: Option<Arc<AtomicBool>>,
}

impl Grants {
    /// What the function says, with the folder of its assets when it brought some.
    pub fn of(function: &Function, assets: Option<PathBuf>) -> Self {
        let options = &function.wasm;
        Self {
            namespace: function.path.namespace.clone(),
            name: function.path.name.to_string(),
            allow_hosts: options.allow_hosts.clone().into(),
            key_value: options.keyvalue,
            config: options.config.clone().into_iter().collect(),
            assets,
            drawn: None,
        }
    }

    /// What an initialiser in a namespace is granted when its code is deployed: its assets, and nothing that differs from call to call, from
    /// one function of this code to the next, or that another function could have changed. Random bytes are all the same; that some were drawn is
    /// told by the flag.
    pub(crate) fn of_initialiser(
        namespace: &NamespaceName,
        assets: Option<PathBuf>,
    ) -> (Self, Arc<AtomicBool>) {
        let drawn = Arc::new(AtomicBool::new(false));
        let grants = Self {
            namespace: namespace.clone(),
            name: INITIALISED_AS.to_owned(),
            allow_hosts: [].into(),
            key_value: false,
            config: WasiConfigVariables::new(),
            assets,
            drawn: Some(Arc::clone(&drawn)),
        };
        (grants, drawn)
    }
}
