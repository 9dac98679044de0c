//! Triggers, rules, the functions that they call and the feeds that fire them, against a model of what they are to do. All of them have their
//! names from one small set, so that they meet: a rule where a trigger was, a function in a deleted trigger's place.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use flint_controller::{
    Accepts, Answer, Caller, Controller, ControllerError, ErrorKind, Firing, Invocation, Mode, PutCode,
    PutFunction, PutRule, PutTrigger,
};
use flint_executor::Body;
use flint_model::{EntityName, EntityPath, FunctionPath, RuleOutcome, RuleStatus, Status};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{ManualClock, Server, config, eventually};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const BEGINNING: u64 = 1_767_225_600_000;
const MINUTE: u64 = 60_000;

type Name = &'static str;

/// What somebody does.
#[derive(Clone, Debug)]
enum Step {
    PutTrigger {
        name: Name,
        overwrite: bool,
    },
    DeleteTrigger(Name),
    PutRule {
        name: Name,
        trigger: Option<Name>,
        action: Option<Name>,
        overwrite: bool,
    },
    SetRule(Name, RuleStatus),
    DeleteRule(Name),
    PutFunction(Name),
    DeleteFunction(Name),
    Fire(Name),
    CreateFeed(Name),
    DeleteFeed(Name),
    /// A minute goes by: every feed fires.
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || prop::sample::select(&NAMES[..]);
    let status = prop_oneof![Just(RuleStatus::Active), Just(RuleStatus::Inactive)];
    let step = prop_oneof![
        4 => (name(), any::<bool>()).prop_map(|(name, overwrite)| Step::PutTrigger { name, overwrite }),
        2 => name().prop_map(Step::DeleteTrigger),
        6 => (name(), prop::option::weighted(0.9, name()), prop::option::weighted(0.9, name()), any::<bool>())
            .prop_map(|(name, trigger, action, overwrite)| Step::PutRule { name, trigger, action, overwrite }),
        3 => (name(), status).prop_map(|(name, status)| Step::SetRule(name, status)),
        1 => name().prop_map(Step::DeleteRule),
        4 => name().prop_map(Step::PutFunction),
        1 => name().prop_map(Step::DeleteFunction),
        6 => name().prop_map(Step::Fire),
        2 => name().prop_map(Step::CreateFeed),
        1 => name().prop_map(Step::DeleteFeed),
        3 => Just(Step::Tick),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Debug, PartialEq)]
enum Thing {
    Trigger { feed: bool },
    Rule { trigger: Name, action: Name, status: RuleStatus },
    Function,
}

/// What becomes of a step.
#[derive(Debug, PartialEq)]
enum Outcome {
    Done,
    /// It fired: each rule, and whether its function was called.
    Fired(Vec<(Name, bool)>),
    Refused(ErrorKind),
}

use Outcome::{Done, Fired, Refused};

/// What there is to be.
#[derive(Default)]
struct Model {
    things: BTreeMap<Name, Thing>,
    /// How often each function was called.
    calls: HashMap<Name, usize>,
}

impl Model {
    fn is_trigger(&self, name: Name) -> bool {
        matches!(self.things.get(name), Some(Thing::Trigger { .. }))
    }

    /// Refuses what is about another sort of thing than what is there.
    fn check(&self, name: Name, fits: impl Fn(&Thing) -> bool) -> Option<Outcome> {
        match self.things.get(name) {
            None => Some(Refused(ErrorKind::NotFound)),
            Some(thing) if !fits(thing) => Some(Refused(ErrorKind::Conflict)),
            Some(_) => None,
        }
    }

    fn delete(&mut self, name: Name, fits: impl Fn(&Thing) -> bool) -> Outcome {
        if let Some(refused) = self.check(name, fits) {
            return refused;
        }
        self.things.remove(name);
        Done
    }

    /// The rules of a trigger, in order of name.
    fn rules_of(&self, of: Name) -> Vec<(Name, Name, RuleStatus)> {
        let rule = |(name, thing): (&Name, &Thing)| match thing {
            Thing::Rule { trigger, action, status } if *trigger == of => Some((*name, *action, *status)),
            _ => None,
        };
        self.things.iter().filter_map(rule).collect()
    }

    fn fire(&mut self, trigger: Name) -> Outcome {
        let rules = self.rules_of(trigger);
        if rules.iter().all(|(_, _, status)| *status == RuleStatus::Inactive) {
            return Done;
        }
        let mut fired = Vec::new();
        for (rule, action, status) in rules {
            let called = status == RuleStatus::Active && self.things.get(action) == Some(&Thing::Function);
            if called {
                *self.calls.entry(action).or_default() += 1;
            }
            fired.push((rule, called));
        }
        Fired(fired)
    }

    fn apply(&mut self, step: &Step) -> Outcome {
        let is_trigger = |thing: &Thing| matches!(thing, Thing::Trigger { .. });
        let is_rule = |thing: &Thing| matches!(thing, Thing::Rule { .. });
        match *step {
            Step::PutTrigger { name, overwrite } => match self.things.get(name) {
                Some(Thing::Trigger { .. }) if overwrite => Done,
                Some(_) => Refused(ErrorKind::Conflict),
                None => {
                    self.things.insert(name, Thing::Trigger { feed: false });
                    Done
                }
            },
            Step::DeleteTrigger(name) => self.delete(name, is_trigger),
            Step::PutRule { name, trigger, action, overwrite } => {
                let old = match self.things.get(name) {
                    Some(Thing::Rule { trigger, action, status }) if overwrite => {
                        Some((*trigger, *action, *status))
                    }
                    Some(_) => return Refused(ErrorKind::Conflict),
                    None => None,
                };
                let trigger = trigger.or(old.map(|old| old.0));
                let action = action.or(old.map(|old| old.1));
                let (Some(trigger), Some(action)) = (trigger, action) else {
                    return Refused(ErrorKind::Invalid);
                };
                if !self.is_trigger(trigger) || self.things.get(action) != Some(&Thing::Function) {
                    return Refused(ErrorKind::Invalid);
                }
                let status = old.map_or(RuleStatus::Active, |old| old.2);
                self.things.insert(name, Thing::Rule { trigger, action, status });
                Done
            }
            Step::SetRule(name, status) => {
                if let Some(refused) = self.check(name, is_rule) {
                    return refused;
                }
                let Some(Thing::Rule { trigger, action, .. }) = self.things.get(name).cloned() else {
                    return Done;
                };
                if status == RuleStatus::Active && !self.is_trigger(trigger) {
                    return Refused(ErrorKind::NotFound);
                }
                self.things.insert(name, Thing::Rule { trigger, action, status });
                Done
            }
            Step::DeleteRule(name) => self.delete(name, is_rule),
            Step::PutFunction(name) => match self.things.get(name) {
                None | Some(Thing::Function) => {
                    self.things.insert(name, Thing::Function);
                    Done
                }
                Some(_) => Refused(ErrorKind::Conflict),
            },
            Step::DeleteFunction(name) => self.delete(name, |thing| *thing == Thing::Function),
            Step::Fire(name) => match self.check(name, is_trigger) {
                Some(refused) => refused,
                None => self.fire(name),
            },
            Step::CreateFeed(name) => match self.things.get_mut(name) {
                Some(Thing::Trigger { feed }) if !*feed => {
                    *feed = true;
                    Done
                }
                _ => Refused(ErrorKind::Invalid),
            },
            Step::DeleteFeed(name) => {
                if let Some(Thing::Trigger { feed }) = self.things.get_mut(name) {
                    *feed = false;
                }
                Done
            }
            Step::Tick => {
                let fed: Vec<_> = NAMES
                    .into_iter()
                    .filter(|name| self.things.get(name) == Some(&Thing::Trigger { feed: true }))
                    .collect();
                for name in fed {
                    self.fire(name);
                }
                Done
            }
        }
    }
}

fn known(name: &EntityName) -> Name {
    NAMES.into_iter().find(|known| *known == name.as_str()).unwrap()
}

fn at(name: Name) -> EntityPath {
    format!("guest/{name}").parse().unwrap()
}

fn function_at(name: Name) -> FunctionPath {
    format!("guest/{name}").parse().unwrap()
}

/// The server, as its users see it.
struct System {
    server: Server,
    clock: Arc<ManualClock>,
    guest: Caller,
}

impl System {
    fn controller(&self) -> &Arc<Controller> {
        &self.server.controller
    }

    async fn apply(&self, step: &Step) -> Outcome {
        match self.try_apply(step).await {
            Ok(outcome) => outcome,
            Err(error) => Refused(error.kind()),
        }
    }

    async fn try_apply(&self, step: &Step) -> Result<Outcome, ControllerError> {
        let (controller, guest) = (self.controller(), &self.guest);
        match *step {
            Step::PutTrigger { name, overwrite } => {
                let put = PutTrigger { overwrite, ..PutTrigger::default() };
                controller.put_trigger(guest, at(name), put).await?;
            }
            Step::DeleteTrigger(name) => drop(controller.delete_trigger(guest, &at(name)).await?),
            Step::PutRule { name, trigger, action, overwrite } => {
                let (trigger, action) = (trigger.map(function_at), action.map(function_at));
                let put = PutRule { overwrite, trigger, action, ..PutRule::default() };
                controller.put_rule(guest, at(name), put).await?;
            }
            Step::SetRule(name, status) => controller.set_rule_status(guest, &at(name), status).await?,
            Step::DeleteRule(name) => drop(controller.delete_rule(guest, &at(name)).await?),
            Step::PutFunction(name) => {
                let content = "echo it".into();
                let code = PutCode { kind: "nodejs".to_owned(), content, format: None, main: None };
                let put = PutFunction { overwrite: true, code: Some(code), ..PutFunction::default() };
                controller.put_function(guest, function_at(name), put, &|_| {}).await?;
            }
            Step::DeleteFunction(name) => drop(controller.delete_action(guest, &function_at(name)).await?),
            Step::Fire(name) => {
                let firing = Firing {
                    path: at(name),
                    payload: "{}".into(),
                    headers: json!({}),
                    transaction: "test".into(),
                    arrived: Instant::now(),
                    api_key: None,
                };
                let Some(id) = controller.fire(guest, firing).await? else { return Ok(Done) };
                let record = controller.activation(guest, &guest.namespace.name, id).await?;
                let fired = record.fired.iter().map(|fired| {
                    (known(&fired.rule.name), matches!(fired.outcome, RuleOutcome::Called { .. }))
                });
                return Ok(Fired(fired.collect()));
            }
            Step::CreateFeed(name) => return Ok(self.feed(name, "CREATE").await),
            Step::DeleteFeed(name) => return Ok(self.feed(name, "DELETE").await),
            Step::Tick => {
                self.clock.advance(MINUTE);
                controller.fire_due().await?;
            }
        }
        Ok(Done)
    }

    async fn feed(&self, trigger: Name, event: &str) -> Outcome {
        let arguments = json!({"lifecycleEvent": event, "triggerName": trigger, "cron": "* * * * *"});
        let invocation = Invocation {
            path: "whisk.system/alarms/alarm".parse().unwrap(),
            body: Body::Full(arguments.to_string().into()),
            head: None,
            mode: Mode::Blocking { wait: Duration::from_secs(60) },
            accepts: Accepts::Json,
            transaction: "test".into(),
            arrived: Instant::now(),
            api_key: None,
        };
        match self.controller().invoke(&self.guest, invocation).await.unwrap() {
            Answer::Finished(record) if record.response.status == Status::Success => Done,
            Answer::Finished(_) => Refused(ErrorKind::Invalid),
            other => panic!("{other:?}"),
        }
    }

    /// Whether everything that can be read is what the model says.
    async fn check(&self, model: &Model) {
        let (controller, guest) = (self.controller(), &self.guest);
        for name in NAMES {
            let thing = model.things.get(name);
            let trigger = controller.trigger(guest, &at(name)).await;
            let rule = controller.rule(guest, &at(name)).await;
            match thing {
                Some(Thing::Trigger { .. }) => {
                    let rules = trigger.unwrap().rules;
                    let rules: Vec<_> = rules
                        .iter()
                        .map(|rule| (known(&rule.name), known(&rule.action.name), rule.status))
                        .collect();
                    assert_eq!(rules, model.rules_of(name), "rules of {name}");
                }
                Some(Thing::Rule { trigger, action, status }) => {
                    let rule = rule.unwrap();
                    assert_eq!((known(&rule.trigger.name), known(&rule.action.name)), (*trigger, *action));
                    // Without its trigger a rule is inactive, whatever was said.
                    let shown = if model.is_trigger(trigger) { *status } else { RuleStatus::Inactive };
                    assert_eq!(rule.status, shown, "{name}");
                }
                Some(Thing::Function) => {
                    assert!(controller.function(guest, &function_at(name)).await.is_ok())
                }
                None => assert!(trigger.is_err() && rule.is_err()),
            }
        }
        let namespace = &guest.namespace.name;
        let count = |is: fn(&Thing) -> bool| model.things.values().filter(|thing| is(thing)).count();
        let triggers = count(|thing| matches!(thing, Thing::Trigger { .. }));
        let rules = count(|thing| matches!(thing, Thing::Rule { .. }));
        assert_eq!(controller.count_triggers(guest, namespace).await.unwrap(), triggers);
        assert_eq!(controller.count_rules(guest, namespace).await.unwrap(), rules);
    }
}

async fn run(steps: &[Step]) {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(BEGINNING);
    let server = Server::start_by(dir.path(), config(), Arc::clone(&clock) as _).await;
    let guest = server.guest().await;
    let system = System { server, clock, guest };
    let mut model = Model::default();
    for (number, step) in steps.iter().enumerate() {
        let expected = model.apply(step);
        assert_eq!(system.apply(step).await, expected, "step {number}, {step:?}");
        system.check(&model).await;
    }
    for name in NAMES {
        let expected = model.calls.get(name).copied().unwrap_or(0);
        eventually("the calls", || async {
            (system.server.executor.calls_of(&format!("guest/{name}")).len() >= expected).then_some(())
        })
        .await;
    }
    // Once it has stopped, nothing more can come.
    let System { server, guest, .. } = system;
    let executor = Arc::clone(&server.executor);
    drop(guest);
    server.stop().await;
    for name in NAMES {
        let calls = executor.calls_of(&format!("guest/{name}")).len();
        assert_eq!(calls, model.calls.get(name).copied().unwrap_or(0), "calls of {name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn they_do_what_the_model_does(steps in steps()) {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(run(&steps));
    }
}
