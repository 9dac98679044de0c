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
    /// A file, or a directory with a manifest.yaml. --param then sets its inputs and variables
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// Deployment file that overrides inputs and annotations of the manifest's entities
    #[arg(long, value_name = "FILE", requires = "manifest")]
    pub(crate) deployment: Option<PathBuf>,
    /// Override the project name in the manifest
    #[arg(long, value_name = "NAME", requires = "manifest", alias = "projectname")]
    pub(crate) project: Option<String>,
    /// Show what would change without changing anything
    #[arg(long, requires = "manifest")]
    pub(crate) dry_run: bool,
    /// Delete entities created by an earlier deployment of this project that the manifest no longer contains
    #[arg(long, requires = "manifest", alias = "managed")]
    pub(crate) prune: bool,
    /// Show changed values of inputs and annotations
    #[arg(long, requires = "manifest")]
    pub(crate) show_values: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UndeployArgs {
    /// Manifest file, or a directory with a manifest.yaml
    #[arg(short = 'f', long, value_name = "FILE")]
    manifest: PathBuf,
    /// Override the project name in the manifest
    #[arg(long, value_name = "NAME", alias = "projectname")]
    project: Option<String>,
    /// Show what would be deleted without deleting anything
    #[arg(long)]
    dry_run: bool,
    /// Value of an input or variable; JSON if it parses as JSON. Repeatable
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
