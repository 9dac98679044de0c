//! One call's part of the host.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use flint_gate::DirectGate;
use flint_model::LogStream;
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

/// The most random bytes that a guest gets at once; it can ask again.
const MOST_RANDOM: u64 = 1 << 20;
/// The most handles that a guest holds at once: streams, requests, buckets. What is behind them is the server's memory, not the guest's.
const MOST_HANDLES: usize = 2_000;
/// The same, where they can be files: each of these takes one of the server's descriptors.
const MOST_WITH_FILES: usize = 512;
/// The most that a core module holds, whose only handles are files and its streams.
const MOST_FILES: usize = 128;

/// What a call brings.
pub struct CallSeed {
    /// What the guest reads.
    pub stdin: Box<dyn StdinStream + Sync>,
    /// Where its answer goes, or its log.
    pub stdout: Box<dyn StdoutStream + Sync>,
    /// Where its stderr goes.
    pub logs: LogSink,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Its way to the server's API, where it has one.
    pub gate: Option<Arc<DirectGate>>,
}

/// A store's data that contains a [`Host`].
pub trait AsHost: Send {
    /// That host.
    fn host(&mut self) -> &mut Host;
}

/// What one call has of the host. Contexts are made when the guest first asks for something of them: those of WASI have generators of random numbers
/// to seed, which costs more than a small call.
pub struct Host {
    pub(super) services: Arc<Services>,
    pub(super) grants: Arc<Grants>,
    seed: Option<CallSeed>,
    gate: Option<Arc<DirectGate>>,
    /// What it has of the files that all calls may open, once it can open any.
    files: Option<CallsFiles>,
    /// Of a core module.
    p1: Option<Box<WasiP1Ctx>>,
    /// Of a component.
    p2: Option<Box<Context>>,
    wasi: Option<Box<WasiCtx>>,
}

/// What a component's call has beside WASI's clocks, files and the like.
pub(super) struct Context {
    http: WasiHttpCtx,
    pub(super) outbound: Outbound,
    pub(super) table: ResourceTable,
}

impl Host {
    /// For one call of the function that `grants` are of.
    pub fn new(services: &Arc<Services>, grants: &Arc<Grants>, mut seed: CallSeed) -> Self {
        let (services, grants, gate) = (Arc::clone(services), Arc::clone(grants), seed.gate.take());
        Self { services, grants, seed: Some(seed), gate, files: None, p1: None, p2: None, wasi: None }
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

    /// The handles of a component, and HTTP.
    pub(super) fn p2(&mut self) -> &mut Context {
        if self.p2.is_none() {
            let outbound =
                Outbound::new(Arc::clone(&self.services), Arc::clone(&self.grants), self.gate.take());
            let mut table = ResourceTable::new();
            let has_files = self.grants.assets.is_some();
            table.set_max_capacity(if has_files { MOST_WITH_FILES } else { MOST_HANDLES });
            self.p2 = Some(Box::new(Context { http: WasiHttpCtx::new(), outbound, table }));
        }
        self.p2.as_mut().expect("made above")
    }

    /// Whether there is a file left for a component to open.
    pub(super) fn may_open(&mut self) -> bool {
        match (&mut self.files, &mut self.p2) {
            (Some(files), Some(context)) => files.have_room(&mut context.table),
            // It has no folder to open one in.
            _ => true,
        }
    }

    /// A guest draws a random number in another way than by WASI.
    pub(crate) fn draws(&self) {
        if let Some(drawn) = &self.grants.drawn {
            drawn.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the heads of requests and answers that the guest keeps hold as much as they may.
    pub(super) fn has_full_heads(&mut self) -> bool {
        let context = self.p2();
        context.outbound.look_at_heads(&mut context.table);
        context.outbound.has_full_heads()
    }

    /// The builder denies what it is not told to grant: files, addresses, names, arguments, environment.
    fn builder(&mut self) -> WasiCtxBuilder {
        let mut builder = WasiCtx::builder();
        builder.max_random_size(MOST_RANDOM).arg(&self.grants.name);
        if let Some(drawn) = &self.grants.drawn {
            builder.secure_random(Watched(Arc::clone(drawn)));
        }
        let Some(CallSeed { stdin, stdout, logs, env, gate: _ }) = self.seed.take() else { return builder };
        builder.stdin(stdin).stdout(stdout).stderr(logs.stream(LogStream::Stderr)).envs(&env);
        if let Some(folder) = &self.grants.assets {
            let opened = self.services.files.begin(&logs).and_then(|files| {
                let opened = builder.preopened_dir(folder, ASSETS, FsPerms::ReadOnly);
                opened.map(|_| files).map_err(|error| error.to_string())
            });
            match opened {
                Ok(files) => self.files = Some(files),
                // The guest finds no file; its developer finds out why.
                Err(error) => logs.write(
                    LogStream::Stderr,
                    format!("flint: {ASSETS} cannot be opened: {error}\n").as_bytes(),
                ),
            }
        }
        builder
    }
}

/// Random numbers that are none, and a flag that says that somebody drew them.
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
