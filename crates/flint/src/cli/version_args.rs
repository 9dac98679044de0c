//! The options of `flint versions`, `flint rollback` and `flint alias`.

use clap::{Args, Subcommand};
use flint_model::{AliasName, Version};

use super::values;

#[derive(Debug, Args)]
pub(crate) struct VersionsArgs {
    /// The function
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The function
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
    /// Version to roll back to [default: the one before the newest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) to: Option<Version>,
}

#[derive(Debug, Args)]
pub(crate) struct AliasArgs {
    #[command(subcommand)]
    pub(crate) command: AliasCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AliasCommand {
    /// Create or change an alias; `live` sets the version that calls by bare name use
    Set {
        /// The function
        #[arg(value_parser = values::name)]
        name: String,
        /// The alias
        alias: AliasName,
        /// Version, or several with their shares of the calls: 0.0.3=90 0.0.4=10
        #[arg(required = true, value_name = "VERSION[=WEIGHT]", value_parser = target)]
        versions: Vec<(Version, u32)>,
    },
    /// List the aliases of a function
    #[command(visible_alias = "ls")]
    List {
        /// The function
        #[arg(value_parser = values::name)]
        name: String,
    },
    /// Delete an alias; its versions stay for now
    Rm {
        /// The function
        #[arg(value_parser = values::name)]
        name: String,
        /// The alias
        alias: AliasName,
    },
}

/// `0.0.3`, or `0.0.3=90`.
fn target(text: &str) -> Result<(Version, u32), String> {
    let (version, weight) = text.split_once('=').unwrap_or((text, "1"));
    let version = version.parse().map_err(|error| format!("{error}"))?;
    let weight = weight
        .parse()
        .map_err(|_| format!("'{weight}' is not a weight: write a whole number, for example 0.0.3=90"))?;
    Ok((version, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_may_have_a_weight() {
        let version: Version = "0.0.3".parse().unwrap();
        assert_eq!((target("0.0.3"), target("0.0.3=90")), (Ok((version, 1)), Ok((version, 90))));
        for bad in ["", "0.0", "0.0.3=", "0.0.3=-1", "0.0.3=half", "=1"] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }
}
