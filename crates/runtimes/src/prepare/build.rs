//! Builds at deploy, by language.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_executor::{FunctionSource, PrepareError, Progress};
use flint_model::{CodeFormat, Contract, Function, Kind};

use super::{
    CODE, Workshop,
    artefact::{HalfBuilt, Record},
    counted,
    tree::bad,
};
use crate::{
    discover::{Engine, Runtime},
    go,
    java::{self, Jdk},
    process::tool::Bounds,
    python,
};

/// The archive is not worth a longer training run.
const LONGEST_TRAINING: Duration = Duration::from_secs(30);

impl Workshop<'_> {
    /// Compiles a source, finds the main class, and writes a class archive if one is wanted (`annotate`).
    pub(super) async fn build_java(
        &self,
        source: &FunctionSource,
        runtime: &Runtime,
        half: &HalfBuilt,
        record: &mut Record,
        progress: Progress<'_>,
    ) -> Result<(), PrepareError> {
        let (function, launcher) = (&source.function, &self.config.launcher);
        progress("making the Java shim ready");
        let shim = self.java.get(runtime, self.shims, launcher).await.map_err(|detail| {
            PrepareError::Failed { operation: "making the Java shim ready".into(), detail }
        })?;
        let bounds = self.config.build_bounds();
        let asked = function.main.as_deref().filter(|_| function.contract == Contract::Handler);
        match function.code.format {
            CodeFormat::Source => {
                progress("compiling");
                let jdk = Jdk { runtime, launcher, shim: &shim.folder, bounds };
                let compiled = java::compile(self.compilers, jdk, half.folder(), asked).await?;
                record.code = format!("{CODE}/{}", java::FUNCTION_JAR);
                record.script = Some(record.code.clone());
                let (class, jdk) = (compiled.class, runtime.version_text());
                let by = if compiled.awaited { ", by a compiler that waited for it" } else { "" };
                record.steps = vec![format!("compiled {class} with JDK {jdk}{by}")];
                record.main = Some(class);
            }
            CodeFormat::Jar => {
                record.main = java::main_class(&source.code, asked).map_err(PrepareError::Code)?;
            }
            _ => {}
        }
        let is_jar = record.code.ends_with(java::FUNCTION_JAR);
        let is_trained = is_jar && function.contract == Contract::Handler && function.snapshot.annotate;
        let Some(main) = main_of(function, record).filter(|_| is_trained) else {
            return Ok(());
        };
        progress("writing an archive of its classes");
        let began = Instant::now();
        let bounds = Bounds { within: bounds.within.min(LONGEST_TRAINING), ..bounds };
        let built =
            java::build_archive(runtime, launcher, function, &main, &shim.folder, half.folder(), bounds)
                .await;
        record.steps.push(match built {
            Ok(path) => {
                record.archive = Some(path);
                format!("wrote an archive of its classes ({} ms)", began.elapsed().as_millis())
            }
            Err(error) => {
                if let Some(why) = java::no_entry_point(&error) {
                    return Err(PrepareError::Code(why.to_owned()));
                }
                let error = error.lines().next().unwrap_or_default().to_owned();
                format!("starts without an archive of its classes, because the training run failed: {error}")
            }
        });
        Ok(())
    }

    /// Compiles the sources to an executable.
    pub(super) async fn build_go(
        &self,
        function: &Function,
        runtime: &Runtime,
        half: &HalfBuilt,
        record: &mut Record,
        progress: Progress<'_>,
    ) -> Result<(), PrepareError> {
        progress("compiling");
        let config = self.config;
        let build = go::Build {
            function,
            runtime,
            shims: self.shims,
            caches: self.go,
            launcher: &config.launcher,
            artefact: half.folder(),
            bounds: config.build_bounds(),
        };
        record.steps.push(go::compile(build).await?);
        record.code = format!("{CODE}/exec");
        record.script = None;
        Ok(())
    }

    /// Chooses the version that a virtual environment needs, and compiles an archive's sources to byte code.
    pub(super) async fn build_python(
        &self,
        function: &Function,
        runtime: &Arc<Runtime>,
        half: &HalfBuilt,
        record: &mut Record,
        progress: Progress<'_>,
    ) -> Result<Arc<Runtime>, PrepareError> {
        let mut runtime = Arc::clone(runtime);
        if function.code.format == CodeFormat::Source {
            self.python.make_ready(&runtime, self.shims, &self.config.launcher).await;
            return Ok(runtime);
        }
        if let Some(line) = python::version_of_virtualenv(&half.code()).filter(|line| *line != runtime.line) {
            let kind: Option<Kind> = format!("{}:{line}", runtime.family).parse().ok();
            // `python:3` and `python:default` leave the minor version open.
            let open = function.kind.version().is_none_or(|asked| asked == "default" || !asked.contains('.'));
            match kind.as_ref().map(|kind| self.runtimes.resolve(kind)) {
                Some(Ok(Engine::Language(found))) if open => {
                    record.steps.push(format!("its virtual environment is for Python {line}, which runs it"));
                    (runtime, record.runtime) = (found, kind);
                }
                _ => {
                    return Err(bad(format!(
                        "the virtual environment in the archive was made for Python {line}, the function is to \
                         run on Python {}: make it anew with that version, or choose the kind python:{line}",
                        runtime.line
                    )));
                }
            }
        }
        self.python.make_ready(&runtime, self.shims, &self.config.launcher).await;
        progress("compiling to byte code");
        let (launcher, bounds) = (&self.config.launcher, self.config.build_bounds());
        match python::compile_code(&runtime, launcher, half.folder(), bounds).await {
            Ok(0) => {}
            Ok(files) => record.steps.push(format!("compiled {} to byte code", counted(files, "file"))),
            Err(error) => record.steps.push(format!("starts without byte code: {error}")),
        }
        Ok(runtime)
    }
}

/// The entry point that the function names, or else the one that the build found.
fn main_of(function: &Function, record: &Record) -> Option<String> {
    function.main.clone().or_else(|| record.main.clone())
}
