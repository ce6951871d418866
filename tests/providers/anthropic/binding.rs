//! Conversations with a server that binds thinking to the conversation before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentcore::message::{ProviderBlock, TokenCounter};
use agentcore::model::{
    Compaction, CompactionRequest, Compactor, ModelEvent, ModelProfile, ResponseFold, Stability,
    SystemPrompt, ToolDefinition,
};
use agentcore::providers::Anthropic;
use agentcore::testing::FaultServer;
use agentcore::{
    AgentBuilder, Content, FuncTool, Message, Messages, Model, ModelRequest, Part, ToolResult,
    async_trait,
};
use futures::TryStreamExt;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::kit::doubles::anthropic::{Double, call, text, thinking};
use crate::kit::serving::{events, serve, status};
use crate::kit::{any_object, echo, warnings, watch};

const LEFT_OUT: &str = "thinking of earlier answers was left out: the conversation in front of it \
                        changed, and the server takes it only behind the one it was made for";
const INTERRUPTED: &str = "the call of a server tool without a result was left out, because a \
                           message of the user follows it";
const REFUSED: &str = "the server refused thinking of earlier answers; it was left out";

fn model(server: &FaultServer) -> Anthropic {
    Anthropic::new("claude-opus-5-5", "sk-test-123456").base_url(server.url())
}

/// Answers that begin with thinking: three with a call, then two with a text.
fn rounds() -> Vec<Vec<Value>> {
    let round = |number: usize| {
        let id = format!("toolu_{number}");
        vec![thinking("Hm."), call(&id, "echo", &json!({"text": number}))]
    };
    let last = || vec![thinking("Well."), text("Done.")];
    vec![round(1), round(2), round(3), last(), last()]
}

fn tools(names: &[&str]) -> Arc<[ToolDefinition]> {
    let tool = |name: &&str| ToolDefinition::new(*name, "", json!({"type": "object"}));
    names.iter().map(tool).collect()
}

fn first_request() -> ModelRequest {
    let mut request = ModelRequest::new("Go").with_system("You help.");
    request.tools = tools(&["echo"]);
    request
}

/// Sends the request, appends the answer and the results of its calls, and returns the warnings.
async fn turn(model: &Anthropic, request: &mut ModelRequest) -> Vec<String> {
    let events = model.stream(request.clone()).await.unwrap();
    let events: Vec<_> = events.try_collect().await.unwrap();
    let mut fold = ResponseFold::new();
    let mut warnings = Vec::new();
    for event in events {
        if let ModelEvent::Warning(text) = &event {
            warnings.push(text.clone());
        }
        fold.push(event);
    }

    let response = fold.finish().unwrap();
    let results: Vec<_> = response
        .tool_calls()
        .map(|call| ToolResult::ok(call, "ok"))
        .collect();
    request.messages.push(Message::ai(response.content));
    if results.is_empty() {
        request.messages.push(Message::human("And now?"));
    }
    for result in results {
        request.messages.push(Message::from(result));
    }
    warnings
}

/// Returns the number of thinking blocks in each request.
fn thoughts(server: &FaultServer) -> Vec<usize> {
    let bodies = server.requests();
    let count = |body: Value| body.to_string().matches("\"signature\"").count();
    bodies.iter().map(|request| count(request.json())).collect()
}

#[tokio::test]
async fn double_refuses_what_the_server_refuses() {
    let (double, _server) = Double::start([rounds().remove(0)]).await;
    let user = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let body = |messages: Value| json!({"model": "m", "system": "a", "messages": messages});
    let answer = double.answer(&body(json!([user("Go")]))).unwrap();
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": []});
    let results = json!({"role": "user", "content": [result]});
    let answer = json!({"role": "assistant", "content": answer});
    let history = json!([user("Go"), answer, results]);
    assert!(double.answer(&body(history.clone())).is_ok());

    let mut foreign = history.clone();
    foreign[1]["content"][0]["signature"] = "sig_x".into();
    let mut other_system = body(history.clone());
    other_system["system"] = "b".into();
    let mut more = history.clone();
    more[2]["content"] = json!([{"type": "text", "text": "x"}, result]);
    let mut unfinished = history.clone();
    let server_call = json!({"type": "server_tool_use", "id": "s", "name": "web_search"});
    unfinished[1]["content"][0] = server_call;
    unfinished[2]["content"] = json!([result, {"type": "text", "text": "x"}]);
    let mut sampling = body(json!([user("Go")]));
    sampling["temperature"] = 0.into();
    let marked = json!({"type": "text", "text": "x", "cache_control": {}});
    let marked = json!({"role": "user", "content": vec![marked; 5]});
    for (body, refusal) in [
        (body(foreign), "Invalid `signature` in `thinking` block"),
        (
            body(json!([user("Stop"), history[1], results])),
            "bound to a different",
        ),
        (other_system, "bound to a different conversation"),
        (
            body(json!([user("Go"), history[1], user("x")])),
            "`tool_use` ids",
        ),
        (body(more), "must come first"),
        (body(unfinished), "unfinished server tool"),
        (body(json!([user("Go"), user("x")])), "roles must alternate"),
        (body(json!([user(" ")])), "non-whitespace"),
        (body(json!([marked])), "A maximum of 4 blocks"),
        (sampling, "temperature: Extra inputs"),
    ] {
        let text = double.answer(&body).unwrap_err();
        assert!(text.contains(refusal), "{refusal}: {text}");
    }
}

#[tokio::test]
async fn thinking_of_another_conversation_is_left_out_and_asked_once_more() {
    let (double, server) = Double::start(rounds()).await;
    let agent = AgentBuilder::new(model(&server))
        .tool(echo())
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    double.forget();
    let former = server.requests().len();
    let (messages, output) = watch(agent.session("s").run("Once more")).await;
    assert_eq!(output.unwrap().text, "Done.");
    assert_eq!(server.requests().len() - former, 2);
    assert_eq!(double.refusals().len(), 1);
    assert_eq!(warnings(&messages), [REFUSED]);
}

/// A token counter with one token per byte.
struct Letters;

impl TokenCounter for Letters {
    fn count_text(&self, text: &str) -> u64 {
        text.len() as u64
    }
}

/// A compactor that is due once the history has a result, so that each request is counted, and that
/// changes nothing.
struct NearTheLimit;

#[async_trait]
impl Compactor for NearTheLimit {
    fn should_compact(&self, _: &Messages, tokens: u64, _: &ModelProfile) -> bool {
        tokens > 1_000
    }

    async fn compact(&self, _: CompactionRequest) -> agentcore::Result<Option<Compaction>> {
        Ok(None)
    }
}

/// Runs an agent whose tool returns `len` letters. Returns the warnings and, for each request,
/// whether it was a count, and the number of thinking blocks in it.
async fn counted(
    server: &FaultServer,
    clock: Option<&str>,
    len: impl Fn() -> usize + Clone + Send + Sync + 'static,
) -> (Vec<String>, Vec<(bool, usize)>) {
    let tool = FuncTool::new("echo", "", any_object(), move |_, _| {
        let text = "y".repeat(len());
        async { text }
    });
    let mut system = SystemPrompt::from("You help.");
    if let Some(clock) = clock {
        system.set("clock", clock, Stability::Volatile);
    }
    let agent = AgentBuilder::new(model(server))
        .system_prompt(system)
        .compactor(NearTheLimit)
        .token_counter(Letters)
        .tool(tool)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "Done.");
    let thoughts = thoughts(server).into_iter().zip(server.requests());
    let is_count = |path: &str| path.ends_with("/count_tokens");
    let requests = thoughts.map(|(count, request)| (is_count(&request.path), count));
    (warnings(&messages), requests.collect())
}

#[tokio::test]
async fn counted_request_has_the_thinking_of_the_next_one() {
    for clock in [None, Some("12:00")] {
        let (double, server) = Double::start(rounds()).await;
        let (warnings, requests) = counted(&server, clock, || 1_000).await;
        assert_eq!(double.refusals(), [""; 0]);
        assert_eq!(warnings, [""; 0]);
        let both = |number| [(true, number), (false, number)];
        let rounds = [1, 2, 3].into_iter().flat_map(both);
        let expected: Vec<_> = [(false, 0)].into_iter().chain(rounds).collect();
        assert_eq!(requests, expected, "{clock:?}");
    }
}

#[tokio::test]
async fn thinking_that_was_refused_is_not_counted() {
    let (double, server) = Double::start(rounds()).await;
    let forgetful = double.clone();
    let is_later = Arc::new(AtomicBool::new(false));
    let len = move || {
        if is_later.swap(true, Ordering::Relaxed) {
            return 1_000;
        }
        forgetful.forget();
        1
    };
    let (warnings, requests) = counted(&server, None, len).await;
    assert_eq!(double.refusals().len(), 1);
    assert_eq!(warnings, [REFUSED]);
    let first = [(false, 0), (false, 1), (false, 0)];
    let later = [(true, 1), (false, 1), (true, 2), (false, 2)];
    let expected: Vec<_> = first.into_iter().chain(later).collect();
    assert_eq!(requests, expected);
}

#[tokio::test]
async fn volatile_text_changes_nothing_in_front_of_the_thinking() {
    let (double, server) = Double::start(rounds()).await;
    let model = model(&server);
    let mut request = first_request();
    for clock in ["12:00", "12:01", "12:01", "12:02"] {
        request.system.set("clock", clock, Stability::Volatile);
        assert_eq!(turn(&model, &mut request).await, [""; 0]);
    }
    assert_eq!(double.refusals(), [""; 0]);
    assert_eq!(thoughts(&server), [0, 1, 2, 3]);
    let body = server.requests().pop().unwrap().json();
    assert_eq!(body["system"].as_array().unwrap().len(), 1);
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let clock = last["content"].as_array().unwrap().last().unwrap();
    assert_eq!(clock["text"], "<system>\n12:02\n</system>");
}

#[tokio::test]
async fn changed_tools_leave_out_the_thinking_so_far() {
    let (double, server) = Double::start(rounds()).await;
    let model = model(&server);
    let mut request = first_request();
    turn(&model, &mut request).await;
    request.tools = tools(&["echo", "other"]);
    assert_eq!(turn(&model, &mut request).await, [LEFT_OUT]);
    for _ in 0..2 {
        assert_eq!(turn(&model, &mut request).await, [""; 0]);
    }
    assert_eq!(double.refusals(), [""; 0]);
    assert_eq!(thoughts(&server), [0, 0, 1, 2]);
}

#[tokio::test]
async fn changed_instructions_leave_out_the_thinking_so_far() {
    let (double, server) = Double::start(rounds()).await;
    let model = model(&server);
    let mut request = first_request();
    turn(&model, &mut request).await;
    request.system.set("memory", "It rains.", Stability::Stable);
    assert_eq!(turn(&model, &mut request).await, [LEFT_OUT]);
    assert_eq!(double.refusals(), [""; 0]);
}

#[tokio::test]
async fn edited_history_leaves_out_the_thinking_behind_the_edit() {
    let (double, server) = Double::start(rounds()).await;
    let model = model(&server);
    let mut request = first_request();
    for _ in 0..2 {
        turn(&model, &mut request).await;
    }

    let compacted = request.messages.as_slice()[3..].iter().cloned();
    let mut messages = Messages::new().human("So far: one call.");
    messages.extend(compacted);
    request.messages = messages;
    assert_eq!(turn(&model, &mut request).await, [LEFT_OUT]);
    assert_eq!(turn(&model, &mut request).await, [""; 0]);
    assert_eq!(double.refusals(), [""; 0]);
    assert_eq!(thoughts(&server), [0, 1, 0, 1]);
}

#[tokio::test]
async fn shorter_history_keeps_its_thinking() {
    let (double, server) = Double::start(rounds()).await;
    let model = model(&server);
    let mut request = first_request();
    for _ in 0..3 {
        turn(&model, &mut request).await;
    }
    let start = request.messages.as_slice()[..5].iter().cloned();
    request.messages = start.collect();
    assert_eq!(turn(&model, &mut request).await, [""; 0]);
    assert_eq!(double.refusals(), [""; 0]);
    assert_eq!(thoughts(&server), [0, 1, 2, 2]);
}

#[tokio::test]
async fn later_run_keeps_the_thinking_unless_it_has_volatile_text() {
    for (clock, expected) in [(None, 1), (Some("12:00"), 0)] {
        let (double, server) = Double::start(rounds()).await;
        let model = model(&server);
        let mut request = first_request();
        if let Some(clock) = clock {
            request.system.set("clock", clock, Stability::Volatile);
        }
        turn(&model, &mut request).await;

        // A new request shares no cache with those before, as in another run.
        let mut later = first_request();
        later.system = request.system.clone();
        later.messages = request.messages.clone();
        turn(&model, &mut later).await;
        assert_eq!(double.refusals(), [""; 0]);
        assert_eq!(thoughts(&server), [0, expected]);
    }
}

#[tokio::test]
async fn equal_messages_in_new_allocations_are_no_change() {
    let (double, server) = Double::start(rounds()).await;
    let model = model(&server);
    let mut request = first_request();
    turn(&model, &mut request).await;
    let copies = request.messages.iter().cloned();
    request.messages = copies.collect();
    assert_eq!(turn(&model, &mut request).await, [""; 0]);
    assert_eq!(double.refusals(), [""; 0]);
    assert_eq!(thoughts(&server), [0, 1]);
}

#[tokio::test]
async fn only_results_follow_an_unfinished_server_tool() {
    let server_call = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
        "input": {}});
    let answer = vec![server_call.clone(), call("toolu_1", "echo", &json!({}))];
    let (double, server) = Double::start([answer]).await;
    let model = model(&server);
    let mut request = first_request();
    request.system.set("clock", "12:00", Stability::Volatile);
    turn(&model, &mut request).await;
    request.system.set("clock", "12:01", Stability::Volatile);
    turn(&model, &mut request).await;
    turn(&model, &mut request).await;
    assert_eq!(double.refusals(), [""; 0]);
    let bodies: Vec<_> = server
        .requests()
        .iter()
        .map(|r| r.json().to_string())
        .collect();
    let has_new_time = |body: &String| body.contains("12:01");
    assert_eq!(
        bodies.iter().map(has_new_time).collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[tokio::test]
async fn unfinished_server_tool_is_left_out_when_the_user_speaks() {
    let server_call = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
        "input": {}});
    let answer = vec![
        thinking("Hm."),
        server_call,
        call("toolu_1", "echo", &json!({})),
    ];
    let (double, server) = Double::start([answer, rounds().remove(1)]).await;
    let model = model(&server);
    let mut request = first_request();
    turn(&model, &mut request).await;

    // Sends the results alone first, as a request that failed would.
    turn(&model, &mut request.clone()).await;
    request.messages.push(Message::human("Wait."));
    assert_eq!(turn(&model, &mut request).await, [INTERRUPTED]);
    assert_eq!(turn(&model, &mut request).await, [""; 0]);
    assert_eq!(double.refusals(), [""; 0]);
    let bodies = server.requests().into_iter();
    let has_call = |request: agentcore::testing::fault_server::Received| {
        request.json().to_string().contains("srvtoolu_1")
    };
    assert_eq!(
        bodies.map(has_call).collect::<Vec<_>>(),
        [false, true, false, false]
    );
    assert_eq!(thoughts(&server)[2..], [1, 1]);
}

#[tokio::test]
async fn refused_signature_of_another_account_is_left_out() {
    let (double, server) = Double::start([]).await;
    let block = json!({"type": "thinking", "thinking": "Hm.", "signature": "sig_other"});
    let block = ProviderBlock::new("anthropic", to_raw_value(&block).unwrap());
    let answer = Content::from([Part::Thinking(block)]);
    let mut request = first_request();
    request.messages = Messages::new().human("Go").ai(answer).human("And now?");
    assert_eq!(turn(&model(&server), &mut request).await, [REFUSED]);
    assert_eq!(double.refusals().len(), 1);
    let body = server.requests().pop().unwrap().json();
    let nothing = json!([{"type": "text", "text": "(nothing)"}]);
    assert_eq!(body["messages"][1]["content"], nothing);
    assert_eq!(turn(&model(&server), &mut request).await, [""; 0]);
}

#[tokio::test]
async fn thinking_that_counts_as_modified_is_left_out() {
    let text = "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant \
                message cannot be modified. These blocks must remain as they were in the original \
                response.";
    let error = json!({"type": "invalid_request_error", "message": text});
    let refusal = json!({"type": "error", "error": error}).to_string();
    let answer = include_str!("../../data/anthropic/text.sse");
    let server = serve([status(400, "", &refusal), events(answer)]).await;
    let block = json!({"type": "thinking", "thinking": "Hm.", "signature": "sig_1"});
    let block = ProviderBlock::new("anthropic", to_raw_value(&block).unwrap());
    let answer = Content::from([Part::Thinking(block), Part::from("Well.")]);
    let mut request = first_request();
    request.messages = Messages::new().human("Go").ai(answer).human("And now?");
    assert_eq!(turn(&model(&server), &mut request).await, [REFUSED]);
    assert_eq!(thoughts(&server), [1, 0]);
}
