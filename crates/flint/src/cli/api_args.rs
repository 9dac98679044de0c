//! The options of `flint url` and `flint api`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::values;

#[derive(Debug, Args)]
pub(crate) struct UrlArgs {
    /// The function, `name` or `package/name`
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
    /// Form of the response: http, json, html, svg, text
    #[arg(long, value_name = "FORM")]
    pub(crate) form: Option<Form>,
}

/// The form of a web action's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    Http,
    Json,
    Html,
    Svg,
    Text,
}

impl Form {
    /// As it stands in a path, without the dot.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Json => "json",
            Self::Html => "html",
            Self::Svg => "svg",
            Self::Text => "text",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ApiArgs {
    #[command(subcommand)]
    pub(crate) command: ApiCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApiCommand {
    /// Add a path and method in front of a web action, or import a Swagger document
    Create(ApiCreateArgs),
    /// List the operations of APIs
    List {
        /// Only this API: base path or name
        #[arg(value_parser = values::name)]
        api: Option<String>,
    },
    /// Show an API as its Swagger document
    Get {
        /// Base path or name of the API
        #[arg(value_parser = values::name)]
        api: String,
    },
    /// Delete an API, or one of its paths or methods
    #[command(visible_alias = "rm")]
    Delete {
        /// Base path or name of the API
        #[arg(value_parser = values::name)]
        api: String,
        /// Only this path
        #[arg(value_parser = values::name)]
        path: Option<String>,
        /// Only this method of the path
        #[arg(value_parser = values::name)]
        method: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ApiCreateArgs {
    /// Prefix of the API's paths, for example /club
    #[arg(required_unless_present = "swagger", value_name = "BASE_PATH", value_parser = values::name)]
    pub(crate) base_path: Option<String>,
    /// Path below the base path; a segment {name} matches any value
    #[arg(required_unless_present = "swagger", value_parser = values::name)]
    pub(crate) path: Option<String>,
    /// HTTP method: get, put, post, delete, patch, head, options
    #[arg(required_unless_present = "swagger", value_parser = values::name)]
    pub(crate) method: Option<String>,
    /// The function, `name` or `package/name`; requires the annotation web-export=true
    #[arg(required_unless_present = "swagger", value_parser = values::name)]
    pub(crate) function: Option<String>,
    /// Name of a new API [default: its base path]
    #[arg(long, conflicts_with = "swagger")]
    pub(crate) name: Option<String>,
    /// Form of the responses
    #[arg(long, value_name = "FORM", default_value = "http", conflicts_with = "swagger")]
    pub(crate) form: Form,
    /// Secret that the function requires in X-Require-Whisk-Auth [env: FLINT_API_SECRET]
    // Not read by clap: a variable that is set for every command would be in conflict with --swagger.
    #[arg(long, conflicts_with = "swagger")]
    pub(crate) secret: Option<String>,
    /// Swagger 2.0 document (JSON) that replaces the whole API of its base path; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["base_path", "path", "method", "function"])]
    pub(crate) swagger: Option<PathBuf>,
}
