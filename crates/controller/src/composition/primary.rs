//! The record of a composition: its calls and its result.

use flint_model::{Activation, Annotations, Kind, Response, Timeline, Timestamp, Usage};
use serde_json::json;

use super::{
    progress::{Closed, Frame, Work},
    run::Composition,
};

/// The record of a closed frame.
pub(super) fn record_of(whose: &Composition, closed: Closed) -> Activation {
    let Closed { frame, cause, response } = closed;
    let annotations = annotations_of(&frame, cause.is_some());
    Activation {
        id: frame.id,
        namespace: whose.namespace.clone(),
        name: frame.path.name.clone(),
        path: frame.path,
        version: frame.version,
        kind: "sequence".parse::<Kind>().ok(),
        subject: whose.subject.as_ref().to_owned(),
        cause,
        start: frame.start.max(whose.created),
        end: Timestamp::now().max(whose.created),
        duration_us: frame.duration_us,
        init_us: None,
        wait_us: frame.wait_us,
        timeline: Timeline { queued: Some(frame.wait_us), ..Timeline::default() },
        response,
        usage: Usage::default(),
        timed_out: false,
        attempts: Vec::new(),
        logs: Vec::new(),
        components: frame.activations,
        fired: Vec::new(),
        annotations,
    }
}

fn annotations_of(frame: &Frame, nested: bool) -> Annotations {
    let limits = &frame.limits;
    let mut annotations = Annotations::default();
    annotations.set("topmost", !nested);
    if nested {
        annotations.set("causedBy", "sequence");
    }
    if let Some(binding) = &frame.binding {
        annotations.set("binding", binding.to_string());
    }
    if matches!(frame.work, Work::Conductor { .. }) {
        annotations.set("conductor", true);
    }
    annotations.set(
        "limits",
        json!({
            "timeout": limits.timeout.as_millis() as u64,
            // The largest memory limit among its calls.
            "memory": frame.memory.as_mib(),
            "logs": limits.logs.as_mib(),
            "concurrency": limits.concurrency.get(),
        }),
    );
    annotations
}

/// The text of a failure of Flint in the current frame.
pub(super) fn failure_text(frame: Option<&Frame>) -> &'static str {
    match frame.map(|frame| &frame.work) {
        Some(Work::Sequence { .. }) => "Sequence failed.",
        _ => "Activation failure during composition.",
    }
}

/// The text for a call of the current frame that did not return in time.
pub(super) fn timeout_text(frame: Option<&Frame>, id: flint_model::ActivationId) -> String {
    let of = match frame.map(|frame| &frame.work) {
        Some(Work::Sequence { .. }) => "for sequence component",
        _ => "during composition",
    };
    format!("Timeout reached when retrieving activation {id} {of}.")
}

/// The response of a frame that could not continue.
pub(super) fn gave_up(text: &str, cause: Option<&str>) -> Response {
    let result = match cause {
        Some(cause) => json!({ "error": text, "cause": cause }),
        None => json!({ "error": text }),
    };
    super::progress::response(flint_model::Status::InternalError, super::raw_object::raw(&result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_go_on_says_so_in_the_words_of_openwhisk() {
        assert_eq!(failure_text(None), "Activation failure during composition.");
        let id = flint_model::ActivationId::from_u128(7);
        let text = timeout_text(None, id);
        assert_eq!(text, format!("Timeout reached when retrieving activation {id} during composition."));
        let response = gave_up(&text, Some("why"));
        assert_eq!(response.status, flint_model::Status::InternalError);
        let result: serde_json::Value = serde_json::from_str(response.result.unwrap().get()).unwrap();
        assert_eq!(result, json!({"error": text, "cause": "why"}));
    }
}
