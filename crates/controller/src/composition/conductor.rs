//! Interprets the answers of conductors.

use flint_model::{EntityName, FunctionPath, NamespaceName, Response, Status};
use serde_json::{Value, value::RawValue};

use super::{
    progress::{NextCall, Progress, Role, Turn, Work, error, response, result_of},
    raw_object::{RawObject, raw},
};

pub(super) const TOO_LONG: &str = "Too many actions in the composition.";
const TOO_MUCH_STATE: &str = "The state of the conductors in the composition is too large";

impl Progress {
    /// The conductor has answered, with an action to call or with the composition's result.
    pub(super) fn after_conductor(&mut self, answer: Response) -> Turn {
        let object = answer.result.as_deref().and_then(RawObject::of);
        let (Status::Success, Some(object)) = (answer.status, object) else { return Turn::Close(answer) };
        let params = object.get("params").map(|params| RawObject::boxed(params, "value"));
        let Some(action) = object.get("action") else {
            return Turn::Close(match params {
                Some(params) => response(Status::Success, params.to_raw()),
                None => answer,
            });
        };
        if let Some(Work::Conductor { state, .. }) = self.frames.last_mut().map(|frame| &mut frame.work) {
            *state = object.get("state").map(|state| RawObject::boxed(state, "state"));
        }
        let (size, allowed) = (self.state_size(), self.state_limit);
        if size > allowed {
            let text = format!("{TOO_MUCH_STATE}: {size} bytes, {allowed} allowed.");
            return Turn::Close(error(Status::ApplicationError, &text));
        }
        match named(action, &self.namespace) {
            None => {
                let text =
                    format!("Failed to parse action name from json value {action} during composition.");
                self.conduct(&error(Status::ApplicationError, &text))
            }
            Some(_) if self.components >= self.limit => {
                self.conduct(&error(Status::ApplicationError, TOO_LONG))
            }
            Some(path) => {
                self.components += 1;
                let params = params.unwrap_or_default();
                Turn::Call(NextCall::new(path, params.to_raw(), Role::Component))
            }
        }
    }

    /// Runs the conductor again, with a result overlaid by its own state.
    pub(super) fn conduct(&mut self, result: &Response) -> Turn {
        let Some(frame) = self.frames.last() else {
            return Turn::Close(error(Status::InternalError, TOO_LONG));
        };
        if self.has_conducted_enough() {
            return Turn::Close(error(Status::ApplicationError, TOO_LONG));
        }
        self.conductors += 1;
        let state = match &frame.work {
            Work::Conductor { state } => state.as_ref(),
            Work::Sequence { .. } => None,
        };
        let arguments = RawObject::boxed(&result_of(result), "value").merged(state);
        Turn::Call(NextCall::new(frame.asked.clone(), raw(&arguments), Role::Conductor))
    }
}

/// The function named by a conductor: `/namespace/[package/]name`, the same without the leading slash, or
/// `[package/]name` in the caller's namespace.
fn named(action: &RawValue, namespace: &NamespaceName) -> Option<FunctionPath> {
    let Ok(Value::String(name)) = serde_json::from_str(action.get()) else { return None };
    if name.starts_with('/') || name.matches('/').count() == 2 {
        let rest = name.strip_prefix('/').unwrap_or(&name);
        return match rest.strip_prefix("_/") {
            Some(local) => relative(local, namespace),
            None => rest.parse().ok(),
        };
    }
    relative(&name, namespace)
}

/// `[package/]name`
fn relative(local: &str, namespace: &NamespaceName) -> Option<FunctionPath> {
    let (package, name) = match local.split_once('/') {
        Some((package, name)) => (Some(EntityName::parse(package).ok()?), name),
        None => (None, local),
    };
    Some(FunctionPath { namespace: namespace.clone(), package, name: EntityName::parse(name).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_to_the_caller() {
        let namespace = NamespaceName::parse("me").unwrap();
        let named = |text: &str| {
            let value = RawValue::from_string(text.to_owned()).unwrap();
            super::named(&value, &namespace).map(|path| path.to_string())
        };
        for (text, expected) in [
            (r#""a""#, Some("me/a")),
            (r#""p/a""#, Some("me/p/a")),
            (r#""/ns/a""#, Some("ns/a")),
            (r#""/ns/p/a""#, Some("ns/p/a")),
            (r#""ns/p/a""#, Some("ns/p/a")),
            (r#""/_/a""#, Some("me/a")),
            (r#""_/p/a""#, Some("me/p/a")),
            (r#""""#, None),
            (r#""/""#, None),
            (r#""/a""#, None),
            (r#""a/b/c/d""#, None),
            ("7", None),
            ("null", None),
            (r#"{"name":"a"}"#, None),
        ] {
            assert_eq!(named(text).as_deref(), expected, "{text}");
        }
    }
}
