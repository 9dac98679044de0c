//! Contracts `actionloop` and `skeleton`, and the languages that are reached over the first: Go, PHP, Ruby.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, Instant};

use flint_executor::{Executor, Fault, FunctionSource, Instance, Invoked, PrepareError, StartContext};
use flint_model::{CodeFormat, Contract, LogStream};
use serde_json::{Value, json as value};
use support::{House, adjusted, call, context, function, json, text, zipped};

/// An ActionLoop in shell: it has no JSON, so it answers with what it was given.
const LOOP: &str = r#"#!/bin/bash
while read -r line; do
  echo "out $line"
  echo "err" >&2
  case $line in
    *die*) exit 7 ;;
    *twice*) /usr/bin/printf '{"answer":1}\n{"answer":2}\n' >&3 ;;
    *scalar*) echo '5' >&3 ;;
    *hang*) sleep 60 ;;
    *long*) head -c 3000000 /dev/zero | tr '\0' x >&3; echo >&3 ;;
    *) echo "$line" >&3 ;;
  esac
done
"#;

fn looped(script: &str) -> FunctionSource {
    function("native", Contract::ActionLoop, CodeFormat::Executable, script.to_owned())
}

fn source(kind: &str, code: &str) -> FunctionSource {
    function(kind, Contract::ActionLoop, CodeFormat::Source, code.to_owned())
}

async fn fault(instance: &dyn Instance, arguments: &str) -> Fault {
    match instance.invoke(json(arguments)).await {
        Invoked::Done { result: Err(fault), .. } => fault,
        other => panic!("{other:?}"),
    }
}

fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_json_is_its_callers_fault() {
    let house = House::new().await;
    let instance = house.start(looped(LOOP)).await;
    for arguments in ["not json", "{\"half\":", "\u{0}"] {
        let Invoked::Done { result, end } = instance.invoke(json(arguments)).await else { panic!() };
        assert!(matches!(result, Err(Fault::NotJson(_))), "{result:?}");
        assert!(end.reusable, "the program was told nothing");
    }
    let Invoked::Done { result, .. } = instance.invoke(json("{}")).await else { panic!() };
    assert!(result.is_ok(), "{result:?}");
    instance.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_told_of_each_call_in_a_line() {
    let house = House::new().await;
    let instance = house.start(looped(LOOP)).await;
    let call = json("{\n \"name\": \"a\\nb\"\r\n}");
    let activation = call.activation.to_string();
    let Invoked::Done { result, end } = instance.invoke(call).await else { panic!() };
    let line = object(std::str::from_utf8(&result.unwrap().body).unwrap());
    assert_eq!(line["value"], value!({"name": "a\nb"}));
    assert_eq!((&line["namespace"], &line["action_name"]), (&value!("guest"), &value!("/guest/test")));
    assert_eq!((&line["activation_id"], &line["action_version"]), (&value!(activation), &value!("0.0.1")));
    assert!(line["deadline"].as_str().unwrap().parse::<u64>().is_ok());
    let logs: Vec<_> = end.logs.iter().map(|line| (line.stream, &line.text[..3])).collect();
    assert!(
        logs.contains(&(LogStream::Stdout, "out")) && logs.contains(&(LogStream::Stderr, "err")),
        "{logs:?}"
    );
    // A second answer is not the next call's.
    assert_eq!(object(&text(instance.invoke(json(r#"{"twice":1}"#)).await)), value!({"answer": 1}));
    assert_eq!(object(&text(instance.invoke(json(r#"{"b":1}"#)).await))["value"], value!({"b": 1}));
    assert_eq!(fault(&*instance, r#"{"scalar":1}"#).await, Fault::InvalidAnswer { text: "5".into() });
    let too_long = fault(&*instance, r#"{"long":1}"#).await;
    assert!(matches!(too_long, Fault::ResultTooLarge { size: 3_000_000, .. }), "{too_long:?}");
    let arguments = format!(r#"{{"text":"{}"}}"#, "x".repeat(900_000));
    let long = object(&text(instance.invoke(json(&arguments)).await));
    assert_eq!(long["value"]["text"].as_str().unwrap().len(), 900_000);
    assert!(matches!(fault(&*instance, r#"{"die":1}"#).await, Fault::Exited { .. }));
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_hangs_is_ended_at_its_deadline() {
    let house = House::new().await;
    let instance = house.start(looped(LOOP)).await;
    let mut hanging = json(r#"{"hang":1}"#);
    hanging.deadline = Instant::now() + Duration::from_millis(300);
    let Invoked::Done { result, end } = instance.invoke(hanging).await else { panic!() };
    assert_eq!((result.unwrap_err(), end.reusable), (Fault::Deadline, false));
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skeleton_has_its_arguments_in_argv_and_answers_with_its_last_line() {
    let house = House::new().await;
    let run = async |script: &str, arguments: &str| {
        let code = zipped(&[("exec", script)]);
        let source = function("blackbox", Contract::Skeleton, CodeFormat::Zip, code);
        let instance = house.start(source).await;
        let invoked = instance.invoke(json(arguments)).await;
        instance.stop().await;
        invoked
    };
    let script = "#!/bin/bash\necho first\necho second\necho \"{\\\"got\\\": $1, \\\"action\\\": \\\"$__OW_ACTION_NAME\\\"}\"\necho err >&2\n";
    let Invoked::Done { result, end } = run(script, r#"{"a":1}"#).await else { panic!() };
    let body = String::from_utf8(result.unwrap().body.to_vec()).unwrap();
    assert_eq!(object(&body), value!({"got": {"a": 1}, "action": "/guest/test"}));
    let mut logs: Vec<_> = end.logs.iter().map(|line| line.text.as_str()).collect();
    logs.sort_unstable();
    assert_eq!(logs, ["err", "first", "second"]);
    let Invoked::Done { result, .. } = run("#!/bin/bash\necho hello\n", "{}").await else { panic!() };
    assert_eq!(result.unwrap_err(), Fault::InvalidAnswer { text: "hello".into() });
    let Invoked::Done { result, .. } = run("#!/bin/bash\necho broken >&2; exit 3\n", "{}").await else {
        panic!()
    };
    let message = "the program ended with exit code 3: broken".to_owned();
    assert_eq!(result.unwrap_err(), Fault::Developer { message });
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(200_000));
    let Invoked::Done { result, .. } = run(script, &long).await else { panic!() };
    assert!(matches!(result.unwrap_err(), Fault::Developer { message } if message.contains("128 KB")));
    house.end().await;
}

/// What every language must do: `code` is a function that greets, logs, counts and reads its environment.
async fn greets(house: &House, source: FunctionSource) {
    let prepared = house.prepare(source).await;
    let mut context = context();
    context.environment = vec![("SETTING".into(), "on".into())];
    let instance = match house.executor.start(&prepared, context).await {
        Ok(started) => started.instance,
        Err(failure) => panic!("{failure}; logs: {:#?}", failure.logs),
    };
    for n in 1..=2 {
        let call = json(r#"{"name":"Zoë"}"#);
        let activation = call.activation.to_string();
        let Invoked::Done { result, end } = instance.invoke(call).await else { panic!() };
        let said = match result {
            Ok(reply) => object(std::str::from_utf8(&reply.body).unwrap()),
            Err(fault) => panic!("{fault:?} {:#?}", end.logs),
        };
        let wanted = value!({"greeting": "Hello Zoë", "activation": activation, "calls": n, "setting": "on"});
        assert_eq!(said, wanted);
        let mut logs: Vec<_> = end.logs.iter().map(|line| (line.stream, line.text.as_str())).collect();
        logs.sort_by_key(|(stream, _)| *stream == LogStream::Stderr);
        assert_eq!(logs, [(LogStream::Stdout, "out"), (LogStream::Stderr, "err")]);
    }
    let failed = object(&text(instance.invoke(json(r#"{"fail":true}"#)).await));
    assert_eq!(failed, value!({"error": "no such luck"}));
    instance.stop().await;
}

async fn started(house: &House, source: FunctionSource) -> Result<(), Fault> {
    let prepared = house.prepare(source).await;
    match house.executor.start(&prepared, context()).await {
        Ok(started) => {
            started.instance.stop().await;
            Ok(())
        }
        Err(failure) => Err(failure.fault),
    }
}

const PHP: &str = r#"<?php
$calls = 0;
$setting = getenv("SETTING");
function main(array $args): array {
    global $calls, $setting;
    if ($args["fail"] ?? false) { throw new RuntimeException("no such luck"); }
    $GLOBALS["calls"] = ($GLOBALS["calls"] ?? 0) + 1;
    echo "out\n";
    fwrite(STDERR, "err\n");
    return ["greeting" => "Hello {$args['name']}", "activation" => getenv("__OW_ACTIVATION_ID"),
            "calls" => $GLOBALS["calls"], "setting" => getenv("SETTING")];
}
class Other { static function run(array $args): array { return ["other" => ctype_alpha($args["a"])]; } }
function nothing() {}
function scalar() { return 5; }
"#;

const RUBY: &str = r#"
$calls = 0
def main(args)
  raise 'no such luck' if args['fail']
  $calls += 1
  puts 'out'
  warn 'err'
  { greeting: "Hello #{args['name']}", activation: ENV['__OW_ACTIVATION_ID'], calls: $calls, setting: ENV['SETTING'] }
end
module Other
  def self.run(args) = { 'other' => args['a'].upcase }
end
def nothing(_) = nil
def scalar(_) = 5
"#;

const GO: &str = r#"package main

import (
	"errors"
	"fmt"
	"os"
)

var calls int

func Main(args map[string]any) (map[string]any, error) {
	if args["fail"] != nil {
		return nil, errors.New("no such luck")
	}
	calls++
	fmt.Println("out")
	fmt.Fprintln(os.Stderr, "err")
	return map[string]any{"greeting": "Hello " + args["name"].(string), "activation": os.Getenv("__OW_ACTIVATION_ID"),
		"calls": calls, "setting": os.Getenv("SETTING")}, nil
}

func List(args []any) []any { return append(args, len(args)) }

func Nothing(args map[string]any) map[string]any { return nil }
"#;

async fn run(house: &House, source: FunctionSource, main: &str, arguments: &str) -> Invoked {
    let instance = house.start(adjusted(source, |function| function.main = Some(main.into()))).await;
    let invoked = instance.invoke(json(arguments)).await;
    instance.stop().await;
    invoked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn php_functions_run() {
    let house = House::new().await;
    greets(&house, source("php:default", PHP)).await;
    let run = async |main, arguments| run(&house, source("php", PHP), main, arguments).await;
    assert_eq!(text(run("Other::run", r#"{"a":"x"}"#).await), r#"{"other":true}"#);
    assert_eq!(text(run("nothing", "{}").await), "{}");
    let Invoked::Done { result, .. } = run("scalar", "{}").await else { panic!() };
    assert_eq!(result.unwrap_err(), Fault::InvalidAnswer { text: "5".into() });
    let missing = adjusted(source("php", PHP), |function| function.main = Some("nowhere".into()));
    let message = "the code has no function 'nowhere'".to_owned();
    assert_eq!(started(&house, missing).await, Err(Fault::Developer { message }));
    let broken = started(&house, source("php", "<?php function main( {")).await;
    assert!(matches!(broken, Err(Fault::Developer { message }) if message.contains("syntax error")));
    let files = [
        (
            "index.php",
            "<?php require 'lib/greet.php'; function main(array $args): array { return ['v' => VENDORED, 'g' => greet()]; }",
        ),
        ("lib/greet.php", "<?php function greet() { return 'hi'; }"),
        ("vendor/autoload.php", "<?php const VENDORED = 1;"),
    ];
    let zip = function("php:default", Contract::ActionLoop, CodeFormat::Zip, zipped(&files));
    let instance = house.start(zip).await;
    assert_eq!(text(instance.invoke(json("{}")).await), r#"{"v":1,"g":"hi"}"#);
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_interpreter_takes_to_come_up_is_not_the_functions_time() {
    let house = House::new().await;
    for (kind, code) in [("php:default", PHP), ("ruby:default", RUBY)] {
        let prepared = house.prepare(source(kind, code)).await;
        let over = StartContext { deadline: Instant::now(), ..context() };
        let started = house.executor.start(&prepared, over).await;
        let started = started.unwrap_or_else(|failure| panic!("{kind}: {failure}"));
        started.instance.stop().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ruby_functions_run() {
    let house = House::new().await;
    greets(&house, source("ruby:default", RUBY)).await;
    let run = async |main, arguments| run(&house, source("ruby", RUBY), main, arguments).await;
    assert_eq!(text(run("Other.run", r#"{"a":"x"}"#).await), r#"{"other":"X"}"#);
    assert_eq!(text(run("nothing", "{}").await), "{}");
    let Invoked::Done { result, .. } = run("scalar", "{}").await else { panic!() };
    assert_eq!(result.unwrap_err(), Fault::InvalidAnswer { text: "5".into() });
    let broken = started(&house, source("ruby", "def main(")).await;
    assert!(matches!(broken, Err(Fault::Developer { message }) if message.contains("syntax error")));
    let files = [
        ("main.rb", "require 'lib/greet'\nrequire_relative 'lib/greet'\ndef main(_) = { 'g' => greet }"),
        ("lib/greet.rb", "def greet = 'hi'"),
    ];
    let zip = function("ruby:default", Contract::ActionLoop, CodeFormat::Zip, zipped(&files));
    let instance = house.start(zip).await;
    assert_eq!(text(instance.invoke(json("{}")).await), r#"{"g":"hi"}"#);
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_functions_are_compiled_and_run() {
    let house = House::with(|config| config.build_timeout = Duration::from_secs(240)).await;
    greets(&house, source("go:default", GO)).await;
    let run = async |main, arguments| run(&house, source("go", GO), main, arguments).await;
    assert_eq!(text(run("list", "[1,2]").await), "[1,2,2]");
    assert_eq!(text(run("nothing", "{}").await), "{}");
    let broken =
        house.executor.prepare(source("go", "package main\nfunc Main() { return x }\n"), &|_| {}).await;
    match broken {
        Err(PrepareError::Code(said)) => {
            assert!(said.contains("main.go:2") && said.contains("undefined: x"), "{said}")
        }
        other => panic!("{other:?}"),
    }
    let missing = adjusted(source("go", GO), |function| function.main = Some("nowhere".into()));
    match house.executor.prepare(missing, &|_| {}).await {
        Err(PrepareError::Code(said)) => {
            assert!(said.contains("undefined: Nowhere") && said.contains("exported"), "{said}")
        }
        other => panic!("{other:?}"),
    }
    // A program of its own, in a module with a package beside it, that speaks the protocol itself.
    let own = "package main\n\nimport (\n\t\"bufio\"\n\t\"fmt\"\n\t\"os\"\n\n\t\"example.org/own/word\"\n)\n\nfunc main() {\n\tout := os.NewFile(3, \"3\")\n\tfmt.Fprintln(out, `{\"ok\":true}`)\n\tlines := bufio.NewScanner(os.Stdin)\n\tfor lines.Scan() {\n\t\tfmt.Fprintf(out, \"{\\\"word\\\":%q}\\n\", word.Said)\n\t}\n}\n";
    let files = [
        ("src/go.mod", "module example.org/own\n\ngo 1.20\n"),
        ("src/main.go", own),
        ("src/word/word.go", "package word\n\nconst Said = \"hi\"\n"),
    ];
    let zip = function("go:default", Contract::ActionLoop, CodeFormat::Zip, zipped(&files));
    let prepared = house.prepare(zip).await;
    let started = house.executor.start(&prepared, context()).await.unwrap();
    assert_eq!(text(started.instance.invoke(json("{}")).await), r#"{"word":"hi"}"#);
    started.instance.stop().await;
    // What was compiled elsewhere is taken as it is.
    let artefacts = std::fs::read_dir(house.artefacts()).unwrap().map(|entry| entry.unwrap().path());
    let program = artefacts.map(|path| path.join("code/exec")).find(|path| path.exists()).unwrap();
    let program = std::fs::read(program).unwrap();
    let compiled = function("go:default", Contract::ActionLoop, CodeFormat::Executable, program);
    let instance = house.start(compiled).await;
    assert!(matches!(instance.invoke(call(bytes::Bytes::from_static(b"{}"))).await, Invoked::Done { .. }));
    instance.stop().await;
    house.end().await;
}
