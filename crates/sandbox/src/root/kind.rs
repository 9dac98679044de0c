//! The variants of the root.

use crate::spec::{Network, SandboxSpec};

/// The variant of the root that a sandbox needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RootKind {
    /// With egress, `/etc` has name servers.
    pub(crate) network: Network,
    /// `/tmp` is a link to the file system that a process holds as [`crate::TMP_FD`].
    pub(crate) zygote: bool,
}

impl RootKind {
    pub(crate) const PLAIN: Self = Self { network: Network::None, zygote: false };
    pub(crate) const ALL: [Self; 4] = [
        Self::PLAIN,
        Self { network: Network::Egress, zygote: false },
        Self { network: Network::None, zygote: true },
        Self { network: Network::Egress, zygote: true },
    ];

    pub(crate) fn of(spec: &SandboxSpec) -> Self {
        Self { network: spec.network, zygote: spec.zygote }
    }

    /// The suffix of its mount point's name beside the state file.
    pub(crate) fn ending(self) -> &'static str {
        match (self.network, self.zygote) {
            (Network::None, false) => "root",
            (Network::Egress, false) => "root-egress",
            (Network::None, true) => "root-zygote",
            (Network::Egress, true) => "root-egress-zygote",
        }
    }
}
