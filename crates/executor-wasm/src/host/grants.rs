//! What a function is granted, and the services that all functions share.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use flint_gate::Gates;
use flint_model::{ByteSize, Function, HostPattern, NamespaceName, Timestamp};
use flint_store::{KeyValue, KeyValueQuota};
use wasmtime_wasi_config::WasiConfigVariables;

use super::{
    OpenFiles, ValueTurns,
    http::{HttpBounds, HttpClient, Reach},
};

/// The program name given to initialisers, whatever the function, since several functions share the result.
const INITIALISED_AS: &str = "function";

/// The services that functions use through their grants.
#[derive(Clone)]
#[repr(align(128))]
pub struct Services {
    /// The store of buckets; `None` if this server has none.
    pub values: Option<Arc<dyn KeyValue>>,
    /// A namespace's quota in that store.
    pub quota: KeyValueQuota,
    /// Limits how much of that store's time they take.
    pub turns: ValueTurns,
    /// The client that sends their requests.
    pub http: Arc<HttpClient>,
    /// Access to the server's own API; `None` if there is none.
    pub gates: Option<Gates>,
    /// Limits the files that they have open together.
    pub files: OpenFiles,
}

impl Services {
    /// A namespace's default quota.
    pub const QUOTA: KeyValueQuota = KeyValueQuota { keys: 100_000, bytes: ByteSize::mib(64) };

    /// Services with the default limits and without access to the server's API. The limit on files is a
    /// fraction of this process's.
    pub fn new(values: Option<Arc<dyn KeyValue>>) -> Result<Self, rustls::Error> {
        let http = Arc::new(HttpClient::new(HttpBounds::default(), Reach::Public)?);
        let (turns, files) = (ValueTurns::default(), OpenFiles::of_this_process());
        Ok(Self { values, quota: Self::QUOTA, turns, http, gates: None, files })
    }
}

/// What one function is granted in all its calls.
#[repr(align(128))]
pub struct Grants {
    /// The namespace whose buckets it uses.
    pub(super) namespace: NamespaceName,
    /// When it was written: it has no part in a namespace of that name that was created later.
    pub(super) as_of: Timestamp,
    /// Its name, given as its first argument.
    pub(super) name: String,
    pub(super) allow_hosts: Arc<[HostPattern]>,
    pub(super) key_value: bool,
    pub(super) config: WasiConfigVariables,
    /// The directory that it sees as `/assets`.
    pub(super) assets: Option<PathBuf>,
    /// Set when random bytes are drawn. If present, those are constant and not secret.
    pub(super) drawn: Option<Arc<AtomicBool>>,
}

impl Grants {
    /// The function's own grants, and the directory of its assets if it has any.
    pub fn of(function: &Function, assets: Option<PathBuf>) -> Self {
        let options = &function.wasm;
        Self {
            namespace: function.path.namespace.clone(),
            as_of: function.updated,
            name: function.path.name.to_string(),
            allow_hosts: options.allow_hosts.clone().into(),
            key_value: options.keyvalue,
            config: options.config.clone().into_iter().collect(),
            assets,
            drawn: None,
        }
    }

    /// Whether its guests have files.
    pub(crate) fn has_files(&self) -> bool {
        self.assets.is_some()
    }

    /// The grants of an initialiser at deploy: its assets, and nothing that differs between calls or between
    /// functions with this code, or that another function could have changed. Random bytes are constant, and
    /// the flag records whether some were drawn.
    pub(crate) fn of_initialiser(
        namespace: &NamespaceName,
        assets: Option<PathBuf>,
    ) -> (Self, Arc<AtomicBool>) {
        let drawn = Arc::new(AtomicBool::new(false));
        let grants = Self {
            namespace: namespace.clone(),
            as_of: Timestamp::default(),
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
