//! Helpers for tests of faults: an agent on a scripted server, and checks of its requests.

use agentcore::AgentBuilder;
use agentcore::agent::RetryPolicy;
use agentcore::providers::{Anthropic, Gemini, OpenAi};
use agentcore::testing::fault_server::Action;
use agentcore::testing::{FaultServer, Reply};
use serde_json::{Value, json};

use crate::kit::agent;
use crate::kit::doubles::gemini;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Api {
    Anthropic,
    OpenAi,
    Gemini,
}

use Api::{Anthropic as A, Gemini as G, OpenAi as O};

pub const ALL: [Api; 3] = [A, O, G];

const GEMINI: &str = "gemini-3.8-flash";

/// A call: its id, its name and the text of its arguments.
pub type Call<'a> = (&'a str, &'a str, &'a str);

impl Api {
    pub fn agent(self, server: &FaultServer) -> AgentBuilder {
        let builder = match self {
            A => agent(Anthropic::new("m", "key").base_url(server.url())),
            O => agent(OpenAi::compatible(server.url(), "m")),
            G => agent(Gemini::new(GEMINI, "key").base_url(server.url())),
        };
        builder.retry(RetryPolicy::never())
    }

    pub fn text(self, text: &str) -> Reply {
        match self {
            A => Reply::anthropic_text(text),
            O => Reply::openai_text(text),
            G => gemini::stream(&gemini::words(text)),
        }
    }

    /// Returns the messages of a body.
    pub fn messages(self, body: &Value) -> &[Value] {
        list(match self {
            A | O => &body["messages"],
            G => &body["contents"],
        })
    }

    /// An answer with text and calls. `stop` is the stop reason as the Messages API names it.
    pub fn answer(self, text: &str, calls: &[Call<'_>], stop: &str) -> Reply {
        if self == A {
            let text_block = (!text.is_empty()).then(|| {
                let start = json!({"type": "text", "text": ""});
                (start, json!({"type": "text_delta", "text": text}))
            });

            let calls = calls.iter().map(|(id, name, args)| {
                let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                let delta = json!({"type": "input_json_delta", "partial_json": args});
                (start, delta)
            });

            return blocks(text_block.into_iter().chain(calls), stop);
        }

        if self == G {
            return gemini_answer(text, calls, stop);
        }

        let finish = match stop {
            "end_turn" => "stop",
            "tool_use" => "tool_calls",
            "max_tokens" => "length",
            "refusal" => "content_filter",
            other => other,
        };

        let mut deltas = vec![(json!({"role": "assistant", "content": text}), None)];
        deltas.extend(calls.iter().enumerate().map(|(index, (id, name, args))| {
            let function = json!({"name": name, "arguments": args});
            let call = json!({"index": index, "id": id, "type": "function", "function": function});
            (json!({"tool_calls": [call]}), None)
        }));

        deltas.push((json!({}), Some(finish)));
        let frames = deltas.into_iter().map(|(delta, finish)| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
        });

        let frames = frames.map(|frame| format!("data: {frame}\n\n"));
        Reply::sse(frames.chain(["data: [DONE]\n\n".to_owned()]))
    }

    pub fn calls(self, calls: &[Call<'_>]) -> Reply {
        self.answer("", calls, "tool_use")
    }

    /// An answer that stalls after its first words.
    pub fn hangs(self) -> Reply {
        let answer = self.text("some words here");
        let mut reply = answer.clone().truncate(0);
        for action in answer.actions() {
            match action {
                Action::Send(frame) if !String::from_utf8_lossy(frame).contains("here") => {
                    reply = reply.send(frame.clone());
                }
                _ => break,
            }
        }
        reply.stall()
    }
}

/// Sends arguments that are no JSON as a string. Calls are never split in this API, so at the
/// output limit a call with incomplete arguments is missing.
fn gemini_answer(text: &str, calls: &[Call<'_>], stop: &str) -> Reply {
    let is_whole = |args: &str| serde_json::from_str::<Value>(args).is_ok();
    let calls = calls
        .iter()
        .filter(|(_, _, args)| stop != "max_tokens" || is_whole(args))
        .enumerate()
        .map(|(index, (id, name, args))| {
            let args = match *args {
                "" => Value::Null,
                args => serde_json::from_str(args).unwrap_or_else(|_| args.into()),
            };
            gemini::call(id, name, &args, if index == 0 { "c2ln" } else { "" })
        });
    let parts: Vec<Value> = gemini::words(text).into_iter().chain(calls).collect();
    let reason = match stop {
        "end_turn" | "tool_use" => "STOP",
        "max_tokens" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        other => other,
    };
    gemini::stream_until(&parts, reason)
}

/// A stream of the Messages API with these blocks, each as its start and one delta.
pub fn blocks(blocks: impl Iterator<Item = (Value, Value)>, stop: &str) -> Reply {
    let mut events = vec![json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }})];
    for (index, (start, delta)) in blocks.enumerate() {
        events.extend([
            json!({"type": "content_block_start", "index": index, "content_block": start}),
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
            json!({"type": "content_block_stop", "index": index}),
        ]);
    }

    events.extend([
        json!({"type": "message_delta", "delta": {"stop_reason": stop},
            "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ]);
    Reply::sse(events.iter().map(|event| {
        let kind = event["type"].as_str().unwrap();
        format!("event: {kind}\ndata: {event}\n\n")
    }))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn ids<'a>(blocks: &'a [Value], kind: &str, field: &str) -> Vec<&'a str> {
    let own = blocks.iter().filter(|block| block["type"] == kind);
    own.map(|block| block[field].as_str().unwrap()).collect()
}

/// Panics if the API would not accept the body.
pub fn assert_accepted(api: Api, body: &Value) {
    let messages = api.messages(body);
    if api == G {
        gemini::check_body(GEMINI, body).unwrap_or_else(|text| panic!("{text}: {body}"));
    }

    let mut all = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let next = messages.get(at + 1).unwrap_or(&Value::Null);
        let content = list(&message["content"]);
        let calls = match api {
            A => {
                let role = if at % 2 == 0 { "user" } else { "assistant" };
                assert_eq!(message["role"], role, "the roles alternate: {body}");
                let content_text = message["content"].as_str().unwrap_or_default();
                assert!(!content_text.is_empty() || !content.is_empty(), "{body}");
                let calls = ids(content, "tool_use", "id");
                let answers = list(&next["content"]);
                let firsts = &answers[..calls.len().min(answers.len())];
                assert_eq!(calls, ids(firsts, "tool_result", "tool_use_id"), "{body}");
                assert_eq!(
                    calls.len(),
                    ids(answers, "tool_result", "tool_use_id").len()
                );
                for block in content {
                    let is_call = block["type"] == "tool_use";
                    assert!(!is_call || block["input"].is_object(), "{block}");
                }

                calls
            }
            O => {
                let calls = list(&message["tool_calls"]);
                for call in calls {
                    let args = call["function"]["arguments"].as_str().unwrap();
                    let args: Value = serde_json::from_str(args).unwrap_or_default();
                    assert!(args.is_object(), "{call}");
                }

                let calls = ids(calls, "function", "id");
                let tools = messages[at + 1..]
                    .iter()
                    .take_while(|message| message["role"] == "tool");
                let results: Vec<_> = tools.map(|m| m["tool_call_id"].as_str().unwrap()).collect();
                if message["role"] != "tool" {
                    assert_eq!(calls, results, "{body}");
                }

                calls
            }
            G => {
                let parts = list(&message["parts"]).iter();
                let calls = parts.filter_map(|part| part.get("functionCall"));
                let calls = calls.inspect(|call| assert!(call["args"].is_object(), "{call}"));
                calls.map(|call| call["id"].as_str().unwrap()).collect()
            }
        };

        all.extend(calls);
    }

    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "a repeated id: {body}");
    assert!(!body.to_string().contains("\\u0000"), "{body}");
}

/// Panics if the API would not accept one of the requests so far. Returns their bodies.
pub fn accepted(api: Api, server: &FaultServer) -> Vec<Value> {
    let bodies: Vec<_> = server.requests().iter().map(|r| r.json()).collect();
    for body in &bodies {
        assert_accepted(api, body);
    }
    bodies
}
