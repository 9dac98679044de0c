//! What a snapshot was found to be, kept beside the prepared code: preparing a function again says the same without warming it up again.

use std::{fs, io, path::PathBuf};

use flint_model::{Function, SnapshotReport};
use flint_runtimes::prepare::artefact::Artefact;
use serde::{Deserialize, Serialize};

/// What came of the first attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Record {
    /// A snapshot was made.
    Frozen(SnapshotReport),
    /// The function stands in its way.
    Refused(String),
}

impl Record {
    fn file(artefact: &Artefact, function: &Function) -> PathBuf {
        // The same code may be warmed up in several ways, and loads differently with other parameters and limits.
        let parameters: Vec<_> = function.parameters.environment().collect();
        let asked =
            serde_json::to_vec(&(&function.snapshot, &function.limits, &function.network, parameters));
        let digest = blake3::hash(&asked.unwrap_or_default()).to_hex();
        artefact.folder.join(format!("snapshot-{}.json", &digest[..16]))
    }

    pub(crate) fn read(artefact: &Artefact, function: &Function) -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::file(artefact, function)).ok()?).ok()
    }

    pub(crate) fn write(&self, artefact: &Artefact, function: &Function) -> io::Result<()> {
        let file = Self::file(artefact, function);
        let half = file.with_extension("half");
        fs::write(&half, serde_json::to_vec(self)?)?;
        fs::rename(half, file)
    }
}
