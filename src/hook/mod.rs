//! Hooks: functions around the run, the request, the model call, its token stream and every tool
//! call.
//!
//! A hook is a closure with a name, or a type that implements [`Hook`]:
//!
//! ```
//! use agentcore::hook;
//!
//! let log = hook::wrap_tool_call("log", |call, next| async move {
//!     println!("> {}", call.name);
//!     next.run(call).await
//! });
//! # let _ = log;
//! ```
//!
//! For a closure that shares state with the rest of the program, the function of each phase has a
//! variant that ends in `_with` and passes a clone of the state to every call:
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! use agentcore::hook;
//!
//! let calls = Arc::new(AtomicUsize::new(0));
//! let count = hook::wrap_tool_call_with("count", calls.clone(), |calls, call, next| async move {
//!     calls.fetch_add(1, Ordering::Relaxed);
//!     next.run(call).await
//! });
//! # let _ = count;
//! ```
//!
//! # Phases
//!
//! | phase | runs | can |
//! |---|---|---|
//! | [`before_agent`] | once, before the loop | change the state, register tools |
//! | [`modify_request`] | before each model call | change the messages of this one request |
//! | [`wrap_model_call`] | around each model call | change the request or the response, call again |
//! | [`pre_tool_use`] | before each tool call | allow, deny or ask, change its arguments, stop the run |
//! | [`wrap_tool_call`] | around each tool call | change the call or its result, call again |
//! | [`post_tool_use`] | after each tool call | see, change or [suppress](crate::ToolResult::suppressed) its result |
//! | [`before_stop`] | when a response has no tool calls | continue with a message |
//! | [`after_agent`] | once, after the loop, however it ended; not if it never began | change the state |
//!
//! A call that is refused before `wrap_tool_call` does not reach `post_tool_use` either. The
//! methods of [`Hook`] describe the calls that each phase receives.
//!
//! A `wrap_model_call` hook can also read and change the token stream of a response. It passes on a
//! request with [`map_events`](crate::ModelRequest::map_events):
//!
//! ```
//! use agentcore::{ModelEvent, hook};
//!
//! let shout = hook::wrap_model_call("shout", |request, next| async move {
//!     let request = request.map_events(|event| match event {
//!         ModelEvent::Text(text) => Some(ModelEvent::Text(text.to_uppercase())),
//!         other => Some(other),
//!     });
//!     next.run(request).await
//! });
//! # let _ = shout;
//! ```
//!
//! # Order
//!
//! The first hook added is the outermost. With `[A, B]` a wrapping phase runs
//!
//! ```text
//! A in, B in, the call itself, B out, A out
//! ```
//!
//! and the other phases run A, then B.
//!
//! # Errors
//!
//! * `before_agent`, `modify_request`, `wrap_model_call`: the run ends with an error that names the
//!   hook. The changes that all hooks have made in that step are discarded, also those of the task
//!   list, the files and the values. If an outer hook handles the error, nothing is discarded. When
//!   `before_agent` fails, `after_agent` is called for no hook.
//! * `pre_tool_use`, `wrap_tool_call`, `post_tool_use`: the call's result is an error that names
//!   the hook, and the later hooks of `pre_tool_use` or `post_tool_use` are not called for it; the
//!   run continues, and changes of the state stay, because other calls, which may run at the same
//!   time, can depend on them. An error of `pre_tool_use` after an earlier hook has stopped the run
//!   is a warning, and the later hooks are called.
//! * `before_stop`, `after_agent`: the error is emitted as a warning, and the hook's changes of the
//!   state are discarded; the run ends as it would have.
//!
//! A panic counts as an error, and so does a phase that takes longer than the agent's hook timeout.
//! The time inside calls of [`Next::run`] does not count: if a hook had to wait for one, its
//! timeout starts again after the call.
//!
//! # Cancellation
//!
//! When a run is dropped, interrupted or aborted, or reaches its time limit, the futures of its
//! hooks are dropped: code after `next.run(..).await` may never run. If the loop had begun,
//! `after_agent` is called, unless the run was dropped.

mod fn_hook;
mod forward;
mod guard;
#[expect(clippy::module_inception, reason = "the trait has the module's name")]
mod hook;
mod next;
mod phases;
mod stop_decision;
mod with_state;

pub use fn_hook::{
    FnHook, after_agent, before_agent, before_stop, modify_request, post_generation, post_tool_use,
    pre_generation, pre_tool_use, wrap_model_call, wrap_tool_call,
};
pub(crate) use guard::{current_run, guard};
pub use hook::Hook;
pub(crate) use next::{Core, HookChain};
pub use next::{Next, Step};
pub use phases::Phases;
pub use stop_decision::StopDecision;
pub use with_state::{
    after_agent_with, before_agent_with, before_stop_with, modify_request_with, post_tool_use_with,
    pre_tool_use_with, wrap_model_call_with, wrap_tool_call_with,
};
