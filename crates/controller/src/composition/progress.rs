//! The state of a composition, and its transitions.
//!
//! Nested sequences and conductors are frames on an explicit stack instead of recursion, so that the whole
//! state is one serialisable value.

use std::collections::VecDeque;

use flint_model::{
    ActivationId, ByteSize, EntityPath, FunctionLimits, FunctionPath, LimitBounds, NamespaceName, Response,
    Status, Timestamp, Version,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::raw_object::{RawObject, raw};
use crate::resolve::{Callee, Resolved};

/// The state of a composition that is not over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Its namespace; names given by conductors are relative to it.
    pub(super) namespace: NamespaceName,
    /// Sequences and conductors in progress, the outermost first.
    pub(super) frames: Vec<Frame>,
    /// The current call: to be made, or begun.
    pub(super) next: NextCall,
    /// Components called by conductors, in all frames together.
    pub(super) components: usize,
    /// Runs of conductors, in all frames together.
    pub(super) conductors: usize,
    /// Maximum number of components of a sequence; conductors share one such budget.
    pub(super) limit: usize,
    /// Maximum bytes of conductors' state, in all frames together: it is journalled before every call.
    #[serde(default = "default_state_limit")]
    pub(super) state_limit: usize,
}

/// A call within a composition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NextCall {
    /// Its activation id, the same for all attempts.
    pub(super) id: ActivationId,
    pub(super) path: FunctionPath,
    pub(super) arguments: Box<RawValue>,
    pub(super) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// A component of the current frame.
    Component,
    /// The conductor of the current frame.
    Conductor,
}

/// A sequence or conductor in progress.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub(super) id: ActivationId,
    /// Its own path; the call may have come through a binding.
    pub(super) path: FunctionPath,
    /// The path by which it was called.
    pub(super) asked: FunctionPath,
    pub(super) binding: Option<EntityPath>,
    pub(super) version: Version,
    pub(super) limits: FunctionLimits,
    pub(super) start: Timestamp,
    pub(super) wait_us: u64,
    /// Its calls, in order.
    pub(super) activations: Vec<ActivationId>,
    /// The sum of their durations.
    pub(super) duration_us: u64,
    /// The largest memory limit among them.
    pub(super) memory: ByteSize,
    pub(super) work: Work,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Work {
    Sequence {
        /// Components after the current call.
        rest: VecDeque<FunctionPath>,
        /// Functions called, including those of nested sequences.
        functions: usize,
    },
    Conductor {
        /// State that the conductor gets back.
        state: Option<RawObject>,
    },
}

/// A closed frame.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(super) frame: Frame,
    /// The enclosing frame; `None` for the composition itself.
    pub(super) cause: Option<ActivationId>,
    pub(super) response: Response,
}

/// The result of a call.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) response: Response,
    pub(super) duration_us: u64,
    pub(super) memory: ByteSize,
}

/// What a frame does after a call.
pub(super) enum Turn {
    Call(NextCall),
    Close(Response),
}

impl Progress {
    /// The state before the composition itself is entered.
    pub(super) fn new(
        namespace: NamespaceName,
        id: ActivationId,
        path: FunctionPath,
        arguments: Box<RawValue>,
        bounds: &LimitBounds,
    ) -> Self {
        Self {
            namespace,
            frames: Vec::new(),
            next: NextCall { id, path, arguments, role: Role::Component },
            components: 0,
            conductors: 0,
            limit: bounds.max_sequence as usize,
            state_limit: state_limit(bounds),
        }
    }

    /// Enters the current call, which is itself a sequence or a conductor: its first call becomes the current
    /// one.
    pub(super) fn enter(&mut self, composition: &Resolved, wait_us: u64) {
        let arguments = std::mem::take(&mut self.next.arguments);
        let (version, limits) = composition.version_and_limits();
        let (next, work) = match &composition.callee {
            Callee::Function(_) => {
                self.conductors += 1;
                let next = NextCall::new(self.next.path.clone(), arguments, Role::Conductor);
                (next, Work::Conductor { state: None })
            }
            Callee::Sequence(sequence) => {
                let functions = self.functions();
                let mut rest: VecDeque<_> = sequence.components.iter().cloned().collect();
                // A sequence without components cannot be created; this one would call itself, until the
                // depth limit ends it.
                let first = rest.pop_front().unwrap_or_else(|| sequence.path.clone());
                (NextCall::new(first, arguments, Role::Component), Work::Sequence { rest, functions })
            }
        };
        let NextCall { id, path: asked, .. } = std::mem::replace(&mut self.next, next);
        self.frames.push(Frame {
            id,
            path: composition.path().clone(),
            asked,
            binding: composition.origin.binding.clone(),
            version,
            limits: limits.clone(),
            start: Timestamp::now(),
            wait_us,
            activations: Vec::new(),
            duration_us: 0,
            memory: ByteSize::default(),
            work,
        });
    }

    /// Functions called by the current sequence, including those of nested sequences.
    fn functions(&self) -> usize {
        match self.frames.last().map(|frame| &frame.work) {
            Some(Work::Sequence { functions, .. }) => *functions,
            _ => 0,
        }
    }

    /// Whether the current call exceeds its sequence's length or the nesting depth.
    pub(super) fn is_too_long(&self) -> bool {
        self.functions() >= self.limit || self.frames.len() > 2 * self.limit
    }

    /// Whether conductors have used up their runs.
    pub(super) fn has_conducted_enough(&self) -> bool {
        self.conductors > 2 * self.limit
    }

    /// Bytes of conductors' state, in all frames together.
    pub(super) fn state_size(&self) -> usize {
        let sizes = self.frames.iter().map(|frame| match &frame.work {
            Work::Conductor { state: Some(state) } => state.size(),
            _ => 0,
        });
        sizes.sum()
    }

    /// Ends the current call. Returns the frames that this closes, innermost first.
    pub(super) fn ended(&mut self, ended: Ended) -> Vec<Closed> {
        self.note(ended.duration_us, ended.memory);
        if let (Role::Component, Some(Work::Sequence { functions, .. })) = (self.next.role, self.work()) {
            *functions += 1;
        }
        self.turn(ended.response)
    }

    /// The current call was refused, and has no activation.
    pub(super) fn refused(&mut self, response: Response) -> Vec<Closed> {
        self.turn(response)
    }

    /// The current frame cannot continue.
    pub(super) fn failed(&mut self, response: Response) -> Vec<Closed> {
        let closed = self.close(response);
        self.after(closed)
    }

    /// The current call has an activation, but is no longer waited for.
    pub(super) fn lost(&mut self, response: Response) -> Vec<Closed> {
        self.note(0, ByteSize::default());
        self.failed(response)
    }

    fn work(&mut self) -> Option<&mut Work> {
        self.frames.last_mut().map(|frame| &mut frame.work)
    }

    fn note(&mut self, duration_us: u64, memory: ByteSize) {
        let id = self.next.id;
        if let Some(frame) = self.frames.last_mut() {
            frame.activations.push(id);
            frame.duration_us += duration_us;
            frame.memory = frame.memory.max(memory);
        }
    }

    fn turn(&mut self, response: Response) -> Vec<Closed> {
        let turn = match self.work() {
            None => return Vec::new(),
            Some(Work::Sequence { rest, .. }) => after_component(rest, response),
            Some(Work::Conductor { .. }) => match self.next.role {
                Role::Conductor => self.after_conductor(response),
                Role::Component => self.conduct(&response),
            },
        };
        match turn {
            Turn::Call(next) => {
                self.next = next;
                Vec::new()
            }
            Turn::Close(response) => {
                let closed = self.close(response);
                self.after(closed)
            }
        }
    }

    /// Closes the current frame; the current call becomes the one of the enclosing frame that it was.
    fn close(&mut self, response: Response) -> Option<Closed> {
        let frame = self.frames.pop()?;
        self.next.id = frame.id;
        self.next.role = Role::Component;
        Some(Closed { cause: self.frames.last().map(|outer| outer.id), frame, response })
    }

    /// Lets the enclosing frames react.
    fn after(&mut self, closed: Option<Closed>) -> Vec<Closed> {
        let Some(closed) = closed else { return Vec::new() };
        self.note(closed.frame.duration_us, closed.frame.memory);
        if let (Some(Work::Sequence { functions, .. }), Work::Sequence { functions: inner, .. }) =
            (self.work(), &closed.frame.work)
        {
            *functions = *inner;
        } else if let Some(Work::Sequence { functions, .. }) = self.work() {
            *functions += 1;
        }
        let outer = self.turn(closed.response.clone());
        [closed].into_iter().chain(outer).collect()
    }
}

impl NextCall {
    pub(super) fn new(path: FunctionPath, arguments: Box<RawValue>, role: Role) -> Self {
        Self { id: ActivationId::generate(), path, arguments, role }
    }
}

/// Sized so that any single state fits, being part of a result, along with one of an enclosing conductor.
fn state_limit(bounds: &LimitBounds) -> usize {
    usize::try_from(bounds.max_result.as_u64().saturating_mul(2)).unwrap_or(usize::MAX)
}

/// For journals written before there was a limit.
fn default_state_limit() -> usize {
    state_limit(&LimitBounds::default())
}

/// An error, as a result.
pub(super) fn error(status: Status, text: &str) -> Response {
    response(status, RawObject::error(text).to_raw())
}

/// A result.
pub(super) fn response(status: Status, result: Box<RawValue>) -> Response {
    let size = ByteSize::bytes(result.get().len() as u64);
    Response { status, result: Some(result), size, content_type: None }
}

/// The result, as arguments of the next call.
pub(super) fn result_of(response: &Response) -> Box<RawValue> {
    response.result.clone().unwrap_or_else(|| raw(&RawObject::default()))
}

fn after_component(rest: &mut VecDeque<FunctionPath>, response: Response) -> Turn {
    match rest.pop_front() {
        Some(path) if response.status == Status::Success => {
            Turn::Call(NextCall::new(path, result_of(&response), Role::Component))
        }
        _ => Turn::Close(response),
    }
}
