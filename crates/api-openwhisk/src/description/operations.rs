//! The table of operations from which the description is generated.

/// A method of a path below `/api/v1`.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) tag: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    /// Names of [`QUERY`].
    pub(super) query: &'static [&'static str],
    /// The schema of its body: a name in `definitions.json`.
    pub(super) body: Option<&'static str>,
    /// Its successful responses, and errors besides the common ones.
    pub(super) answers: &'static [(u16, &'static str, Option<Shape>)],
}

/// The schema of a response.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// A definition by name.
    One(&'static str),
    /// A list of these.
    Many(&'static str),
}

/// Path parameters.
pub(super) const PATH: &[(&str, &str)] = &[
    ("namespace", "The namespace; `_` is the one of the key"),
    ("package", "A package, or a binding of one"),
    ("action", "The action; for a call also `NAME@VERSION` and `NAME@ALIAS`"),
    ("trigger", "The trigger"),
    ("rule", "The rule"),
    ("id", "The activation's id: 32 hexadecimal digits"),
];

/// Query parameters: name, type, meaning.
pub(super) const QUERY: &[(&str, &str, &str)] = &[
    ("limit", "integer", "How many: 0 to 200, 30 unless said; 0 means 200"),
    ("skip", "integer", "How many of the newest are left out"),
    ("count", "boolean", "Answer only how many there are: `{\"actions\": 7}`"),
    ("overwrite", "boolean", "Replace what is there; else that is a conflict"),
    ("code", "boolean", "With the code; true unless said"),
    ("blocking", "boolean", "Wait for the end of the call"),
    ("result", "boolean", "Of a blocking call, answer its result alone"),
    ("timeout", "integer", "How long a blocking call waits, in ms: 1 to 60000"),
    ("force", "boolean", "Delete what is in the package too"),
    ("docs", "boolean", "Whole records"),
    ("since", "integer", "Begun at this time or later, in ms since 1970"),
    ("upto", "integer", "Begun at this time or before, in ms since 1970"),
    ("name", "string", "Of this action: `ACTION` or `PACKAGE/ACTION`"),
];

const LIST: &[&str] = &["limit", "skip", "count"];
const PUT: &[&str] = &["overwrite"];
const CALL: &[&str] = &["blocking", "result", "timeout"];
const FILTER: &[&str] = &["limit", "skip", "count", "docs", "since", "upto", "name"];
const CALLED: &[(u16, &str, Option<Shape>)] = &[
    (200, "It ended well: its record, or with `result=true` its result", Some(Shape::One("Activation"))),
    (202, "It is accepted, or runs longer than its caller waits", Some(Shape::One("ActivationId"))),
    (502, "It ended with an error: its record or result", Some(Shape::One("Activation"))),
];
const SERVED: &[(u16, &str, Option<Shape>)] = &[
    (200, "What the action made of it; its status is the action's to choose", None),
    (202, "It runs longer than its caller waits", Some(Shape::One("Error"))),
    (204, "An answer without a body", None),
];
const ACTION: &[(u16, &str, Option<Shape>)] = &[(200, "The action", Some(Shape::One("Action")))];
const ACTIONS: &[(u16, &str, Option<Shape>)] =
    &[(200, "The newest first", Some(Shape::Many("ActionSummary")))];
const PACKAGE: &[(u16, &str, Option<Shape>)] = &[(200, "The package", Some(Shape::One("Package")))];
const TRIGGER: &[(u16, &str, Option<Shape>)] = &[(200, "The trigger", Some(Shape::One("Trigger")))];
const RULE: &[(u16, &str, Option<Shape>)] = &[(200, "The rule", Some(Shape::One("Rule")))];

/// Operations of one collection, with what most of them share.
macro_rules! operations {
    ($($tag:literal { $($method:ident $path:literal $id:ident $summary:literal [$query:expr] [$body:expr] [$answers:expr];)* })*) => {
        pub(super) const OPERATIONS: &[Operation] = &[$($(Operation {
            method: stringify!($method),
            path: $path,
            tag: $tag,
            id: stringify!($id),
            summary: $summary,
            query: $query,
            body: $body,
            answers: $answers,
        },)*)*];
    };
}

operations! {
    "Namespaces" {
        get "/namespaces" getAllNamespaces "The namespaces of the key" [&[]] [None] [&[(200, "Their names", Some(Shape::Many("Name")))]];
        get "/namespaces/{namespace}/limits" getLimits "What holds for the namespace" [&[]] [None] [&[(200, "Its limits", Some(Shape::One("Limits")))]];
    }
    "Actions" {
        get "/namespaces/{namespace}/actions" getAllActions "List actions, those of packages too" [LIST] [None] [ACTIONS];
        get "/namespaces/{namespace}/actions/{action}" getAction "Read an action" [&["code"]] [None] [ACTION];
        put "/namespaces/{namespace}/actions/{action}" updateAction "Create or update an action or a sequence" [PUT] [Some("ActionPut")] [ACTION];
        post "/namespaces/{namespace}/actions/{action}" invokeAction "Call an action" [CALL] [Some("Arguments")] [CALLED];
        delete "/namespaces/{namespace}/actions/{action}" deleteAction "Delete an action" [&[]] [None] [ACTION];
        get "/namespaces/{namespace}/actions/{package}/" getPackageActions "List the actions of a package" [LIST] [None] [ACTIONS];
        get "/namespaces/{namespace}/actions/{package}/{action}" getActionInPackage "Read an action of a package" [&["code"]] [None] [ACTION];
        put "/namespaces/{namespace}/actions/{package}/{action}" updateActionInPackage "Create or update an action or a sequence in a package" [PUT] [Some("ActionPut")] [ACTION];
        post "/namespaces/{namespace}/actions/{package}/{action}" invokeActionInPackage "Call an action of a package" [CALL] [Some("Arguments")] [CALLED];
        delete "/namespaces/{namespace}/actions/{package}/{action}" deleteActionInPackage "Delete an action of a package" [&[]] [None] [ACTION];
    }
    "Activations" {
        get "/namespaces/{namespace}/activations" getActivations "List activations" [FILTER] [None] [&[(200, "The newest first; with `docs=true` whole records", Some(Shape::Many("ActivationSummary")))]];
        get "/namespaces/{namespace}/activations/{id}" getActivationById "Read the record of an activation" [&[]] [None] [&[(200, "The record", Some(Shape::One("Activation")))]];
        get "/namespaces/{namespace}/activations/{id}/result" getActivationResult "Read the result of an activation" [&[]] [None] [&[(200, "The result", Some(Shape::One("Response")))]];
        get "/namespaces/{namespace}/activations/{id}/logs" getActivationLogs "Read what an activation logged" [&[]] [None] [&[(200, "The lines", Some(Shape::One("Logs")))]];
    }
    "Packages" {
        get "/namespaces/{namespace}/packages" getAllPackages "List packages; of another namespace those that it shares" [LIST] [None] [&[(200, "The newest first", Some(Shape::Many("PackageSummary")))]];
        get "/namespaces/{namespace}/packages/{package}" getPackage "Read a package, with what is in it" [&[]] [None] [PACKAGE];
        put "/namespaces/{namespace}/packages/{package}" updatePackage "Create or update a package or a binding" [PUT] [Some("PackagePut")] [PACKAGE];
        delete "/namespaces/{namespace}/packages/{package}" deletePackage "Delete a package" [&["force"]] [None] [PACKAGE];
    }
    "Triggers" {
        get "/namespaces/{namespace}/triggers" getAllTriggers "List triggers" [LIST] [None] [&[(200, "The newest first", Some(Shape::Many("Trigger")))]];
        get "/namespaces/{namespace}/triggers/{trigger}" getTrigger "Read a trigger, with its rules" [&[]] [None] [TRIGGER];
        put "/namespaces/{namespace}/triggers/{trigger}" updateTrigger "Create or update a trigger" [PUT] [Some("TriggerPut")] [TRIGGER];
        post "/namespaces/{namespace}/triggers/{trigger}" fireTrigger "Fire a trigger" [&[]] [Some("Arguments")] [&[(202, "All calls of its rules are accepted", Some(Shape::One("ActivationId"))), (204, "No rule of it is active", None)]];
        delete "/namespaces/{namespace}/triggers/{trigger}" deleteTrigger "Delete a trigger" [&[]] [None] [TRIGGER];
    }
    "Rules" {
        get "/namespaces/{namespace}/rules" getAllRules "List rules" [LIST] [None] [&[(200, "The newest first, without their status", Some(Shape::Many("Rule")))]];
        get "/namespaces/{namespace}/rules/{rule}" getRule "Read a rule" [&[]] [None] [RULE];
        put "/namespaces/{namespace}/rules/{rule}" updateRule "Create or update a rule" [PUT] [Some("RulePut")] [RULE];
        post "/namespaces/{namespace}/rules/{rule}" setState "Enable or disable a rule" [&[]] [Some("RuleStatus")] [&[(200, "It is so now", None)]];
        delete "/namespaces/{namespace}/rules/{rule}" deleteRule "Delete a rule" [&[]] [None] [RULE];
    }
    "Web actions" {
        get "/web/{namespace}/{package}/{action}" getWebAction "Call a web action; no key is needed unless it asks for one" [&[]] [None] [SERVED];
        put "/web/{namespace}/{package}/{action}" putWebAction "Call a web action; `default` is the package of those without one" [&[]] [Some("Arguments")] [SERVED];
        post "/web/{namespace}/{package}/{action}" postWebAction "Call a web action; `.http .json .html .svg .text` behind its name chooses the form of the answer" [&[]] [Some("Arguments")] [SERVED];
        patch "/web/{namespace}/{package}/{action}" patchWebAction "Call a web action" [&[]] [Some("Arguments")] [SERVED];
        delete "/web/{namespace}/{package}/{action}" deleteWebAction "Call a web action" [&[]] [None] [SERVED];
        head "/web/{namespace}/{package}/{action}" headWebAction "Call a web action, for its head alone" [&[]] [None] [SERVED];
        options "/web/{namespace}/{package}/{action}" optionsWebAction "What a browser asks before it calls; runs the action only if it says `web-custom-options`" [&[]] [None] [SERVED];
    }
}
