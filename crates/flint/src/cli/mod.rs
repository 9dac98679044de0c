//! The command line: parses it, and dispatches to the commands.

mod api_args;
mod args;
mod bench_args;
mod dead_letter_args;
mod entity_args;
mod function_args;
mod manifest_args;
mod namespace_args;
mod retry_args;
mod secret_args;
mod sequence_args;
mod values;
mod version_args;

use std::process::ExitCode;

use clap::{
    CommandFactory, FromArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
};

pub(crate) use api_args::*;
pub(crate) use args::*;
pub(crate) use bench_args::*;
pub(crate) use dead_letter_args::*;
pub(crate) use entity_args::*;
pub(crate) use function_args::*;
pub(crate) use manifest_args::*;
pub(crate) use namespace_args::*;
pub(crate) use retry_args::*;
pub(crate) use secret_args::*;
pub(crate) use sequence_args::*;
pub(crate) use values::{cpu_millis, duration, function_name, mebibytes};
pub(crate) use version_args::*;

use crate::{
    commands,
    failure::{self, Exit, Failure},
    manifest,
    output::tell,
};

/// Parses the command line, runs the command and returns its exit code.
pub(crate) fn run() -> ExitCode {
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(instead) => return said_instead(&instead),
    };
    let json = cli.global.json;
    match dispatch(cli) {
        Ok(exit) => exit.into(),
        Err(error) => failure::report(&error, json).into(),
    }
}

fn parsed() -> Result<Cli, clap::Error> {
    let mut grammar = grammar();
    let mut matches =
        grammar.try_get_matches_from_mut(std::env::args_os()).map_err(|error| match error.kind() {
            // Not errors.
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error,
            _ => without_environment(std::env::args_os()).unwrap_or(error),
        })?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut grammar))
}

/// The grammar of the command line. Empty variables (FLINT_URL, FLINT_AUTH, FLINT_CONFIG), as scripts may
/// leave them, count as not set. A negative number after an option is its value, and refused as that.
fn grammar() -> clap::Command {
    each_arg(Cli::command(), |arg| {
        let is_empty = arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
        let arg = if is_empty { arg.env(None::<&'static str>) } else { arg };
        match arg.get_action().takes_values() && !arg.is_positional() {
            true => arg.allow_negative_numbers(true),
            false => arg,
        }
    })
}

/// The error without the environment, from which options are in clap's usage as if they had to be given.
fn without_environment(words: impl IntoIterator<Item = std::ffi::OsString>) -> Option<clap::Error> {
    let grammar = each_arg(grammar(), |arg| arg.env(None::<&'static str>));
    grammar.try_get_matches_from(words).err()
}

fn each_arg(command: clap::Command, change: fn(clap::Arg) -> clap::Arg) -> clap::Command {
    command.mut_args(change).mut_subcommands(|command| each_arg(command, change))
}

/// Prints help or the like, or a usage error, which exits with code 2.
fn said_instead(instead: &clap::Error) -> ExitCode {
    let mut given = std::env::args_os().skip(1).take_while(|argument| argument != "--");
    if instead.use_stderr() && given.any(|argument| argument == "--json") {
        return failure::report(&usage_failure(instead).into(), true).into();
    }
    let printed = instead.print();
    if let Some(here) = said_elsewhere(instead) {
        tell!("\n  try: {here}");
    }
    match printed {
        // Help is a result; a reader that stops early is fine.
        Err(error) if !instead.use_stderr() && error.kind() != std::io::ErrorKind::BrokenPipe => {
            let error = anyhow::Error::new(error).context("cannot write to standard output");
            failure::report(&error, false).into()
        }
        _ => u8::try_from(instead.exit_code()).unwrap_or(Exit::Usage as u8).into(),
    }
}

/// The Flint equivalent of a command or option of wsk, faas-cli or sam.
fn said_elsewhere(error: &clap::Error) -> Option<&'static str> {
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    {
        return option_elsewhere(&error.render().to_string(), option);
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    if !error.render().to_string().contains("Usage: flint [") {
        return match word.as_str() {
            "update" => Some("create with --update changes what is there, and so does set"),
            "delete" | "remove" => Some("rm"),
            _ => None,
        };
    }
    Some(match word.as_str() {
        "action" => "flint deploy PATH (creates and updates), flint invoke, flint list, flint get, flint rm",
        "activation" | "result" | "poll" => {
            "flint activations lists, flint explain ID and flint logs ID show one, flint logs -f follows"
        }
        "create" | "update" | "push" | "publish" | "build" => {
            "flint deploy PATH, which builds, creates and updates"
        }
        "delete" | "remove" => "flint rm NAME; flint undeploy -f MANIFEST for a project",
        "apply" => "flint deploy PATH, flint deploy -f MANIFEST for a project",
        "call" | "exec" | "run" => "flint invoke NAME",
        "describe" => "flint get NAME",
        "local" | "sync" => "flint dev PATH",
        "new" => "flint init --lang LANG DIRECTORY",
        "project" => "flint deploy -f MANIFEST, flint undeploy -f MANIFEST",
        "property" | "login" => "--url or FLINT_URL, and --auth, FLINT_AUTH or ~/.config/flint/auth",
        "start" | "serve" | "server" => "flint up",
        "version" => "flint --version",
        _ => return None,
    })
}

/// The Flint equivalent of another tool's option; the usage names the command.
fn option_elsewhere(said: &str, option: &str) -> Option<&'static str> {
    let of = |command: &str| said.contains(&format!("Usage: flint {command} "));
    if of("deploy") {
        return Some(match option {
            "-p" => "--param K=V for a default argument, --init-param K=V for the environment",
            "-e" | "--env" => "--init-param K=V, or --secret NAME for what nobody is to be shown",
            "-a" => "--annotation K=V",
            "-n" => "--name NAME",
            "--web" => "--annotation web-export=true",
            "--runtime" => "--kind FAMILY or FAMILY:VERSION",
            "--handler" | "--entry-point" => "--main",
            argument if !argument.starts_with('-') => {
                "flint deploy PATH --name NAME, with --param KEY=VALUE for each default argument"
            }
            _ => return None,
        });
    }
    match option {
        "-b" | "--blocking" | "-r" | "--result" if of("invoke") => {
            Some("nothing: a call is waited for, and its answer printed; --async does not wait")
        }
        "-d" | "--data" if of("invoke") => {
            Some("-f FILE for a body, -P FILE for arguments in JSON, -p K=V for one argument")
        }
        argument if (of("invoke") || of("trigger fire")) && !argument.starts_with('-') => {
            Some("-p KEY=VALUE for each argument, -P FILE for a JSON object of them, -P - for one from stdin")
        }
        "-p" | "--port" if of("up") => Some("--listen ADDRESS:PORT"),
        _ => None,
    }
}

/// The first paragraph says what is wrong, the others how to do it.
fn usage_failure(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    // The text of this error is the help alone.
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("the command line ends too early").hint(text.trim_end());
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    match text.split_once("\n\n") {
        Some((message, hint)) => Failure::usage(message).hint(said_elsewhere(error).unwrap_or(hint.trim())),
        None => Failure::usage(text),
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<Exit> {
    let global = cli.global;
    match cli.command {
        Command::Up(args) => commands::up::run(args),
        Command::Config(args) => commands::config::run(&args, global.json),
        Command::Completions { shell } => commands::completions::run(shell),
        Command::Init(args) => commands::init::run(&args, global.json),
        command => single_threaded(async move {
            match command {
                Command::Deploy(args) => commands::deploy::run(&global, &args).await,
                Command::Undeploy(args) => {
                    let (args, given) = args.split();
                    manifest::undeploy(&global, &args, &given).await
                }
                Command::Invoke(args) => commands::invoke::run(&global, &args).await,
                Command::List(args) => commands::list::run(&global, &args).await,
                Command::Get(args) => commands::get::run(&global, &args).await,
                Command::Logs(args) => commands::logs::run(&global, &args).await,
                Command::Activations(args) => commands::activations::run(&global, &args).await,
                Command::Versions(args) => commands::versions::list(&global, &args).await,
                Command::Rollback(args) => commands::versions::rollback(&global, &args).await,
                Command::Alias(args) => commands::versions::alias(&global, &args).await,
                Command::Rm(args) => commands::remove::run(&global, &args).await,
                Command::Dev(args) => commands::dev::run(&global, &args).await,
                Command::Doctor(args) => commands::doctor::run(&global, &args).await,
                Command::Explain(args) => commands::explain::run(&global, &args).await,
                Command::Bench(args) => commands::bench::run(&global, &args).await,
                Command::Backup(args) => commands::backup::backup(&args, global.json).await,
                Command::Restore(args) => commands::backup::restore(&args, global.json).await,
                Command::Url(args) => commands::url::run(&global, &args).await,
                Command::Api(args) => commands::api::run(&global, &args).await,
                Command::Dlq(args) => commands::dead_letters::run(&global, &args).await,
                Command::Secret(args) => commands::secret::run(&global, &args).await,
                Command::Sequence(args) => commands::sequence::run(&global, &args).await,
                Command::Package(args) => commands::package::run(&global, args).await,
                Command::Trigger(args) => commands::trigger::run(&global, args).await,
                Command::Rule(args) => commands::rule::run(&global, args).await,
                Command::Namespace(args) => commands::namespace::run(&global, args).await,
                Command::Up(_) | Command::Config(_) | Command::Completions { .. } | Command::Init(_) => {
                    unreachable!("answered above")
                }
            }
        }),
    }
}

/// Runs on a single-threaded runtime: a client waits for one thing at a time.
fn single_threaded<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn what_is_wrong_with_a_command_line_is_told_apart_from_what_to_do() {
        let error = Cli::try_parse_from(["flint", "--json", "invoke"]).err().unwrap();
        let failure = usage_failure(&error);
        assert!(failure.exit == Exit::Usage && failure.message.contains("<NAME>"), "{failure}");
        assert!(!failure.message.starts_with("error") && failure.hint.unwrap().starts_with("Usage: "));
    }

    #[test]
    fn a_command_line_that_ends_too_early_is_not_told_what_its_command_is_for() {
        for command in ["package", "bench"] {
            let words = ["flint", "--json", command].map(std::ffi::OsString::from);
            let failure = usage_failure(&without_environment(words).unwrap());
            assert_eq!(failure.message, "the command line ends too early");
            assert!(failure.hint.unwrap().contains("Usage: flint "));
        }
    }

    #[test]
    fn the_usage_of_deploy_names_manifests_and_nothing_from_the_environment() {
        let words = ["flint", "deploy"].map(std::ffi::OsString::from);
        let said = without_environment(words).unwrap().render().to_string();
        assert!(said.contains("deploy -f <MANIFEST>") && !said.contains("--url"), "{said}");
    }

    #[test]
    fn a_negative_number_is_refused_as_the_value_that_it_is() {
        for words in ["deploy f.js --memory -1", "list -n -1"] {
            let words = std::iter::once("flint").chain(words.split(' '));
            let error = grammar().try_get_matches_from(words).err().unwrap();
            assert!(!error.render().to_string().contains("-- -1"), "{error}");
        }
    }

    #[test]
    fn commands_of_other_platforms_are_told_what_they_are_called_here() {
        let refused = |words: &[&str]| Cli::try_parse_from(["flint-0.1"].iter().chain(words)).err().unwrap();
        let hint = |word| usage_failure(&refused(&[word])).hint.unwrap();
        assert!(usage_failure(&refused(&["package", "update"])).hint.unwrap().contains("--update"));
        assert!(hint("action").contains("flint deploy") && hint("delete").contains("flint rm"));
        assert!(hint("frobnicate").starts_with("Usage: "));
        let words =
            "activation apply call create describe local new project property run start version".split(' ');
        for word in words {
            assert!(Cli::command().find_subcommand(word).is_none(), "{word} is a command here");
            assert!(!hint(word).starts_with("Usage: "), "{word}");
        }
    }

    #[test]
    fn options_of_other_tools_are_told_what_they_are_called_here() {
        for (words, part) in [
            ("deploy f.js -p a=b", "--param"),
            ("deploy f.js --env=A=B", "--init-param"),
            ("deploy f f.js", "--name NAME"),
            ("deploy f.js --param name you", "--param KEY=VALUE"),
            ("invoke f name=you", "-p KEY=VALUE"),
            ("invoke f -p name you", "-p KEY=VALUE"),
            ("invoke f {}", "-P -"),
            ("trigger fire t -p name you", "-p KEY=VALUE"),
            ("invoke f --blocking", "--async"),
            ("up --port 80", "--listen"),
            ("list f", "Usage: "),
        ] {
            let words = std::iter::once("flint").chain(words.split(' '));
            let hint = usage_failure(&Cli::try_parse_from(words).err().unwrap()).hint.unwrap();
            assert!(hint.contains(part), "{hint}");
        }
    }
}
