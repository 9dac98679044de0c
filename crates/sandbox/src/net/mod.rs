//! Network namespaces, one for each live sandbox, and the way out of those that have one.

mod conntrack;
mod egress;
mod loopback;
mod namespaces;
mod netlink;
mod nft;
mod registry;
mod share;

pub(crate) use egress::{EgressConfig, missing as egress_missing};
pub(crate) use namespaces::{Namespaces, SandboxNet};
pub(crate) use share::sweep;
