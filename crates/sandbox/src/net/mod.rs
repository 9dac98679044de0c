//! Network namespaces, one for each living sandbox, and egress for those that have it.

mod conntrack;
mod egress;
pub(crate) mod loopback;
mod namespaces;
mod netlink;
mod nft;
mod registry;
mod share;

pub(crate) use egress::{EgressConfig, missing as egress_missing};
pub(crate) use namespaces::{Namespaces, SandboxNet};
pub(crate) use share::sweep;
