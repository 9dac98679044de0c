//! `kill -9` at any moment: whatever was acknowledged is there afterwards.
//!
//! A driver's test runs itself again as a child process, in which it calls [`work`] on the open store; the parent calls
//! [`killed`] with the command for that child. The child says each acknowledgement on its standard output, one line
//! each, and the parent holds the store to those lines.

use std::{
    collections::{HashMap, HashSet},
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::Duration,
};

use bytes::Bytes;
use flint_model::{
    Activation, ActivationId, Attempt, DeadLetterReason, Digest, EntityPath, FunctionPath, Timestamp,
};
use futures_util::future::{join, join_all};

use super::{
    Driver, Opened, apis, compositions,
    dead_letters::{ROOM, anew},
    key_value,
    sample::{
        LONG, PLENTY, activation, call, feed, function, inhabit, lease, namespace, namespace_name, path,
        trigger,
    },
    secrets,
    versions::{check_after_kill, replace_until_killed},
};
use crate::{ActivationQuery, Expected, Lease, LeasedCall, LetterQuery, Page, QueuedCall};

/// Every line of the child's that counts begins with this: test harnesses write to standard output too.
const MARK: &str = "ack ";
/// Calls that the child's feed makes each time.
const CALLS_OF_A_FIRING: u64 = 2;
const ALL: Page = Page { skip: 0, limit: usize::MAX };

fn say(line: &str) {
    // In one write, so that lines do not mix. When the parent is gone there is nobody to tell.
    let _ = std::io::stdout().lock().write_all(format!("\n{MARK}{line}\n").as_bytes());
}

/// Writes to all parts of the store and says so, until it is killed.
pub async fn work(opened: &Opened) {
    let Opened { catalog, activations, queue, dead_letters, blobs, feeds, .. } = opened;
    inhabit(&**catalog).await;
    let life = ActivationId::generate().to_string();
    let functions = join_all((0..4).map(|writer| {
        let at = format!("guest/f{life}-{writer}");
        async move {
            let mut expected = Expected::Absent;
            for updated in 0.. {
                let revision = catalog.put_function(&function(&at, updated), expected).await.unwrap();
                say(&format!("function {at} {revision}"));
                expected = Expected::Revision(revision);
            }
        }
    }));
    let arguments = [Bytes::from(vec![b'x'; 128 << 10]), Bytes::from_static(b"{}")];
    let calls = join_all((0..32).map(|_| async {
        for at in 0.. {
            let mut accepted = call("guest", at, 3);
            // Large ones make a commit long, so that many kills come between the write and its commit.
            accepted.arguments = arguments[at as usize % 2].clone();
            let id = accepted.activation;
            queue.enqueue(accepted, &life, LONG).await.unwrap();
            say(&format!("call {id}"));
            if at % 4 > 1 {
                continue;
            }
            assert!(queue.begin(Lease::first(id)).await.unwrap());
            say(&format!("begun {id}"));
            if at % 4 == 0 {
                activations.append(Activation { id, ..activation("guest", "guest/work", at, 3) });
                assert!(queue.complete(Lease::first(id)).await.unwrap());
            }
        }
    }));
    let failing = join_all((0..4).map(|_| async {
        for at in 0.. {
            let failed = call("failing", at, 3);
            let id = failed.activation;
            queue.enqueue(failed, &life, LONG).await.unwrap();
            let lease = Lease::first(id);
            assert!(queue.begin(lease).await.unwrap());
            let failure = || Attempt::new(Timestamp::from_millis(at), "it failed");
            if at % 2 == 0 {
                assert!(queue.retry(lease, failure(), Duration::ZERO, false).await.unwrap());
                say(&format!("failed {id}"));
                continue;
            }
            let reason = DeadLetterReason::AttemptsUsed;
            assert!(dead_letters.bury(lease, reason, Some(failure()), ROOM).await.unwrap().kept);
            say(&format!("buried {id}"));
            if at % 4 == 1 {
                let redrive = anew();
                let new = redrive.activation;
                assert!(dead_letters.redrive(&namespace_name("failing"), id, redrive).await.unwrap());
                say(&format!("redriven {id} {new}"));
            }
        }
    }));
    let together = async {
        for at in 0.. {
            let calls: Vec<_> = (0..4).map(|_| call("guest", at, 3)).collect();
            let ids: Vec<_> = calls.iter().map(|call| call.activation.to_string()).collect();
            queue.enqueue_all(calls, Some((&life, LONG))).await.unwrap();
            say(&format!("together {}", ids.join(" ")));
        }
    };
    let firings = async {
        let at = format!("fires/t{life}");
        catalog.put_namespace(&namespace("fires")).await.unwrap();
        catalog.put_entity(&trigger(&at, 1).into(), Expected::Absent).await.unwrap();
        let mut fires = feed(&at, 1);
        fires.revision = feeds.put_feed(&fires, Expected::Absent, usize::MAX).await.unwrap();
        loop {
            fires.fired += 1;
            let calls = (0..CALLS_OF_A_FIRING)
                .map(|_| QueuedCall { path: path(&at), ..call("fires", fires.fired, 3) });
            fires.revision = feeds.go_on(&fires, calls.collect(), None).await.unwrap();
            say(&format!("fired {at} {}", fires.fired));
        }
    };
    let code = async {
        for at in 0.. {
            let digest = blobs.put(Bytes::from(format!("{life} {at}").repeat(100))).await.unwrap();
            say(&format!("blob {digest}"));
        }
    };
    let records = async {
        for round in 0.. {
            let records: Vec<_> =
                (0..50).map(|at| activation("guest", "guest/work", round * 50 + at, 3)).collect();
            let ids: Vec<_> = records.iter().map(|record| record.id).collect();
            records.into_iter().for_each(|record| activations.append(record));
            if round % 3 == 0 {
                activations.flush().await.unwrap();
                ids.iter().for_each(|id| say(&format!("record {id}")));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let calls = join(calls, join(together, failing));
    let replaced = format!("guest/v{life}");
    let versions =
        replace_until_killed(opened, &replaced, |patch| say(&format!("replaced {replaced} {patch}")));
    let functions = join(functions, versions);
    let (name, base_path) = (format!("s{life}"), format!("/{life}"));
    let sealed =
        secrets::replace_until_killed(opened, &name, |number| say(&format!("secret {name} {number}")));
    let gateway = apis::replace_until_killed(opened, &base_path, |revision| {
        say(&format!("api {base_path} {revision}"));
    });
    let sums =
        key_value::count_until_killed(&*opened.values, &name, |sum| say(&format!("value {name} {sum}")));
    let steps = join_all((0..4).map(|_| {
        compositions::compose_until_killed(opened, &life, |id, step| say(&format!("step {id} {step}")))
    }));
    let kept = join(join(sealed, gateway), join(sums, steps));
    join(join(functions, calls), join(join(code, firings), join(records, kept))).await;
}

/// What a child has acknowledged.
#[derive(Debug, Default)]
struct Acknowledged {
    functions: HashMap<FunctionPath, u64>,
    calls: HashSet<ActivationId>,
    begun: HashSet<ActivationId>,
    failed: Vec<ActivationId>,
    buried: Vec<ActivationId>,
    redriven: HashMap<ActivationId, ActivationId>,
    blobs: Vec<Digest>,
    records: Vec<ActivationId>,
    fired: HashMap<EntityPath, u64>,
    replaced: HashMap<FunctionPath, u64>,
    secrets: HashMap<String, u64>,
    apis: HashMap<String, u64>,
    values: HashMap<String, u64>,
    steps: HashMap<ActivationId, u64>,
}

impl Acknowledged {
    fn read(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["function", at, revision] => {
                self.functions
                    .extend([(at.parse::<FunctionPath>().unwrap(), revision.parse::<u64>().unwrap())]);
            }
            ["call", id] => self.calls.extend([id.parse::<ActivationId>().unwrap()]),
            ["together", ref ids @ ..] => {
                self.calls.extend(ids.iter().map(|id| id.parse::<ActivationId>().unwrap()));
            }
            ["begun", id] => self.begun.extend([id.parse::<ActivationId>().unwrap()]),
            ["failed", id] => self.failed.push(id.parse().unwrap()),
            ["buried", id] => self.buried.push(id.parse().unwrap()),
            ["redriven", old, new] => drop(self.redriven.insert(old.parse().unwrap(), new.parse().unwrap())),
            ["blob", digest] => self.blobs.push(digest.parse().unwrap()),
            ["fired", at, times] => {
                self.fired.extend([(at.parse::<EntityPath>().unwrap(), times.parse::<u64>().unwrap())]);
            }
            ["replaced", at, patch] => {
                self.replaced.extend([(at.parse::<FunctionPath>().unwrap(), patch.parse::<u64>().unwrap())]);
            }
            ["secret", name, number] => {
                self.secrets.extend([(name.to_owned(), number.parse::<u64>().unwrap())]);
            }
            ["api", at, revision] => self.apis.extend([(at.to_owned(), revision.parse::<u64>().unwrap())]),
            ["value", name, sum] => self.values.extend([(name.to_owned(), sum.parse::<u64>().unwrap())]),
            ["step", id, step] => {
                self.steps.extend([(id.parse::<ActivationId>().unwrap(), step.parse::<u64>().unwrap())]);
            }
            ["record", id] => self.records.push(id.parse().unwrap()),
            _ => panic!("the child said '{line}'"),
        }
    }
}

/// Starts the child, kills it after `delay` from its first acknowledgement, and reads what it said.
fn live_and_die(mut command: Command, delay: Duration) -> Acknowledged {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut acknowledged = Acknowledged::default();
    let mut killer = None;
    let mut line = Vec::new();
    let mut count = 0;
    // A line without its end was cut by the kill.
    while lines.read_until(b'\n', &mut line).unwrap() > 0 && line.ends_with(b"\n") {
        if let Some(text) = str::from_utf8(&line).unwrap().trim_end().strip_prefix(MARK) {
            acknowledged.read(text);
            count += 1;
            if killer.is_none() {
                let pid = child.id();
                killer = Some(std::thread::spawn(move || {
                    std::thread::sleep(delay);
                    Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
                }));
            }
        }
        line.clear();
    }
    let status = child.wait().unwrap();
    assert!(count > 0 && !status.success(), "the child acknowledged {count} writes and ended with {status}");
    killer.into_iter().for_each(|killer| killer.join().unwrap());
    acknowledged
}

/// Every failure that was acknowledged is there, as a call that has one attempt less, as a letter, or as a call that was a letter; and
/// never as two of them.
async fn failures_are_there(opened: &Opened, said: &Acknowledged, leased: &[LeasedCall], round: u32) {
    let failing = namespace_name("failing");
    let attempts: HashMap<_, _> =
        leased.iter().map(|leased| (leased.call.activation, leased.earlier.len())).collect();
    let causes: HashMap<_, _> =
        leased.iter().filter_map(|leased| Some((leased.call.cause?, leased.call.activation))).collect();
    for id in &said.failed {
        assert_eq!(attempts.get(id), Some(&1), "round {round}: a failed attempt is lost");
    }
    let letters: HashSet<_> = opened
        .dead_letters
        .list(&failing, &LetterQuery::default(), ALL)
        .await
        .unwrap()
        .into_iter()
        .map(|letter| letter.call.activation)
        .collect();
    for id in &said.buried {
        // A redrive may be durable a moment before it is said.
        let places = [letters.contains(id), attempts.contains_key(id), causes.contains_key(id)];
        assert!(
            places == [true, false, false] || places == [false, false, true],
            "round {round}: {id} {places:?}"
        );
    }
    for (old, new) in &said.redriven {
        assert_eq!(causes.get(old), Some(new), "round {round}: a redriven call is lost");
    }
    for id in letters {
        assert!(opened.dead_letters.remove(&failing, id).await.unwrap());
    }
}

/// What a feed says that it has fired, and the calls that came of it, are the same.
async fn check_firings(opened: &Opened, leased: &[LeasedCall], said: &Acknowledged, round: u32) {
    for feed in opened.feeds.feeds(None, usize::MAX, PLENTY).await.unwrap() {
        let (at, fired) = (feed.path(), feed.fired);
        let acknowledged = said.fired.get(&at).copied().unwrap_or(0);
        assert!(fired >= acknowledged, "round {round}: {at} has fired {acknowledged} times and says {fired}");
        let mut calls: Vec<_> = leased.iter().map(|leased| &leased.call).collect();
        calls.retain(|call| call.path.to_string() == at.to_string());
        let mut numbers: Vec<_> = calls.iter().map(|call| call.accepted.as_millis()).collect();
        numbers.sort_unstable();
        let expected: Vec<_> = (1..=fired).flat_map(|number| [number; CALLS_OF_A_FIRING as usize]).collect();
        assert_eq!(numbers, expected, "round {round}: each firing of {at} has its calls once");
        opened.feeds.delete_feed(&at).await.unwrap();
    }
}

/// Kills a child `rounds` times, each time at another moment, and checks after each that nothing acknowledged is lost.
pub async fn killed(driver: &dyn Driver, mut child: impl FnMut() -> Command, rounds: u32) {
    let guest = namespace_name("guest");
    let mut records = HashSet::new();
    let mut blobs = Vec::new();
    for round in 0..rounds {
        let command = child();
        let delay = Duration::from_millis(u64::from(round * 61 % 300))
            + Duration::from_micros(u64::from(round * 611 % 1000));
        let said = tokio::task::spawn_blocking(move || live_and_die(command, delay)).await.unwrap();
        let opened = driver.open().await;

        for (path, revision) in &said.functions {
            let found = opened.catalog.function(path).await.unwrap();
            let found = found.unwrap_or_else(|| panic!("round {round}: {path} was acknowledged and is lost"));
            assert!(found.revision >= *revision, "round {round}: {path} has gone back from {revision}");
        }

        for (path, patch) in &said.replaced {
            check_after_kill(&opened, path, *patch).await;
        }

        for (name, number) in &said.secrets {
            secrets::check_after_kill(&opened, name, *number).await;
        }
        for (at, revision) in &said.apis {
            apis::check_after_kill(&opened, at, *revision).await;
        }
        for (name, sum) in &said.values {
            key_value::check_after_kill(&*opened.values, name, *sum).await;
        }

        let owner = format!("after {round}");
        opened.queue.release_all_except(&owner).await.unwrap();
        let leased = lease(&*opened.queue, &owner, 1 << 40, LONG).await;
        assert_eq!(opened.queue.depth(None).await.unwrap(), leased.len());
        check_firings(&opened, &leased, &said, round).await;
        let waiting: HashMap<_, _> =
            leased.iter().map(|leased| (leased.call.activation, leased.lease)).collect();
        join_all(said.steps.iter().map(|(id, step)| {
            let held = waiting.get(id).unwrap_or_else(|| panic!("round {round}: a composition is lost"));
            compositions::check_after_kill(&opened, *held, *step)
        }))
        .await;
        failures_are_there(&opened, &said, &leased, round).await;
        for leased in &leased {
            // One that was not said to be begun may have been, a moment before the kill.
            let begun = leased.earlier.len();
            assert!(begun <= 1 && leased.attempt as usize == begun + 1, "round {round}: {leased:?}");
            assert!(
                begun == 1 || !said.begun.contains(&leased.call.activation),
                "round {round}: an attempt is lost"
            );
            assert!(opened.queue.complete(leased.lease).await.unwrap());
        }

        blobs.extend(&said.blobs);
        for digest in &blobs {
            assert!(
                opened.blobs.get(*digest).await.unwrap().is_some(),
                "round {round}: blob {digest} is lost"
            );
        }

        records.extend(&said.records);
        let listed = opened.activations.list(&guest, &ActivationQuery::default(), ALL, true).await.unwrap();
        assert!(listed.iter().all(|record| record.logs.len() == 3), "round {round}: a record is torn");
        assert_eq!(
            opened.activations.count(&guest, &ActivationQuery::default()).await.unwrap(),
            listed.len()
        );
        let there: HashSet<_> = listed.iter().map(|record| record.id).collect();
        assert_eq!(there.len(), listed.len(), "round {round}: a record is there twice");
        assert!(
            records.is_subset(&there),
            "round {round}: {} flushed records are lost",
            records.difference(&there).count()
        );
        // A call that was completed has its record.
        let lost = said.calls.iter().filter(|id| !waiting.contains_key(id) && !there.contains(id)).count();
        assert_eq!(
            lost,
            0,
            "round {round}: {lost} of {} accepted calls are neither waiting nor recorded",
            said.calls.len()
        );
        println!(
            "round {round}: killed after {delay:?}; {} calls, {} functions, {} blobs, {} records acknowledged, all there",
            said.calls.len(),
            said.functions.len(),
            said.blobs.len(),
            said.records.len()
        );
        opened.close.await;
    }
}
