//! One call's state in the host.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use flint_gate::DirectGate;
use flint_model::{LogStream, NamespaceName};
use rand_core::TryRng;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{
    FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView,
    cli::{StdinStream, StdoutStream},
    p1::WasiP1Ctx,
};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};
use wasmtime_wasi_io::IoView;

use super::{ASSETS, Grants, LogSink, Services, files::CallsFiles, http::Outbound};
use crate::{purse::Purse, tenant::Tenant};

/// Most random bytes that a guest gets at a time; it can ask again.
const MOST_RANDOM: u64 = 1 << 20;
/// Most handles that a guest has at a time: streams, requests, buckets. The objects behind them take the
/// server's memory.
pub(super) const MOST_HANDLES: usize = 2_000;
/// The same for a guest that can open files, each of which takes one of the server's descriptors.
const MOST_WITH_FILES: usize = 512;
/// The same for a core module, whose only handles are files and its streams.
const MOST_FILES: usize = 128;

/// The inputs and outputs of a call.
pub struct CallSeed {
    /// The guest's stdin.
    pub stdin: Box<dyn StdinStream + Sync>,
    /// The guest's stdout: its answer or its log.
    pub stdout: Box<dyn StdoutStream + Sync>,
    /// The destination of its stderr.
    pub logs: LogSink,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Its access to the server's API, if it has any.
    pub gate: Option<Arc<DirectGate>>,
}

/// Data of a store that contains a [`Host`].
pub trait AsHost: Send {
    /// The host.
    fn host(&mut self) -> &mut Host;
}

/// One call's state in the host. Contexts are made on first use: WASI's have random generators to seed, which
/// costs more than a small call.
pub struct Host {
    pub(super) services: Arc<Services>,
    pub(super) grants: Arc<Grants>,
    seed: Option<CallSeed>,
    gate: Option<Arc<DirectGate>>,
    /// The caller's namespace, if the function is another's.
    guest: Option<Arc<Tenant>>,
    /// What the host keeps for the guest is charged to it, if to anybody.
    purse: Option<Purse>,
    /// The call's share of the files that all calls may open; `None` until it can open any.
    files: Option<CallsFiles>,
    /// Only for a core module.
    p1: Option<Box<WasiP1Ctx>>,
    /// Only for a component.
    p2: Option<Box<Context>>,
    wasi: Option<Box<WasiCtx>>,
}

/// A component's state beyond WASI's clocks, files and the like.
pub(super) struct Context {
    http: WasiHttpCtx,
    pub(super) outbound: Outbound,
    pub(super) table: ResourceTable,
}

impl Host {
    /// The state for one call of the function with `grants`.
    pub fn new(services: &Arc<Services>, grants: &Arc<Grants>, mut seed: CallSeed) -> Self {
        let (services, grants, gate) = (Arc::clone(services), Arc::clone(grants), seed.gate.take());
        Self {
            services,
            grants,
            seed: Some(seed),
            gate,
            guest: None,
            purse: None,
            files: None,
            p1: None,
            p2: None,
            wasi: None,
        }
    }

    /// The same for a call whose files and connections count for another namespace than the function's.
    pub(crate) fn charged_to(mut self, guest: Option<Arc<Tenant>>) -> Self {
        self.guest = guest;
        self
    }

    /// The same for a call that pays for what the host keeps in the server's memory.
    pub(crate) fn paying_out_of(mut self, purse: Option<Purse>) -> Self {
        self.purse = purse;
        self
    }

    /// Takes so many bytes of the server's memory, if there are any for it.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        self.purse.as_mut().is_none_or(|purse| purse.take(bytes).is_ok())
    }

    /// Gives back so many of those that it has taken.
    pub(super) fn give_back(&mut self, bytes: usize) {
        if let Some(purse) = &mut self.purse {
            purse.give_back(bytes);
        }
    }

    /// The namespace that the call is charged to.
    pub(super) fn whose(&self) -> &NamespaceName {
        self.guest.as_ref().map_or(&self.grants.namespace, |guest| &guest.namespace)
    }

    /// WASI preview 1, for core modules.
    pub(super) fn p1(&mut self) -> &mut WasiP1Ctx {
        if self.p1.is_none() {
            let mut context = self.builder().build_p1();
            context.ctx().table.set_max_capacity(MOST_FILES);
            self.p1 = Some(Box::new(context));
        }
        let context = self.p1.as_mut().expect("made above");
        if let Some(files) = &mut self.files {
            files.make_room(context.ctx().table);
        }
        context
    }

    /// The handles of a component, and its HTTP state.
    pub(super) fn p2(&mut self) -> &mut Context {
        if self.p2.is_none() {
            let (services, grants) = (Arc::clone(&self.services), Arc::clone(&self.grants));
            let outbound = Outbound::new(services, grants, self.whose().clone(), self.gate.take());
            let mut table = ResourceTable::new();
            let has_files = self.grants.assets.is_some();
            table.set_max_capacity(if has_files { MOST_WITH_FILES } else { MOST_HANDLES });
            self.p2 = Some(Box::new(Context { http: WasiHttpCtx::new(), outbound, table }));
        }
        self.p2.as_mut().expect("made above")
    }

    /// Whether a component may open another file.
    pub(super) fn may_open(&mut self) -> bool {
        match (&mut self.files, &mut self.p2) {
            (Some(files), Some(context)) => files.have_room(&mut context.table),
            // It has no directory to open one in.
            _ => true,
        }
    }

    /// Records that a guest drew a random number by other means than WASI.
    pub(crate) fn draws(&self) {
        if let Some(drawn) = &self.grants.drawn {
            drawn.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the heads of requests and responses that the guest keeps have reached their limit.
    pub(super) fn has_full_heads(&mut self) -> bool {
        let context = self.p2();
        context.outbound.look_at_heads(&mut context.table);
        context.outbound.has_full_heads()
    }

    /// The builder denies everything that is not granted here: files, addresses, names, arguments,
    /// environment.
    fn builder(&mut self) -> WasiCtxBuilder {
        let mut builder = WasiCtx::builder();
        builder.max_random_size(MOST_RANDOM).arg(&self.grants.name);
        if let Some(drawn) = &self.grants.drawn {
            builder.secure_random(Watched(Arc::clone(drawn)));
        }
        let Some(CallSeed { stdin, stdout, logs, env, gate: _ }) = self.seed.take() else { return builder };
        builder.stdin(stdin).stdout(stdout).stderr(logs.stream(LogStream::Stderr)).envs(&env);
        if let Some(folder) = &self.grants.assets {
            let opened = self.services.files.begin(self.whose(), &logs).and_then(|files| {
                let opened = builder.preopened_dir(folder, ASSETS, FsPerms::ReadOnly);
                opened.map(|_| files).map_err(|error| error.to_string())
            });
            match opened {
                Ok(files) => self.files = Some(files),
                // The guest finds no files; its developer learns why from the log.
                Err(error) => logs.write(
                    LogStream::Stderr,
                    format!("flint: {ASSETS} cannot be opened: {error}\n").as_bytes(),
                ),
            }
        }
        builder
    }
}

/// Constant "random" numbers, and a flag that records their use.
struct Watched(Arc<AtomicBool>);

impl TryRng for Watched {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|bits| bits as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.store(true, Ordering::Relaxed);
        Ok(0x9e37_79b9_7f4a_7c15)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.store(true, Ordering::Relaxed);
        bytes.fill(0x5a);
        Ok(())
    }
}

impl AsHost for Host {
    fn host(&mut self) -> &mut Host {
        self
    }
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.p2();
        if self.wasi.is_none() {
            let wasi = self.builder().build();
            self.wasi = Some(Box::new(wasi));
        }
        let (ctx, context) = (self.wasi.as_mut(), self.p2.as_mut());
        let table = &mut context.expect("made above").table;
        WasiCtxView { ctx: ctx.expect("made above"), table }
    }
}

impl IoView for Host {
    fn table(&mut self) -> &mut ResourceTable {
        &mut self.p2().table
    }
}

impl WasiHttpView for Host {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let context = self.p2();
        context.outbound.look_at_heads(&mut context.table);
        WasiHttpCtxView { hooks: &mut context.outbound, table: &mut context.table, ctx: &mut context.http }
    }
}

#[cfg(test)]
mod tests {
    use flint_model::ByteSize;

    use super::*;
    use crate::{host::OpenFiles, tenant::Tenants};

    #[test]
    fn files_and_connections_are_charged_to_the_caller_of_anothers_function() {
        let services = Services { files: OpenFiles::at_most(16), ..Services::new(None).unwrap() };
        let (services, assets) = (Arc::new(services), tempfile::tempdir().unwrap());
        let (grants, _) = Grants::of_initialiser(&"owner".parse().unwrap(), Some(assets.path().into()));
        let grants = Arc::new(grants);
        let caller = Tenants::new(800, [8].into()).of(&"caller".parse().unwrap());
        let call = |guest: Option<&Arc<Tenant>>| {
            let logs = LogSink::new(ByteSize::kib(1));
            let seed = CallSeed {
                stdin: Box::new(tokio::io::empty()),
                stdout: Box::new(logs.stream(LogStream::Stdout)),
                logs,
                env: Vec::new(),
                gate: None,
            };
            let mut host = Host::new(&services, &grants, seed).charged_to(guest.cloned());
            host.p1();
            host
        };
        // There are those of two calls, of which a namespace has those of one.
        let first = call(Some(&caller));
        assert!(first.files.is_some() && call(Some(&caller)).files.is_none());
        assert!(call(None).files.is_some(), "its owner has its own");
        for (guest, charged) in [(Some(&caller), "caller"), (None, "owner")] {
            assert_eq!(call(guest).p2().outbound.whose, charged.parse().unwrap());
        }
    }
}
