//! The options of `flint url` and `flint api`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::values;

#[derive(Debug, Args)]
pub(crate) struct UrlArgs {
    /// The function, `name` or `package/name`
    #[arg(value_parser = values::name)]
    pub(crate) name: String,
    /// The form of its answer: http, json, html, svg, text
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
    /// Put a path and a method in front of a web action, or take over a Swagger document
    Create(ApiCreateArgs),
    /// List what APIs answer
    List {
        /// Only this API: its base path or its name
        #[arg(value_parser = values::name)]
        api: Option<String>,
    },
    /// Show an API as its Swagger document
    Get {
        /// Its base path or its name
        #[arg(value_parser = values::name)]
        api: String,
    },
    /// Delete an API, a path of it, or a method of that
    #[command(visible_alias = "rm")]
    Delete {
        /// Its base path or its name
        #[arg(value_parser = values::name)]
        api: String,
        /// Only this path
        #[arg(value_parser = values::name)]
        path: Option<String>,
        /// Only this method of it
        #[arg(value_parser = values::name)]
        method: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ApiCreateArgs {
    /// What the API's paths begin with, for example /club
    #[arg(required_unless_present = "swagger", value_name = "BASE_PATH")]
    pub(crate) base_path: Option<String>,
    /// The path below it; a segment {name} stands for any
    #[arg(required_unless_present = "swagger")]
    pub(crate) path: Option<String>,
    /// get, put, post, delete, patch, head, options
    #[arg(required_unless_present = "swagger")]
    pub(crate) method: Option<String>,
    /// The function, `name` or `package/name`; it has the annotation web-export=true
    #[arg(required_unless_present = "swagger")]
    pub(crate) function: Option<String>,
    /// What a new API is called [default: its base path]
    #[arg(long, conflicts_with = "swagger")]
    pub(crate) name: Option<String>,
    /// The form of the answers
    #[arg(long, value_name = "FORM", default_value = "http", conflicts_with = "swagger")]
    pub(crate) form: Form,
    /// What the function wants to see in X-Require-Whisk-Auth [env: FLINT_API_SECRET]
    // Not read by clap: a variable that is set for every command would be in conflict with --swagger.
    #[arg(long, conflicts_with = "swagger")]
    pub(crate) secret: Option<String>,
    /// A Swagger 2.0 document (JSON) that becomes the whole API of its base path; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["base_path", "path", "method", "function"])]
    pub(crate) swagger: Option<PathBuf>,
}
