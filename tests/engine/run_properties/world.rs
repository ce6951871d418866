//! The agent of a plan: its store, its model, its tools.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use agentcore::agent::RetryPolicy;
use agentcore::message::ProviderBlock;
use agentcore::model::{
    Compaction, CompactionRequest, Compactor, ModelProfile, ModelStream, ResponseHead,
};
use agentcore::session::{Lease, Record, SessionInfo, StoredSession};
use agentcore::testing::{FunctionModel, StrictModel};
use agentcore::tool::{GateRequest, PermissionGate, SideEffect};
use agentcore::{
    Agent, AgentBuilder, AgentState, BoxError, Content, Error, ErrorKind, FuncTool, Message,
    Messages, ModelEvent, OnUnanswered, Part, Result, SessionStore, StopReason, ThreadStore,
    ToolCall, ToolContext, ToolDecision, ToolOutput, Usage, async_trait,
};
use futures::{StreamExt, stream};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::hooks;
use super::plan::{Act, Call, Failure, Gate, Plan, Said, Step, Stop};

/// The session of all runs of a case.
pub const SESSION: &str = "s";

/// A time longer than any case takes on the paused clock.
const AGES: Duration = Duration::from_secs(10_000_000);

/// The agents of a plan, and a record of their calls.
pub struct World {
    /// The agent as planned.
    pub agent: Agent,
    /// An agent with the same model and store, but without hooks and tools.
    pub plain: Agent,
    pub strict: StrictModel<FunctionModel>,
    pub script_is_over: Arc<AtomicBool>,
    /// The calls that must not run twice, once for each time that they ran.
    pub executed: Arc<Mutex<Vec<String>>>,
    /// Dead once all tools and hooks are dropped.
    pub token: Weak<()>,
}

impl World {
    pub fn new(plan: &Plan) -> Self {
        let token = Arc::new(());
        let store = SlowStore(ThreadStore::with_ttl(AGES));
        let messages: Messages = plan.stored.iter().map(message).collect();
        let script_is_over = Arc::new(AtomicBool::new(false));
        let strict = StrictModel::new(model(plan.script.clone(), script_is_over.clone()))
            .knowing(&messages)
            .knowing(&plan.input.iter().map(message).collect());
        if !messages.is_empty() {
            let mut state = AgentState::new(SESSION);
            state.messages = messages;
            state.compaction = plan
                .covered
                .map(|covered| Compaction::new("before", covered));
            store.0.save(SESSION, state);
        }

        let executed = Arc::<Mutex<Vec<String>>>::default();
        let mut retry = RetryPolicy::default();
        retry.base = Duration::ZERO;
        let mut builder = AgentBuilder::new(strict.clone())
            .store(store.clone())
            .permissions(Gatekeeper)
            .retry(retry)
            .max_turns(plan.max_turns)
            .tool_timeout(Duration::from_secs(12))
            .wrap_up(plan.wrap_up)
            .keep_refused(plan.keep_refused)
            .include_partial_messages(plan.partials)
            .unanswered(if plan.park {
                OnUnanswered::Park
            } else {
                OnUnanswered::Deny
            });
        if let Some(quarters) = plan.compacts {
            builder = builder.compactor(Quarters(quarters));
        }

        for (name, effect) in [
            ("par", SideEffect::Mutating),
            ("par2", SideEffect::Network),
            ("exc", SideEffect::Mutating),
            ("read", SideEffect::ReadOnly),
            ("idem", SideEffect::Mutating),
        ] {
            builder = builder.tool(tool(name, effect, &executed, &token));
        }

        for hook in &plan.hooks {
            builder = builder.hook(hooks::make(*hook, token.clone()));
        }

        let plain = AgentBuilder::new(strict.clone()).store(store);
        Self {
            agent: builder.build().unwrap(),
            plain: plain.build().unwrap(),
            strict,
            script_is_over,
            executed,
            token: Arc::downgrade(&token),
        }
    }
}

/// Returns the message that a plan describes.
pub fn message(said: &Said) -> Message {
    match said {
        Said::System(text) => Message::system(*text),
        Said::Human(text) => Message::human(*text),
        Said::Humans(texts) => Message::human(
            texts
                .iter()
                .map(|text| Part::text(*text))
                .collect::<Content>(),
        ),
        Said::HumanCalls(id) => {
            Message::human(Part::ToolCall(ToolCall::new(*id, "par", json!({}))))
        }
        Said::Ai(text) => Message::ai(*text),
        Said::Thinks(also_speaks) => {
            let mut content = Content::from(thinking("stored"));
            if *also_speaks {
                content.push(Part::text("so"));
            }

            Message::ai(content)
        }
        Said::Calls(text, calls) => {
            let calls = calls.iter().map(|(id, name, readable)| {
                ToolCall::from_raw(*id, *name, if *readable { "{}" } else { "{\"a" })
            });

            Message::ai_calling(*text, calls)
        }
        Said::Result(id, name, text) => Message::tool(*id, *name, *text),
    }
}

fn thinking(text: &str) -> Part {
    let raw = RawValue::from_string(json!({"thinking": text}).to_string()).unwrap();
    Part::Thinking(ProviderBlock::new("function", raw))
}

fn model(script: Vec<Step>, is_over: Arc<AtomicBool>) -> FunctionModel {
    let asked = AtomicUsize::new(0);
    FunctionModel::stream(move |_request| {
        let turn = asked.fetch_add(1, Ordering::Relaxed);
        let step = script
            .get(turn)
            .filter(|_| !is_over.load(Ordering::Relaxed))
            .cloned();
        async move {
            yield_now().await;
            play(turn, step)
        }
    })
    .with_profile(ModelProfile::default())
}

fn play(turn: usize, step: Option<Step>) -> Result<ModelStream> {
    let head = ResponseHead::new(format!("response_{turn}"), "function");
    let mut events = vec![Ok(ModelEvent::Start(Box::new(head)))];
    let say = |text: &str| {
        let words = text.split_inclusive(' ').map(str::to_owned);
        words.map(ModelEvent::Text).map(Ok).collect::<Vec<_>>()
    };

    let mut hangs = false;
    match step {
        None => {
            events.extend(say("done."));
            events.push(Ok(ModelEvent::stop(StopReason::EndTurn)));
        }
        Some(Step::Answer {
            thinks,
            text,
            calls,
            stop,
        }) => {
            if thinks {
                let part = thinking(&format!("turn {turn}"));
                events.push(Ok(ModelEvent::Thinking("hm".into())));
                events.push(Ok(ModelEvent::Part(part)));
            }

            events.extend(say(text));
            for call in &calls {
                events.push(Ok(ModelEvent::ToolCall(tool_call(call))));
            }

            events.push(Ok(ModelEvent::Usage(Usage::new(10, 5))));
            events.push(Ok(stop_event(stop, calls.is_empty())));
        }
        Some(Step::Truncated(text, called)) => {
            events.extend(say(text));
            if called {
                let call = ToolCall::new("half", "par", json!({"act": "ok"}));
                events.push(Ok(ModelEvent::ToolCall(call)));
            }
        }
        Some(Step::Breaks(text, failure)) => {
            events.extend(say(text));
            events.push(Err(error(failure)));
        }
        Some(Step::Fails(failure)) => return Err(error(failure)),
        Some(Step::Hangs(text)) => {
            events.extend(say(text));
            hangs = true;
        }
    }

    let events = stream::iter(events).then(|event| async {
        yield_now().await;
        event
    });

    // The error of a provider's idle timeout.
    let silence = stream::iter(hangs.then_some(())).then(|()| async {
        sleep(Duration::from_secs(300)).await;
        Err(Error::new(ErrorKind::Timeout, "nothing came"))
    });

    Ok(events.chain(silence).boxed())
}

fn tool_call(call: &Call) -> ToolCall {
    let raw = if call.readable {
        json!({"act": act_name(call.act), "times": times(call.act), "gate": format!("{:?}", call.gate)})
            .to_string()
    } else {
        "{\"act\":".to_owned()
    };
    ToolCall::from_raw(call.id, call.tool, raw)
}

fn act_name(act: Act) -> &'static str {
    match act {
        Act::Ok => "ok",
        Act::Blank => "blank",
        Act::EmptyParts => "empty parts",
        Act::ForeignParts => "foreign parts",
        Act::Error => "error",
        Act::Panic => "panic",
        Act::Hang => "hang",
        Act::Yield(_) => "yield",
        Act::Progress(_) => "progress",
        Act::Ask => "ask",
        Act::State => "state",
    }
}

fn times(act: Act) -> u8 {
    match act {
        Act::Yield(times) | Act::Progress(times) => times,
        _ => 0,
    }
}

fn stop_event(stop: Stop, is_last: bool) -> ModelEvent {
    let reason = match stop {
        Stop::Natural if is_last => StopReason::EndTurn,
        Stop::Natural | Stop::ToolUse => StopReason::ToolUse,
        Stop::MaxTokens => StopReason::MaxTokens,
        Stop::Refusal => StopReason::Refusal,
        Stop::PauseTurn => StopReason::PauseTurn,
        Stop::Sequence => StopReason::StopSequence,
        Stop::Silent => {
            return ModelEvent::Stop {
                reason: None,
                sequence: None,
            };
        }
    };

    ModelEvent::stop(reason)
}

fn error(failure: Failure) -> Error {
    let kind = match failure {
        Failure::Overloaded => ErrorKind::Overloaded,
        Failure::Truncated => ErrorKind::StreamTruncated,
        Failure::Auth => ErrorKind::Auth,
        Failure::TooLong => ErrorKind::ContextTooLong,
        Failure::Refused => ErrorKind::Refused,
    };
    Error::new(kind, "as planned")
}

fn tool(
    name: &'static str,
    effect: SideEffect,
    executed: &Arc<Mutex<Vec<String>>>,
    token: &Arc<()>,
) -> FuncTool {
    let (executed, token) = (executed.clone(), token.clone());
    let once = !effect.is_read_only() && name != "idem";
    let body = move |cx: ToolContext, args: Value| {
        let token = token.clone();
        if once {
            executed.lock().unwrap().push(cx.call_id().to_owned());
        }

        async move {
            let _token = token;
            execute(cx, args).await
        }
    };

    let tool = FuncTool::new(name, "a tool", json!({"type": "object"}), body).side_effect(effect);
    match name {
        "exc" => tool.exclusive(),
        "idem" => tool.idempotent(),
        _ => tool,
    }
}

/// Panics without a message on the console.
pub fn panic_quietly() -> ! {
    std::panic::resume_unwind(Box::new("as planned"))
}

async fn execute(cx: ToolContext, args: Value) -> Result<ToolOutput, BoxError> {
    let times = args["times"].as_u64().unwrap_or_default();
    match args["act"].as_str().unwrap_or("ok") {
        "blank" => return Ok(" \n".into()),
        "empty parts" => {
            let parts = vec![Part::text(""), Part::text("x"), Part::text("")];
            return Ok(Content::from(parts).into());
        }
        "foreign parts" => {
            let call = Part::ToolCall(ToolCall::new("inner", "par", json!({})));
            return Ok(Content::from(vec![call, thinking("tool")]).into());
        }
        "error" => return Err("as planned".into()),
        "panic" => panic_quietly(),
        "hang" => std::future::pending().await,
        "yield" => {
            for _ in 0..times {
                yield_now().await;
            }
        }
        "progress" => {
            for step in 0..times {
                cx.progress(json!({"step": step})).await;
            }
        }
        "ask" => return Ok(format!("{:?}", cx.ask("may I?").await).into()),
        "state" => cx.with_state(|mut view| {
            view.files_mut().insert("notes.txt".into(), "x".into());
        }),
        _ => {}
    }

    Ok(format!("did {}", cx.call_id()).into())
}

/// A gate whose decision is in the arguments of the call.
struct Gatekeeper;

#[async_trait]
impl PermissionGate for Gatekeeper {
    async fn check(&self, request: &GateRequest) -> Result<ToolDecision> {
        yield_now().await;
        let is = |gate: Gate| request.call.args["gate"] == format!("{gate:?}");
        Ok(if is(Gate::Ask) {
            ToolDecision::ask("may it?")
        } else if is(Gate::Deny) {
            ToolDecision::deny("")
        } else if is(Gate::Interrupt) {
            ToolDecision::stop("stop it")
        } else if is(Gate::Fail) {
            return Err(Error::new(ErrorKind::Io, "no rules"));
        } else if is(Gate::Rewrite) {
            ToolDecision::allow().with_args(json!({"act": "ok"}))
        } else if is(Gate::Spoil) {
            ToolDecision::allow().with_args(json!("text"))
        } else {
            ToolDecision::allow()
        })
    }
}

/// A compactor that covers this number of quarters of the history, even if it should not.
struct Quarters(usize);

#[async_trait]
impl Compactor for Quarters {
    fn should_compact(&self, messages: &Messages, _: u64, _: &ModelProfile) -> bool {
        messages.len() > 4
    }

    async fn compact(&self, request: CompactionRequest) -> Result<Option<Compaction>> {
        yield_now().await;
        let covered = request.messages.len() * self.0 / 4;
        Ok(Some(Compaction::new("in short", covered)))
    }
}

/// A store that yields before or after each operation, so that runs can be dropped there.
#[derive(Clone)]
struct SlowStore(ThreadStore);

#[async_trait]
impl SessionStore for SlowStore {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        let stored = self.0.load(id).await;
        yield_now().await;
        stored
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        yield_now().await;
        let appended = self.0.append(lease, records).await;
        yield_now().await;
        appended
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        yield_now().await;
        let saved = SessionStore::save(&self.0, lease, state).await;
        yield_now().await;
        saved
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        self.0.list().await
    }

    async fn fork(&self, from: &str, to: &str) -> Result<()> {
        self.0.fork(from, to).await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        SessionStore::delete(&self.0, id).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        let lease = self.0.lease(id).await;
        yield_now().await;
        lease
    }
}
