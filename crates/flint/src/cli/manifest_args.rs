//! The options of `flint deploy -f` and `flint undeploy`.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::values;

/// A manifest, and what becomes of it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Manifests")]
pub(crate) struct ManifestArgs {
    /// Deploy a manifest of `wsk project deploy` instead: packages, actions, sequences, triggers, rules and APIs.
    /// A file, or a directory with a manifest.yaml. --param then gives values of its inputs and variables
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// A file with other inputs and annotations for what the manifest has
    #[arg(long, value_name = "FILE", requires = "manifest")]
    pub(crate) deployment: Option<PathBuf>,
    /// The project's name, in place of the manifest's
    #[arg(long, value_name = "NAME", requires = "manifest", alias = "projectname")]
    pub(crate) project: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long, requires = "manifest")]
    pub(crate) dry_run: bool,
    /// Delete what an earlier deployment of this project made and the manifest does not have any more
    #[arg(long, requires = "manifest", alias = "managed")]
    pub(crate) prune: bool,
    /// Show the values of inputs and annotations that change
    #[arg(long, requires = "manifest")]
    pub(crate) show_values: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UndeployArgs {
    /// The manifest: a file, or a directory with a manifest.yaml
    #[arg(short = 'f', long, value_name = "FILE")]
    manifest: PathBuf,
    /// The project's name, in place of the manifest's
    #[arg(long, value_name = "NAME", alias = "projectname")]
    project: Option<String>,
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// The value of an input or a variable; JSON when it reads as JSON. Repeatable
    #[arg(long = "param", value_name = "K=V", value_parser = values::parameter)]
    params: Vec<(String, Value)>,
}

impl UndeployArgs {
    /// The same as options of a deploy, and the values that are given.
    pub(crate) fn split(self) -> (ManifestArgs, Vec<(String, Value)>) {
        let Self { manifest, project, dry_run, params } = self;
        (ManifestArgs { manifest: Some(manifest), project, dry_run, ..ManifestArgs::default() }, params)
    }
}
