//! Runs a deployment from a manifest: reads, packs, plans, and shows or applies.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    apply::apply,
    assemble::{Basics, Packed, Wanted, assemble, open_for_apis},
    entity,
    function::packed,
    interpolate::Variables,
    model::{At, Operation, Project},
    plan::{Plan, plan, removal},
    problems::Problems,
    read::Reader,
    server::{self, There},
    show,
    target::local,
    yaml::MOST_BYTES,
};
use crate::{
    cli::{Global, ManifestArgs},
    client::Client,
    failure::{Exit, Failure},
    output::{Progress, print_json, print_line, tell},
};

/// Deploys a manifest, or shows what that would change.
pub(crate) async fn deploy(
    global: &Global,
    args: &ManifestArgs,
    given: &[(String, Value)],
) -> anyhow::Result<Exit> {
    let mut source = Source::read(args, given, Code::Packed, global.json)?;
    if args.prune && source.project.name.is_none() {
        return Err(Failure::usage("--prune needs to know which project's entities it may delete")
            .hint("write project: with a name: around packages:, or give --project NAME")
            .into());
    }
    let client = Client::new(global)?;
    let Sides { wanted, there, namespace, progress } = Sides::read(&mut source, &client).await?;
    let project = source.project.name.as_deref();
    let plan = plan(&client, &namespace, &there, wanted, project, args.prune, &mut source.problems).await?;
    source.problems.check()?;
    drop(progress);
    carry_out(global, args, &client, plan, &source).await
}

/// Deletes a manifest's entities.
pub(crate) async fn undeploy(
    global: &Global,
    args: &ManifestArgs,
    given: &[(String, Value)],
) -> anyhow::Result<Exit> {
    let mut source = Source::read(args, given, Code::NotAsked, global.json)?;
    let client = Client::new(global)?;
    let Sides { wanted, there, progress, .. } = Sides::read(&mut source, &client).await?;
    let plan = removal(&there, wanted, source.project.name.as_deref()).await;
    drop(progress);
    carry_out(global, args, &client, plan, &source).await
}

/// Whether the manifest's code is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    Packed,
    /// Undeploying needs neither code nor the tools that build it, nor values of inputs.
    NotAsked,
}

/// The desired and the existing state.
struct Sides {
    wanted: Wanted,
    there: There,
    namespace: String,
    /// Shown until both are compared.
    progress: Progress,
}

impl Sides {
    async fn read(source: &mut Source, client: &Client) -> Result<Self, Failure> {
        let progress = Progress::start("reading what the server has");
        let (wanted, Basics { namespace, .. }) = source.wanted(client, &progress).await?;
        let there = There::read(client, &namespace).await?;
        Ok(Self { wanted, there, namespace, progress })
    }
}

async fn carry_out(
    global: &Global,
    args: &ManifestArgs,
    client: &Client,
    plan: Plan,
    source: &Source,
) -> anyhow::Result<Exit> {
    let warnings = source.problems.warnings();
    if !global.json {
        warn(&source.problems, global.json);
        for line in show::lines(&plan, args.show_values) {
            print_line(&line)?;
        }
        print_line(&show::summary(&plan))?;
    }
    let mut done = 0;
    let mut result = Ok(());
    if !args.dry_run && plan.changes() > 0 {
        let progress = Progress::start("deploying");
        let managed = source.managed();
        result = apply(client, &plan, managed.as_ref(), |_| done += 1, |step| progress.step(step.to_owned()))
            .await;
        drop(progress);
    }
    if global.json {
        print_json(&show::as_json(&plan, args.show_values, args.dry_run, done, &warnings))?;
    }
    if let Err(failure) = result {
        if !global.json && done > 0 {
            let steps = plan.steps.iter().filter(|step| step.verb.changes_something()).take(done);
            let told: Vec<_> = steps.map(|step| format!("{} {}", step.what.name(), step.name)).collect();
            print_line(&format!("done before it failed: {}", told.join(", ")))?;
        }
        let earlier = match &failure.hint {
            Some(hint) => format!("{hint}; then "),
            None if may_pass(&failure) => String::new(),
            None => "correct that; then ".to_owned(),
        };
        let hint = format!(
            "{earlier}run the same command again: {done} of {} changes are done, and it goes on with the others",
            plan.changes()
        );
        return Err(failure.hint(hint).into());
    }
    if !global.json && !args.dry_run && done > 0 {
        print_line(&format!("done: {done} {}", if done == 1 { "change" } else { "changes" }))?;
    }
    Ok(Exit::Ok)
}

/// Whether a repetition alone may help.
fn may_pass(failure: &Failure) -> bool {
    let passes = ["timeout", "throttled", "unavailable", "internal", "refused", "feed_is_slow"];
    failure.exit == Exit::Unreachable
        || passes.contains(&failure.code.as_str())
        || failure.message.contains("Concurrent modification")
}

/// Prints warnings.
fn warn(problems: &Problems, json: bool) {
    if !json {
        problems.warnings().iter().for_each(|warning| tell!("warning: {warning}"));
    }
}

/// A manifest that was read.
struct Source {
    path: PathBuf,
    project: Project,
    problems: Problems,
    code: Code,
    /// The hash of the manifest's text, by which tools compare deployments.
    hash: String,
}

impl Source {
    /// Reads the manifest and the deployment file, and reports their problems at once.
    fn read(args: &ManifestArgs, given: &[(String, Value)], code: Code, json: bool) -> Result<Self, Failure> {
        let path = manifest_in(args.manifest.as_deref().unwrap_or(Path::new("manifest.yaml")));
        let text = read(&path)?;
        let mut variables = Variables::new(given.iter().cloned());
        let mut reader = Reader::new(&path, &mut variables);
        reader.needs_content = code == Code::Packed;
        let mut project = reader.project(&text);
        let mut problems = reader.problems;
        if let Some(path) = &args.deployment {
            let text = read(path)?;
            let mut reader = Reader::new(path, &mut variables);
            reader.needs_content = code == Code::Packed;
            let overlay = reader.overlay(&text);
            let mut of_overlay = reader.problems;
            overlay.apply(&mut project, &mut of_overlay);
            problems.join(of_overlay);
        }
        complete(&mut project, &variables, code, &mut problems);
        for name in variables.unused() {
            problems.error(
                1,
                "",
                format!("--param {name}: the manifest has neither an input nor a variable of this name"),
                "look for a typing error",
            );
        }
        if let Some(name) = &args.project {
            flint_model::EntityName::parse(name)
                .map_err(|error| Failure::usage(format!("--project '{name}': {error}")))?;
            project.name = Some(name.clone());
        }
        // A mistyped key is a warning, and may be the cause of an error elsewhere.
        problems.check().inspect_err(|_| warn(&problems, json))?;
        let hash = format!("{:x}", Sha256::digest(text.as_bytes()));
        Ok(Self { path, project, problems, code, hash })
    }

    /// Packs the code of the actions. Failures are reported with the other problems.
    fn packed(&mut self, progress: &Progress) -> Packed {
        let mut codes = Packed::new();
        for package in &self.project.packages {
            for action in &package.actions {
                let name = local(package.name.as_deref(), &action.name);
                progress.step(format!("packing {name}"));
                match packed(action, &|step| progress.step(format!("packing {name}: {step}"))) {
                    Ok(code) => {
                        for note in &code.notes {
                            self.problems.warn(action.at.line, &action.at.key, note.as_str(), "");
                        }
                        codes.insert(name, code);
                    }
                    Err(failure) => self.problems.failed(action.at.line, &action.at.key, failure),
                }
            }
        }
        codes
    }

    /// Assembles the desired entities, and reports their problems at once.
    async fn wanted(&mut self, client: &Client, progress: &Progress) -> Result<(Wanted, Basics), Failure> {
        let basics = server::basics(client).await?;
        open_for_apis(&mut self.project, &basics.namespace, &mut self.problems);
        let codes = (self.code == Code::Packed).then(|| self.packed(progress));
        progress.step("reading what the server has");
        let mut wanted = assemble(&self.project, codes, &basics, &mut self.problems);
        if let Some((file, line)) = &self.project.document {
            let at = At { line: *line, key: "config".to_owned() };
            match document(file) {
                Ok((base_path, document)) => {
                    let same = |api: &&Operation| api.base_path == base_path;
                    if let Some(api) =
                        self.project.packages.iter().flat_map(|package| &package.apis).find(same)
                    {
                        let what =
                            format!("its base path {base_path} is also that of the document in 'config'");
                        self.problems.error(api.at.line, &api.at.key, what, "put the path into the document");
                    }
                    wanted.entities.push(entity::document(&at, &base_path, document));
                }
                Err(failure) => self.problems.failed(*line, "config", failure),
            }
        }
        self.problems.check()?;
        Ok((wanted, basics))
    }

    /// The note on everything written, as by wskdeploy.
    fn managed(&self) -> Option<Value> {
        let file = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let project = self.project.name.as_ref()?;
        Some(json!({ "projectName": project, "projectHash": self.hash, "projectDeps": [], "file": file }))
    }
}

/// The manifest itself, or the one in a directory.
fn manifest_in(path: &Path) -> PathBuf {
    if !path.is_dir() {
        return path.to_owned();
    }
    let short = path.join("manifest.yml");
    if short.is_file() { short } else { path.join("manifest.yaml") }
}

fn read(path: &Path) -> Result<String, Failure> {
    let cannot = |why: String| Failure::usage(format!("cannot read {}: {why}", path.display()));
    let meta = fs::metadata(path).map_err(|error| cannot(error.to_string()).hint("check the path"))?;
    if !meta.is_file() {
        return Err(
            cannot("it is not a file".to_owned()).hint("name the manifest, for example manifest.yaml")
        );
    }
    if meta.len() > MOST_BYTES as u64 {
        let why = format!("it is larger than the {} KiB that a manifest may have", MOST_BYTES >> 10);
        return Err(cannot(why).hint("keep code in files of their own and name them with 'function'"));
    }
    let bytes = fs::read(path).map_err(|error| cannot(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8".to_owned()).hint("save the file as UTF-8"))
}

/// Sets inputs from the command line, and refuses inputs without a value, if their values are needed.
fn complete(project: &mut Project, variables: &Variables, code: Code, problems: &mut Problems) {
    for package in &mut project.packages {
        let places = [(&package.at, &mut package.inputs)]
            .into_iter()
            .chain(package.dependencies.iter_mut().map(|one| (&one.at, &mut one.inputs)))
            .chain(package.actions.iter_mut().map(|one| (&one.at, &mut one.inputs)))
            .chain(package.triggers.iter_mut().map(|one| (&one.at, &mut one.inputs)));
        for (at, inputs) in places {
            for input in inputs {
                let key = format!("{}.inputs.{}", at.key, input.name);
                if let Some(value) = variables.given(&input.name)
                    && let Err(why) = input.set(value.clone())
                {
                    problems.error(
                        input.line,
                        &key,
                        format!("--param {}: {why}", input.name),
                        "the type is the manifest's",
                    );
                }
                if input.value.is_none() && code == Code::Packed && problems.is_fine() {
                    let next = format!("write value: below it, or give --param {}=…", input.name);
                    problems.error(input.line, &key, "it is required, and has no value", &next);
                }
            }
        }
    }
}

/// Reads a Swagger document and its base path.
fn document(file: &Path) -> Result<(String, Value), Failure> {
    let document: Value = serde_json::from_str(&read(file)?).map_err(|error| {
        Failure::usage(format!("{} is not a Swagger document in JSON: {error}", file.display()))
    })?;
    let base_path = document["basePath"].as_str().filter(|path| path.starts_with('/')).map(|path| match path
        .trim_end_matches('/')
    {
        "" => "/".to_owned(),
        path => path.to_owned(),
    });
    match base_path {
        Some(base_path) => Ok((base_path, document)),
        None => Err(Failure::usage(format!("{} has no basePath", file.display()))
            .hint("write \"basePath\": \"/NAME\" in it")),
    }
}
