//! The commands for functions, and the sandboxes that they run in.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use flint_model::{ByteSize, Contract, Function, FunctionLimits, Network};
use flint_sandbox::{CodeImage, Mount, ResourceLimits, SandboxSpec};

use crate::{
    discover::{Engine, Family, Runtime, node},
    java,
    prepare::{CODE, artefact::Artefact},
    shims::Shims,
};

/// The path of the shims inside sandboxes.
pub const SHIM: &str = "/runtime";
/// The path of a Java function's class archive inside sandboxes.
pub const ARCHIVE: &str = "/archive";
/// The port on which a server of contract `http` or `openwhisk` listens.
pub const PORT: u16 = 8080;

/// What a zygote may use beyond its function's memory limit: while it moves its heap to huge pages it needs
/// both copies, and sizes are rounded up.
const HUGE_PAGES: u64 = 64 << 20;

/// The command of a runtime with its shim: argv, mounts and environment.
pub struct ShimCommand<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) shims: &'a Shims,
    /// Java only: the shim's jar on the host.
    pub(crate) java: Option<Arc<JavaFiles>>,
    pub(crate) memory: ByteSize,
    /// Whether the runtime is to become a snapshot.
    pub(crate) zygote: bool,
    /// Node.js snapshots only: the image of its code in huge pages.
    pub(crate) image: Option<Arc<CodeImage>>,
}

/// The flag by which Node.js remaps its own code into huge pages.
const OWN_HUGE_PAGES: &str = "--use-largepages";

/// The files that the Java shim starts from.
#[derive(Clone, Debug)]
pub struct JavaFiles {
    /// The directory with `flint-runtime.jar` and archives of the shim's classes.
    pub folder: PathBuf,
    /// The archive's file name in that folder.
    pub archive: Option<String>,
}

impl ShimCommand<'_> {
    fn argv(&self, artefact: Option<&Artefact>) -> Vec<String> {
        let program = self.runtime.inside(&self.runtime.program).display().to_string();
        match self.runtime.family {
            // With a limit below the sandbox's, a full heap ends in an error message before the OOM killer
            // steps in.
            Family::Node => {
                let mut argv = vec![program, heap_flag(self.memory)];
                let flags = node::FLAGS.zygote.iter().filter(|_| self.zygote);
                argv.extend(
                    flags.filter(|flag| self.image.is_none() || !flag.starts_with(OWN_HUGE_PAGES)).cloned(),
                );
                argv.push(format!("{SHIM}/nodejs/shim.js"));
                argv
            }
            Family::Python => {
                vec![program, "-X".into(), "utf8".into(), "-s".into(), format!("{SHIM}/python/shim.py")]
            }
            Family::Java => {
                let shared = self
                    .java
                    .as_ref()
                    .and_then(|java| java.archive.as_ref())
                    .map(|name| format!("{SHIM}/java/{name}"));
                let own = artefact.and_then(|artefact| artefact.record.archive.clone());
                let class_path = if own.is_some() { java::class_path() } else { java::SHIM_JAR.to_owned() };
                let mut argv = vec![program];
                argv.extend(java::flags(self.memory));
                argv.extend(java::OPENS.map(str::to_owned));
                argv.extend(
                    own.or(shared).iter().flat_map(|archive| java::archive_flags(self.runtime, archive)),
                );
                argv.extend(["-cp".into(), class_path, "flint.Shim".into()]);
                argv
            }
            // Not reached: `House::command` refuses these.
            Family::Go | Family::Php | Family::Ruby => vec![program],
        }
    }

    fn mounts(&self) -> Vec<Mount> {
        let mut mounts = self.runtime.mounts.clone();
        let source = match (self.runtime.family, &self.java) {
            (Family::Java, Some(java)) => java.folder.clone(),
            (family, _) => self.shims.of(family.as_str()),
        };
        if self.runtime.family == Family::Node {
            // Modules that functions can import without bringing them.
            mounts.push(readonly(source.join("modules"), "/node_modules"));
        }
        mounts.push(readonly(source, &format!("{SHIM}/{}", self.runtime.family)));
        mounts
    }

    /// A sandbox for one function, whose code is mounted from the start.
    pub fn for_function(&self, id: String, function: &Function, artefact: &Artefact) -> SandboxSpec {
        let mut spec = SandboxSpec::new(id, self.argv(Some(artefact)));
        spec.mounts = self.mounts();
        spec.mounts.extend(code_mounts(artefact));
        spec.env = environment(Some(self.runtime));
        limit(&mut spec, &function.limits, function.network);
        self.finish(&mut spec);
        spec.recycle_key = Some(recycle_key(function));
        spec
    }

    /// A sandbox for a prewarmed runtime without a function.
    pub fn for_stem(&self, id: String, limits: &FunctionLimits) -> SandboxSpec {
        let mut spec = SandboxSpec::new(id, self.argv(None));
        spec.mounts = self.mounts();
        spec.env = environment(Some(self.runtime));
        limit(&mut spec, limits, Network::None);
        self.finish(&mut spec);
        spec
    }

    /// Adds the shim's environment variables and a zygote's extra settings.
    fn finish(&self, spec: &mut SandboxSpec) {
        spec.env.push(("FLINT_LINK_FD".into(), "3".into()));
        if self.zygote {
            spec.env.push(("FLINT_ZYGOTE".into(), "1".into()));
            if let (Family::Node, Some(helper)) = (self.runtime.family, self.shims.node_helper()) {
                // The helper must arrange the heap before Node.js uses it.
                spec.env.push(("LD_PRELOAD".into(), format!("{SHIM}/{helper}")));
            }
            if let Some(image) = &self.image {
                let range = image.range();
                spec.env.push(("FLINT_CODE".into(), format!("{:x}-{:x}", range.start, range.end)));
            }
            spec.zygote = true;
            spec.limits.memory_bytes += HUGE_PAGES;
            // Each clone has another /tmp, so it must not be the working directory.
            spec.cwd = "/".into();
        }
    }
}

/// Node.js only: limits the heap, so that a full one ends in an error message before the OOM killer steps in.
fn heap_flag(memory: ByteSize) -> String {
    format!("--max-old-space-size={}", (memory.as_mib() * 3 / 4).max(16))
}

/// The launchers of languages with contract `actionloop`.
#[derive(Clone, Copy)]
pub struct Launchers<'a>(pub(crate) &'a Shims);

/// A sandbox for a function of contract `actionloop`: a program that implements the contract, or its
/// language's launcher.
pub fn for_action_loop(
    id: String,
    function: &Function,
    artefact: &Artefact,
    launchers: Launchers<'_>,
) -> SandboxSpec {
    let mut spec = for_program(id, function, artefact);
    let (launcher, runtime) = match &artefact.engine {
        Engine::Language(runtime) if runtime.family == Family::Php => ("launcher.php", runtime),
        Engine::Language(runtime) if runtime.family == Family::Ruby => ("launcher.rb", runtime),
        _ => return spec,
    };
    let place = format!("{SHIM}/{}", runtime.family);
    let mut argv = vec![runtime.inside(&runtime.program).display().to_string()];
    argv.extend(runtime.arguments.iter().cloned());
    let main = function.main.clone().unwrap_or_else(|| "main".into());
    argv.extend([format!("{place}/{launcher}"), artefact.record.code.clone(), main]);
    spec.argv = argv;
    spec.mounts.push(readonly(launchers.0.of(runtime.family.as_str()), &place));
    spec
}

/// Whether a program of contract `actionloop` acknowledges that it is ready with `{"ok":true}` when its
/// environment asks for that. Flint's launchers do, and so do Go programs built with OpenWhisk's; an
/// arbitrary program may not.
pub fn acknowledges(artefact: &Artefact) -> bool {
    matches!(&artefact.engine, Engine::Language(runtime) if !runtime.family.has_shim())
}

/// A sandbox for a function that is a program of its own (contracts `stdio`, `http`, `openwhisk`).
pub fn for_program(id: String, function: &Function, artefact: &Artefact) -> SandboxSpec {
    let (argv, runtime) = match &artefact.engine {
        Engine::Native => (vec![artefact.record.code.clone()], None),
        // A compiled program does not need its compiler.
        Engine::Language(runtime) if runtime.family == Family::Go => {
            (vec![artefact.record.code.clone()], None)
        }
        Engine::Language(runtime) => (program_of(runtime, function, artefact), Some(runtime)),
    };
    let mut spec = SandboxSpec::new(id, argv);
    spec.mounts = runtime.map(|runtime| runtime.mounts.clone()).unwrap_or_default();
    spec.mounts.extend(code_mounts(artefact));
    spec.env = environment(runtime.map(AsRef::as_ref));
    if matches!(function.contract, Contract::Http | Contract::OpenWhisk) {
        spec.env.push(("PORT".into(), PORT.to_string()));
    }
    spec.cwd = CODE.into();
    limit(&mut spec, &function.limits, function.network);
    spec.recycle_key = Some(recycle_key(function));
    spec
}

/// The command of an interpreter with the function as its program.
fn program_of(runtime: &Runtime, function: &Function, artefact: &Artefact) -> Vec<String> {
    let mut argv = vec![runtime.inside(&runtime.program).display().to_string()];
    let record = &artefact.record;
    if runtime.family == Family::Node {
        argv.push(heap_flag(function.limits.memory));
    }
    if runtime.family != Family::Java {
        argv.extend(runtime.arguments.iter().cloned());
        argv.push(record.script.clone().unwrap_or_else(|| record.code.clone()));
        return argv;
    }
    argv.extend(java::flags(function.limits.memory));
    let class_path = record.script.clone().unwrap_or_else(|| format!("{CODE}:{CODE}/*:{CODE}/lib/*"));
    match function.main.as_ref().or(record.main.as_ref()) {
        // A program has only a class; a method is named for handlers.
        Some(main) => {
            argv.extend(["-cp".into(), class_path, main.split('#').next().unwrap_or(main).to_owned()])
        }
        None => argv.extend(["-jar".into(), class_path]),
    }
    argv
}

pub(crate) fn readonly(source: PathBuf, target: &str) -> Mount {
    Mount { source, target: target.to_owned(), readonly: true }
}

fn code_mounts(artefact: &Artefact) -> Vec<Mount> {
    let mut mounts = vec![readonly(artefact.code_folder(), CODE)];
    if artefact.record.archive.is_some() {
        mounts.push(readonly(artefact.folder.join("archive"), ARCHIVE));
    }
    mounts
}

pub(crate) fn environment(runtime: Option<&Runtime>) -> Vec<(String, String)> {
    let program = runtime.map(|runtime| runtime.inside(&runtime.program));
    let folder = program.as_deref().and_then(Path::parent).filter(|folder| *folder != Path::new("/usr/bin"));
    let path = folder.map(|folder| format!("{}:", folder.display())).unwrap_or_default();
    let mut variables = vec![
        ("PATH".into(), format!("{path}/usr/bin:/bin")),
        ("HOME".into(), "/tmp".into()),
        ("TMPDIR".into(), "/tmp".into()),
        ("LANG".into(), "C.UTF-8".into()),
    ];
    if let Some((runtime, libraries)) =
        runtime.and_then(|runtime| Some((runtime, runtime.libraries.as_ref()?)))
    {
        variables.push(("LD_LIBRARY_PATH".into(), runtime.inside(libraries).display().to_string()));
    }
    variables
}

fn limit(spec: &mut SandboxSpec, limits: &FunctionLimits, network: Network) {
    spec.limits = ResourceLimits {
        memory_bytes: limits.memory.as_u64(),
        processes: limits.processes,
        cpu_millis: limits.cpu_millis,
        ..ResourceLimits::default()
    };
    spec.tmp_bytes = limits.tmp.as_u64();
    spec.network = match network {
        Network::None => flint_sandbox::Network::None,
        Network::Egress => flint_sandbox::Network::Egress,
    };
}

/// One key a function revision: what an ended sandbox leaves behind is only handed to the same code.
fn recycle_key(function: &Function) -> String {
    // A function deleted and created again may have the same revision, but not the same time of update.
    format!("{}@{}@{}", function.path, function.revision, function.updated.as_millis())
}

/// Sets variables, replacing earlier ones of the same name, since a program finds the first. Skips those that
/// the kernel does not accept.
pub fn set_all(
    environment: &mut Vec<(String, String)>,
    variables: impl IntoIterator<Item = (String, String)>,
) {
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            continue;
        }
        match environment.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => environment.push((name, value)),
        }
    }
}
