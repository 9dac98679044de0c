//! How far a composition has come, and what comes next.
//!
//! Nested sequences and conductors are frames on an explicit stack instead of recursion, so that the whole state is one value that can be serialised.

use std::collections::VecDeque;

use flint_model::{
    ActivationId, ByteSize, EntityPath, FunctionLimits, FunctionPath, LimitBounds, NamespaceName, Response,
    Status, Timestamp, Version,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::raw_object::{RawObject, raw};
use crate::resolve::{Callee, Resolved};

/// The whole of a composition that is not over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Whose it is: names that conductors give are relative to it.
    pub(super) namespace: NamespaceName,
    /// Sequences and conductors at work, the outermost first.
    pub(super) frames: Vec<Frame>,
    /// The call that is to be made, or was begun.
    pub(super) next: NextCall,
    /// Components that conductors have called, in all frames together.
    pub(super) components: usize,
    /// Runs of conductors, in all frames together.
    pub(super) conductors: usize,
    /// The most components of a sequence; conductors share one such budget.
    pub(super) limit: usize,
    /// The most bytes of state that conductors keep, in all frames together: it is written down before every call.
    #[serde(default = "default_state_limit")]
    pub(super) state_limit: usize,
}

/// A call within a composition.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NextCall {
    /// The activation that it is, however often it is attempted.
    pub(super) id: ActivationId,
    pub(super) path: FunctionPath,
    pub(super) arguments: Box<RawValue>,
    pub(super) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// What the frame at work consists of.
    Component,
    /// The conductor of the frame at work.
    Conductor,
}

/// A sequence or a conductor at work.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub(super) id: ActivationId,
    /// Where it is; the call that it is may have come through a binding.
    pub(super) path: FunctionPath,
    /// What it was called by.
    pub(super) asked: FunctionPath,
    pub(super) binding: Option<EntityPath>,
    pub(super) version: Version,
    pub(super) limits: FunctionLimits,
    pub(super) start: Timestamp,
    pub(super) wait_us: u64,
    /// What has been called, in order.
    pub(super) activations: Vec<ActivationId>,
    /// Their durations together.
    pub(super) duration_us: u64,
    /// The largest memory limit among them.
    pub(super) memory: ByteSize,
    pub(super) work: Work,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Work {
    Sequence {
        /// What comes after the call at hand.
        rest: VecDeque<FunctionPath>,
        /// Functions called, in nested sequences too.
        functions: usize,
    },
    Conductor {
        /// What the conductor wants to see again.
        state: Option<RawObject>,
    },
}

/// A frame that is over.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(super) frame: Frame,
    /// The enclosing frame; `None` = it is the composition itself.
    pub(super) cause: Option<ActivationId>,
    pub(super) response: Response,
}

/// What is known about a call that ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) response: Response,
    pub(super) duration_us: u64,
    pub(super) memory: ByteSize,
}

/// What a frame makes of the end of a call.
pub(super) enum Turn {
    Call(NextCall),
    Close(Response),
}

impl Progress {
    /// About to enter the composition itself.
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

    /// The call at hand is a composition itself, a sequence or a conductor: its own first call comes next.
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
                // One without components cannot be created; it would call itself, which depth ends.
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

    /// Functions that the sequence at work has called, in nested sequences too.
    fn functions(&self) -> usize {
        match self.frames.last().map(|frame| &frame.work) {
            Some(Work::Sequence { functions, .. }) => *functions,
            _ => 0,
        }
    }

    /// Whether the call at hand would be one too many for its sequence, or is nested too deeply.
    pub(super) fn is_too_long(&self) -> bool {
        self.functions() >= self.limit || self.frames.len() > 2 * self.limit
    }

    /// Whether conductors have run as often as they may.
    pub(super) fn has_conducted_enough(&self) -> bool {
        self.conductors > 2 * self.limit
    }

    /// Bytes of state that conductors keep, in all frames together.
    pub(super) fn state_size(&self) -> usize {
        let sizes = self.frames.iter().map(|frame| match &frame.work {
            Work::Conductor { state: Some(state) } => state.size(),
            _ => 0,
        });
        sizes.sum()
    }

    /// The call at hand ended. Gives the frames that are over by that, innermost first.
    pub(super) fn ended(&mut self, ended: Ended) -> Vec<Closed> {
        self.note(ended.duration_us, ended.memory);
        if let (Role::Component, Some(Work::Sequence { functions, .. })) = (self.next.role, self.work()) {
            *functions += 1;
        }
        self.turn(ended.response)
    }

    /// The call at hand has come to nothing, and has no activation.
    pub(super) fn refused(&mut self, response: Response) -> Vec<Closed> {
        self.turn(response)
    }

    /// Nothing can be done any more for the frame at work.
    pub(super) fn failed(&mut self, response: Response) -> Vec<Closed> {
        let closed = self.close(response);
        self.after(closed)
    }

    /// The call at hand has an activation, and nobody waits for it any more.
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

    /// Takes the frame at work away; the call at hand is then what it was for the enclosing one.
    fn close(&mut self, response: Response) -> Option<Closed> {
        let frame = self.frames.pop()?;
        self.next.id = frame.id;
        self.next.role = Role::Component;
        Some(Closed { cause: self.frames.last().map(|outer| outer.id), frame, response })
    }

    /// What the enclosing frame makes of it.
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

/// Any one state fits, since it is part of a result, and another one of an enclosing conductor.
fn state_limit(bounds: &LimitBounds) -> usize {
    usize::try_from(bounds.max_result.as_u64().saturating_mul(2)).unwrap_or(usize::MAX)
}

/// For journals from before there was one.
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

/// The result, for whoever gets it as arguments.
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
