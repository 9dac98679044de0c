//! What a namespace holds, whatever it is.

use std::fmt;

use crate::{EntityName, Function, NamespaceName, Package, Parameters, Rule, Sequence, Timestamp, Trigger};

/// Where an entity is listed. A name belongs to one collection of its namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collection {
    /// Functions and sequences.
    Actions,
    /// Packages and bindings.
    Packages,
    /// Triggers.
    Triggers,
    /// Rules.
    Rules,
}

impl Collection {
    /// Its name in the OpenWhisk API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Actions => "actions",
            Self::Packages => "packages",
            Self::Triggers => "triggers",
            Self::Rules => "rules",
        }
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One entity of a namespace.
#[expect(clippy::large_enum_variant, reason = "most entities are functions")]
#[derive(Clone, Debug, PartialEq)]
pub enum Entity {
    /// Code.
    Function(Function),
    /// Functions in a row.
    Sequence(Sequence),
    /// A package or a binding.
    Package(Package),
    /// A trigger.
    Trigger(Trigger),
    /// A rule.
    Rule(Rule),
}

/// The same expression over whichever entity it is.
macro_rules! each {
    ($entity:expr, $one:ident => $value:expr) => {
        match $entity {
            Entity::Function($one) => $value,
            Entity::Sequence($one) => $value,
            Entity::Package($one) => $value,
            Entity::Trigger($one) => $value,
            Entity::Rule($one) => $value,
        }
    };
}

impl Entity {
    /// Where it is listed.
    pub fn collection(&self) -> Collection {
        match self {
            Self::Function(_) | Self::Sequence(_) => Collection::Actions,
            Self::Package(_) => Collection::Packages,
            Self::Trigger(_) => Collection::Triggers,
            Self::Rule(_) => Collection::Rules,
        }
    }

    /// The owner.
    pub fn namespace(&self) -> &NamespaceName {
        match self {
            Self::Function(function) => &function.path.namespace,
            Self::Sequence(sequence) => &sequence.path.namespace,
            Self::Package(package) => &package.namespace,
            Self::Trigger(trigger) => &trigger.namespace,
            Self::Rule(rule) => &rule.namespace,
        }
    }

    /// The package that it is in; only functions and sequences are ever in one.
    pub fn package(&self) -> Option<&EntityName> {
        match self {
            Self::Function(function) => function.path.package.as_ref(),
            Self::Sequence(sequence) => sequence.path.package.as_ref(),
            Self::Package(_) | Self::Trigger(_) | Self::Rule(_) => None,
        }
    }

    /// Its own name.
    pub fn name(&self) -> &EntityName {
        match self {
            Self::Function(function) => &function.path.name,
            Self::Sequence(sequence) => &sequence.path.name,
            Self::Package(package) => &package.name,
            Self::Trigger(trigger) => &trigger.name,
            Self::Rule(rule) => &rule.name,
        }
    }

    /// Counts every write of its name over all time.
    pub fn revision(&self) -> u64 {
        each!(self, one => one.revision)
    }

    /// The same entity at another revision.
    #[must_use]
    pub fn with_revision(mut self, revision: u64) -> Self {
        each!(&mut self, one => one.revision = revision);
        self
    }

    /// Its default arguments; sequences and rules have none.
    pub fn parameters_mut(&mut self) -> Option<&mut Parameters> {
        match self {
            Self::Function(function) => Some(&mut function.parameters),
            Self::Package(package) => Some(&mut package.parameters),
            Self::Trigger(trigger) => Some(&mut trigger.parameters),
            Self::Sequence(_) | Self::Rule(_) => None,
        }
    }

    /// The same entity without default arguments, as lists have it.
    #[must_use]
    pub fn without_parameters(mut self) -> Self {
        if let Some(parameters) = self.parameters_mut() {
            *parameters = Parameters::default();
        }
        self
    }

    /// When it was last written.
    pub fn updated(&self) -> Timestamp {
        each!(self, one => one.updated)
    }
}

macro_rules! entity_from {
    ($($kind:ident),*) => {
        $(
            impl From<$kind> for Entity {
                fn from(one: $kind) -> Self {
                    Self::$kind(one)
                }
            }
        )*
    };
}

entity_from!(Function, Sequence, Package, Trigger, Rule);
