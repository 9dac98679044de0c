//! The label sets of Flint's metrics.

use prometheus_client::encoding::EncodeLabelSet;

/// Of one function's activations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ActivationLabels {
    pub(crate) namespace: String,
    pub(crate) function: String,
    pub(crate) status: &'static str,
}

/// Of one runtime's durations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct KindLabels {
    pub(crate) kind: String,
}

/// How calls met their instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StartLabels {
    pub(crate) kind: String,
    pub(crate) start: &'static str,
}

/// Of refusals.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ThrottleLabels {
    pub(crate) namespace: String,
    pub(crate) limit: &'static str,
}

/// Of HTTP answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct HttpLabels {
    pub(crate) front: &'static str,
    pub(crate) status: u16,
}

/// Of one state of instances.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StateLabels {
    pub(crate) state: &'static str,
}

/// Of one state of slots for Wasm instances.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SlotLabels {
    pub(crate) state: &'static str,
}

/// Of what decided how many slots there are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct BoundLabels {
    pub(crate) bound: &'static str,
}

/// Of one use of memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct MemoryLabels {
    pub(crate) of: &'static str,
}

/// Of what the activation log could not keep.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ShedLabels {
    pub(crate) what: &'static str,
}

/// How a function that starts by fork was started.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct SnapshotStartLabels {
    pub(crate) by: &'static str,
}

/// Why a call became a dead letter.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ReasonLabels {
    pub(crate) reason: &'static str,
}

/// By what a dead letter went.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct DroppedLabels {
    pub(crate) by: &'static str,
}
