//! The auto traits of public types, `Send`, `Sync` and `Unpin`, and traits usable as `dyn`. The
//! compiler checks them.

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};

use agentcore::backend::{Backend, Command, CommandOutput, DirEntry, MemoryBackend};
use agentcore::hook::Phases;
use agentcore::message::{
    Annotations, Citation, Media, ProviderBlock, TokenCounter, ToolResultView, ValidationError,
};
use agentcore::model::{
    Catalog, Compactor, ModelProfile, ModelSettings, Prompter, ResponseFold, SystemPrompt,
};
use agentcore::run::{Budget, RunStats};
use agentcore::sdk::{ApiMessage, Envelope, ResultMessage, StreamEvents, SystemEvent};
use agentcore::session::{Lease, StoredSession};
use agentcore::testing::{Cassette, FunctionModel, ScriptedModel, StrictModel};
use agentcore::tool::BackgroundTasks;
use agentcore::tool::{
    ArgumentError, Confirmer, GateRequest, PermissionGate, ToolSource, TurnTools,
};
use agentcore::trace::{SpanHandle, TraceRecorder};
use agentcore::{
    Agent, AgentBuilder, AgentState, Answer, BoxError, Cancellation, Content, Decision, Error,
    ErrorKind, ExitReason, FnHook, FuncTool, Hook, Message, Messages, Model, ModelEvent,
    ModelRequest, ModelResponse, ModelStream, Next, Part, PermissionMode, PermissionRequest,
    Responder, Run, RunContext, RunHandle, RunOutput, SdkMessage, Secret, Session, SessionStore,
    StopDecision, StopReason, StreamEvent, ThreadStore, Todo, Tool, ToolCall, ToolContext,
    ToolDecision, ToolError, ToolOutput, ToolRegistry, ToolResult, Usage, Values,
};

fn send<T: Send + ?Sized + 'static>() {}
fn shared<T: Send + Sync + ?Sized + 'static>() {}
fn unpin<T: Unpin>() {}
fn clone<T: Clone>() {}
fn debug<T: Debug + ?Sized>() {}

macro_rules! each {
    ($check:ident: $($type:ty),* $(,)?) => { $($check::<$type>();)* };
}

#[test]
fn stored_types_are_send_and_sync() {
    each!(shared: Agent, AgentBuilder, Session, FnHook, FuncTool, ToolRegistry, TurnTools, Values,
        Cancellation, Secret, ThreadStore, MemoryBackend, Budget, BackgroundTasks, Catalog);
    each!(shared: ScriptedModel, FunctionModel, StrictModel<ScriptedModel>, Cassette);
    #[cfg(feature = "http")]
    {
        use agentcore::providers::{Anthropic, FallbackModel, Ollama, OpenAi};
        each!(shared: Anthropic, OpenAi, Ollama, FallbackModel, agentcore::HttpTool);
        each!(clone: Anthropic, OpenAi, Ollama);
    }
    #[cfg(feature = "tokens")]
    each!(shared: agentcore::message::BpeCounter);
}

#[test]
fn runs_and_streams_are_send_and_unpin() {
    each!(send: Run, ModelStream, ResponseFold, StreamEvents);
    each!(unpin: Run, ModelStream);
    each!(shared: RunHandle, RunContext, Responder, ToolContext, Next<ModelRequest>,
        Next<ToolCall>);
    #[cfg(feature = "schema")]
    each!(send: agentcore::run::TypedRun<String>);
}

#[test]
fn messages_and_events_are_send_and_sync() {
    each!(shared: Message, Messages, Part, Content, Media, Annotations, Citation, ProviderBlock, ToolCall, ToolResult,
        ToolResultView, ToolOutput, ToolError, Todo, AgentState, StoredSession, Lease);
    each!(shared: ModelEvent, ModelResponse, ModelProfile, ModelSettings, SystemPrompt,
        StopReason, Usage, RunStats, RunOutput, ExitReason);
    each!(shared: SdkMessage, StreamEvent, SystemEvent, ResultMessage, ApiMessage, Envelope,
        PermissionRequest);
    each!(shared: ToolDecision, StopDecision, Decision, Answer, PermissionMode, Phases,
        GateRequest, Command, CommandOutput, DirEntry);
    each!(shared: Error, ErrorKind, BoxError, ArgumentError, ValidationError);
}

#[test]
fn handles_are_clone_and_debug() {
    each!(clone: Agent, RunHandle, RunContext, Responder, ToolContext, Messages, ToolRegistry,
        Cancellation, Secret, ThreadStore, Budget, Next<ToolCall>, ModelRequest, AgentState);
    each!(debug: Agent, AgentBuilder, Session, Run, RunHandle, RunContext, Responder, FuncTool,
        FnHook, ToolRegistry, ThreadStore, MemoryBackend, Error, RunOutput);
}

#[test]
fn extension_traits_are_object_safe() {
    each!(shared: dyn Model, dyn Tool, dyn Hook, dyn SessionStore, dyn Backend, dyn ToolSource,
        dyn PermissionGate, dyn Confirmer, dyn Compactor, dyn Prompter, dyn TraceRecorder);
    each!(shared: dyn TokenCounter);
    each!(send: dyn SpanHandle);
    each!(debug: dyn Backend, dyn TraceRecorder);
}

#[test]
fn errors_implement_error_send_and_sync() {
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    fn survives_a_panic<T: UnwindSafe + RefUnwindSafe>() {}
    each!(error: Error, ToolError, ArgumentError, ValidationError);
    each!(survives_a_panic: Message, Messages, ErrorKind, Usage, SdkMessage);
}

/// Callers store and move many results, so the error stays one pointer wide.
#[test]
fn error_is_one_pointer_wide() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    assert_eq!(size_of::<Messages>(), size_of::<usize>());
}
