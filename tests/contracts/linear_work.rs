//! Answers with very many calls: the work is proportional to their number, not to its square.

use agentcore::model::ResponseLimits;
use agentcore::session::{Record, StoredSession};
use agentcore::testing::ScriptedModel;
use agentcore::{
    AgentBuilder, AgentState, Error, ErrorKind, Message, Messages, ModelEvent, Secret,
    SessionStore, ThreadStore, ToolCall, ToolResult,
};
use serde_json::json;

use crate::kit::effort::ends_within;

const CALLS: usize = 16_000;

/// Runs `work` and returns its result. Fails if it takes more processor time than linear work
/// needs.
fn finishes<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    ends_within(10, work)
}

#[test]
fn stored_session_applies_results_of_many_calls_in_linear_time() {
    let session = finishes(|| {
        let mut session = StoredSession::new(AgentState::new("s"));
        let call = |number: usize| ToolCall::new(format!("call_{number}"), "f", json!({}));
        for number in 0..CALLS {
            let call_id = call(number).id;
            session.apply(Record::ToolStarted { call_id });
        }

        for number in (0..CALLS).rev() {
            let result = Message::Tool(ToolResult::ok(&call(number), "done")).into();
            session.apply(Record::ToolEnded { result });
        }

        for number in 0..CALLS - 1 {
            let message = Message::Tool(ToolResult::ok(&call(number), "done")).into();
            session.apply(Record::Message {
                message,
                input_id: None,
            });
        }

        session
    });

    assert!(session.started.is_empty());
    let ended: Vec<_> = session
        .ended
        .iter()
        .filter_map(|ended| ended.as_tool_result())
        .collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(*ended[0].tool_call_id, *format!("call_{}", CALLS - 1));
}

#[test]
fn message_with_calls_in_parts_and_list_is_read_in_linear_time() {
    const CALLS: usize = 25_000;
    let message = finishes(|| {
        let call = |number| json!({"id": "c", "name": "f", "args": {"n": number}});
        let parts = (0..CALLS).map(|number| {
            let mut part = call(number);
            part["type"] = json!("tool_call");
            part
        });
        let parts: Vec<_> = parts.collect();
        let list: Vec<_> = (0..CALLS).map(|number| call(CALLS + number)).collect();
        let message = json!({"role": "assistant", "content": parts, "tool_calls": list});
        serde_json::from_str::<Message>(&message.to_string()).unwrap()
    });
    assert_eq!(message.tool_calls().count(), 2 * CALLS);
}

/// The number of open calls of a session that is resumed.
const OPEN_CALLS: usize = 4_000;

/// Returns a session whose run was dropped while `OPEN_CALLS` calls were in progress.
fn session_with_open_calls() -> StoredSession {
    let calls =
        (0..OPEN_CALLS).map(|number| ToolCall::new(format!("call_{number}"), "f", json!({})));
    let calls: Vec<_> = calls.collect();
    let mut session = StoredSession::new(AgentState::new("s"));
    session.state.messages = Messages::from("hi").ai_calling("", calls.clone());
    for (number, call) in calls.iter().enumerate() {
        session.started.push(call.id.clone());
        if number % 2 == 0 {
            let result = ToolResult::ok(call, "done");
            session.ended.push(Message::Tool(result).into());
        }
    }

    session
}

#[test]
fn session_with_many_open_calls_resumes_in_call_order() {
    let messages = ends_within(60, || {
        let run = async {
            let store = ThreadStore::new();
            store.create("s", session_with_open_calls()).await?;
            let model = ScriptedModel::new().say("Hello");
            let agent = AgentBuilder::new(model).store(store.clone()).build()?;
            agent.session("s").run("go on").finish().await?;
            Ok::<_, agentcore::Error>(store)
        };

        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let store = runtime.unwrap().block_on(run).unwrap();
        store.get("s").unwrap().messages
    });

    let answered = messages.tool_messages().filter_map(Message::as_tool_result);
    for (number, result) in answered.enumerate() {
        assert_eq!(*result.tool_call_id, *format!("call_{number}"));
        assert_eq!(result.is_error, number % 2 == 1);
    }

    assert_eq!(messages.tool_messages().count(), OPEN_CALLS);
}

#[cfg(feature = "http")]
mod decoders {
    use agentcore::model::ResponseLimits;
    use agentcore::providers::{Anthropic, Ollama, OpenAi};
    use agentcore::testing::{FaultServer, Reply};
    use agentcore::{Model, ModelRequest, ModelResponse};
    use serde_json::Value;
    use tokio::runtime;

    use super::*;

    fn ids(response: &ModelResponse) -> Vec<String> {
        let mut ids: Vec<_> = response
            .tool_calls()
            .map(|call| call.id.to_string())
            .collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// Returns the answer of a server, without a limit on the number of its calls.
    fn served<M: Model>(reply: Reply, model: impl FnOnce(String) -> M) -> ModelResponse {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let server = FaultServer::start().await.unwrap();
            server.reply(reply);
            let limits = ResponseLimits::default()
                .with_max_calls(usize::MAX)
                .with_max_blocks(usize::MAX)
                .with_max_values(usize::MAX);
            let request = ModelRequest::new(Messages::from("Hi")).with_response_limits(limits);
            model(server.url()).call(request).await.unwrap()
        })
    }

    fn sse(events: impl Iterator<Item = Value>) -> String {
        events
            .map(|event| match event["type"].as_str() {
                Some(name) => format!("event: {name}\ndata: {event}\n\n"),
                None => format!("data: {event}\n\n"),
            })
            .collect()
    }

    fn anthropic(events: impl Iterator<Item = Value>) -> ModelResponse {
        let start = json!({"type": "message_start", "message": {"id": "m", "model": "x"}});
        let stop = json!({"type": "message_stop"});
        let body = sse([start].into_iter().chain(events).chain([stop]));
        served(Reply::sse([body]), |url| {
            Anthropic::new("m", "key").base_url(url)
        })
    }

    fn block(index: usize, id: &str) -> Value {
        let block = json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn piece(index: usize) -> Value {
        let delta = json!({"type": "input_json_delta", "partial_json": "{\"a\":1}"});
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }

    fn end(index: usize) -> Value {
        json!({"type": "content_block_stop", "index": index})
    }

    #[test]
    fn anthropic_calls_decode_with_any_ids() {
        for id in ["same", "", "id_"] {
            let response =
                finishes(move || {
                    let id = move |index| match id {
                        "id_" => format!("id_{index}"),
                        id => id.to_owned(),
                    };

                    anthropic((0..CALLS).flat_map(move |index| {
                        [block(index, &id(index)), piece(index), end(index)]
                    }))
                });
            assert_eq!(ids(&response).len(), CALLS);
        }
    }

    #[test]
    fn anthropic_blocks_that_are_open_at_once_decode() {
        let response = finishes(|| {
            let begun = (0..CALLS).map(|index| block(index, &format!("id_{index}")));
            let pieces = (0..CALLS).rev().map(piece);
            anthropic(begun.chain(pieces).chain((0..CALLS).map(end)))
        });
        assert_eq!(ids(&response).len(), CALLS);
    }

    #[test]
    fn anthropic_generated_id_differs_from_ids_of_other_calls() {
        let response = anthropic(
            ["a", "a_2", "a"]
                .into_iter()
                .enumerate()
                .flat_map(|(index, id)| [block(index, id), piece(index), end(index)]),
        );
        assert_eq!(ids(&response).len(), 3);
    }

    fn openai(pieces: impl Iterator<Item = Value>) -> ModelResponse {
        let chunk = |delta: Value| json!({"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta}]});
        let chunks = pieces.map(|piece| chunk(json!({"tool_calls": [piece]})));
        let stop = json!({"id": "r", "choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
        let body = sse(chunks.chain([stop]));
        served(Reply::sse([body]), |url| {
            OpenAi::new("m", "key").base_url(url)
        })
    }

    #[test]
    fn openai_calls_decode_with_any_ids() {
        for id in ["same", "", "id_"] {
            let response = finishes(move || {
                openai((0..CALLS).map(move |index| {
                    let id = match id {
                        "id_" => format!("id_{index}"),
                        id => id.to_owned(),
                    };

                    json!({"index": index, "id": id, "function": {"name": "f", "arguments": "{}"}})
                }))
            });

            assert_eq!(ids(&response).len(), CALLS);
        }
    }

    #[test]
    fn openai_pieces_of_many_open_calls_decode() {
        let response = finishes(|| {
            let begun = (0..CALLS).map(|index| {
                json!({"index": index, "id": format!("id_{index}"), "function": {"name": "f", "arguments": "{"}})
            });

            let ends =
                (0..CALLS).map(|index| json!({"index": index, "function": {"arguments": "}"}}));
            openai(begun.chain(ends))
        });

        assert_eq!(ids(&response).len(), CALLS);
        let response = finishes(|| {
            let begun = (0..CALLS).map(|index| {
                json!({"id": format!("id_{index}"), "function": {"name": "f", "arguments": "{"}})
            });

            let ends = (0..CALLS)
                .map(|index| json!({"id": format!("id_{index}"), "function": {"arguments": "}"}}));
            openai(begun.chain(ends))
        });

        assert_eq!(ids(&response).len(), CALLS);
    }

    /// Returns a piece of one long text of arguments. The text may end with each piece.
    fn list(number: usize) -> &'static str {
        if number == 0 { "{\"a\":[[]" } else { ",[]" }
    }

    #[test]
    fn openai_arguments_with_a_name_in_every_piece_decode() {
        let response = finishes(|| {
            let pieces = (0..CALLS)
                .map(|number| json!({"function": {"name": "f", "arguments": list(number)}}));
            let end = json!({"function": {"name": "f", "arguments": "]}"}});
            openai(pieces.chain([end]))
        });
        let call = response.tool_calls().next().unwrap();
        assert_eq!(call.args["a"].as_array().map(Vec::len), Some(CALLS));
    }

    #[test]
    fn openai_arguments_with_another_id_in_every_piece_decode() {
        let response = finishes(|| {
            let begun =
                json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": list(0)}});
            let pieces = (1..CALLS)
                .map(|number| json!({"index": 0, "id": format!("b{}", number % 2), "function": {"arguments": list(number)}}));
            let end = json!({"index": 0, "function": {"arguments": "]}"}});
            openai([begun].into_iter().chain(pieces).chain([end]))
        });
        let call = response.tool_calls().next().unwrap();
        assert_eq!(call.args["a"].as_array().map(Vec::len), Some(CALLS));
    }

    #[test]
    fn ollama_calls_decode_with_any_ids() {
        for id in ["same", "", "id_"] {
            let response = finishes(move || {
                let lines = (0..CALLS).map(|index| {
                    let id = match id {
                        "id_" => format!("id_{index}"),
                        id => id.to_owned(),
                    };

                    let call = json!({"id": id, "function": {"name": "f", "arguments": {}}});
                    let message = json!({"role": "assistant", "content": "", "tool_calls": [call]});
                    json!({"model": "m", "created_at": "t", "message": message, "done": false})
                });

                let end = json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true});
                let body: String = lines.chain([end]).map(|line| format!("{line}\n")).collect();
                served(Reply::ndjson([body]), |url| Ollama::new("m").base_url(url))
            });

            assert_eq!(ids(&response).len(), CALLS);
        }
    }
}

#[test]
fn many_calls_that_end_in_reverse_are_counted_in_linear_time() {
    const CALLS: u32 = 40_000;
    let begin = |index| ModelEvent::ToolCallStart {
        index,
        id: format!("call_{index}").into(),
        name: "f".into(),
    };
    let end = |index| ModelEvent::ToolCall(ToolCall::new(format!("call_{index}"), "f", json!({})));
    let events = (0..CALLS).map(begin).chain((0..CALLS).rev().map(end));
    let error = Error::new(ErrorKind::Auth, "no key");
    let events: Vec<_> = events.map(Ok).chain([Err(error)]).collect();

    // In a process with a secret, answers are also redacted.
    let secret = Secret::new("a-secret-of-this-test");
    let kind = finishes(move || {
        let model = ScriptedModel::new().events(events);
        let limits = ResponseLimits::default().with_max_calls(CALLS as usize);
        let limits = limits
            .with_max_blocks(usize::MAX)
            .with_max_values(usize::MAX);
        let agent = AgentBuilder::new(model).response_limits(limits);
        let agent = agent.build().unwrap();
        futures::executor::block_on(async { agent.run("Go").await.unwrap_err().kind() })
    });
    assert_eq!(kind, ErrorKind::Auth);
    drop(secret);
}

#[test]
fn text_is_redacted_in_linear_time_with_many_similar_secrets() {
    let secret = |number: usize| Secret::new(format!("{}{number:04}", "y".repeat(64)));
    let text = format!("{}0999", "y".repeat(192 * 1024));
    let redacted = finishes(move || {
        // With a shorter secret, only the common beginning is in the window of the search.
        let _short_secret = Secret::new("a-secret-of-this-test");
        let _secrets: Vec<_> = (0..2_000).map(secret).collect();
        Error::new(ErrorKind::Auth, text).to_string()
    });
    assert!(redacted.ends_with("yyy[redacted]"));
}
