//! Conversations with a strict server of the Responses API.

use std::collections::HashSet;

use agentcore::model::{ModelSettings, Stability, SystemPrompt, ThinkingMode};
use agentcore::providers::OpenAiResponses;
use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{
    AgentBuilder, ErrorKind, FuncTool, Message, Messages, Model, ModelRequest, Part, ToolCall,
};
use serde_json::{Value, json};

use crate::kit::doubles::responses::{Double, call, message, reasoning};
use crate::kit::{any_object, echo, warnings, watch};

fn model(url: impl AsRef<str>) -> OpenAiResponses {
    OpenAiResponses::compatible(url, "gpt-6-luna")
}

/// Two answers with reasoning and calls, then a text.
fn rounds() -> Vec<Vec<Value>> {
    vec![
        vec![
            reasoning("rs_1"),
            call("call_1", "echo", "{\"text\":\"a\"}"),
            call("call_2", "echo", "{\"text\":\"b\",\"n\":1.50}"),
        ],
        vec![
            reasoning("rs_2"),
            message("msg_1", "One moment."),
            call("call_3", "echo", "{\"text\":\"c\"}"),
        ],
        vec![reasoning("rs_3"), message("msg_2", "Done.")],
        vec![message("msg_3", "Again.")],
    ]
}

#[tokio::test]
async fn double_refuses_what_the_server_refuses() {
    let (double, _server) = Double::start([rounds().remove(0)]).await;
    let send = |body: Value| {
        double
            .answer(&body)
            .map_or_else(|(_, text)| text, |_| String::new())
    };
    let user = json!({"role": "user", "content": []});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": ""});
    assert_eq!(send(json!({"store": false, "input": [user]})), "");

    let items = rounds().remove(0);
    let [thought, first, second] = &items[..] else {
        panic!("{items:?}");
    };
    let foreign = reasoning("rs_x");
    let mut stripped = first.clone();
    stripped.as_object_mut().unwrap().remove("id");
    for (input, refusal) in [
        (
            json!([first, output("call_1")]),
            "without its required 'reasoning' item: 'rs_1'",
        ),
        (
            json!([thought, user]),
            "without its required following item",
        ),
        (json!([foreign, user]), "could not be verified"),
        (
            json!([thought, first, second, output("call_1")]),
            "No tool output found",
        ),
        (json!([output("call_9")]), "No tool call found"),
        (
            json!([stripped, stripped, output("call_1")]),
            "Duplicate item",
        ),
        (
            json!([{"type": "message", "role": "assistant", "content": []}]),
            "input[0].id",
        ),
    ] {
        let text = send(json!({"store": false, "input": input}));
        assert!(text.contains(refusal), "{refusal}: {text}");
    }
    for body in [
        json!({"store": true, "input": []}),
        json!({"store": false, "input": [], "stop": ["x"]}),
        json!({"store": false, "input": [], "tools": [{"type": "function", "name": "f"}]}),
    ] {
        assert_ne!(send(body), "");
    }

    let outputs = [output("call_1"), output("call_2")];
    let whole = json!([user, thought, first, second, outputs[0], outputs[1]]);
    assert_eq!(send(json!({"store": false, "input": whole})), "");
}

#[tokio::test]
async fn items_go_back_equal_to_the_output() {
    let (double, server) = Double::start(rounds()).await;
    let agent = AgentBuilder::new(model(server.url()))
        .tool(echo())
        .build()
        .unwrap();
    let session = agent.session("s");
    let output = session.run("Go").await.unwrap();
    assert_eq!(output.text, "Done.");
    agent.session("s").run("Once more").await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());

    let body = server.requests().pop().unwrap().json();
    let input = body["input"].as_array().unwrap();
    for item in rounds()[..3].iter().flatten() {
        assert!(input.contains(item), "{item}");
    }
}

#[tokio::test]
async fn foreign_encrypted_content_is_left_out_and_asked_once_more() {
    let (double, server) = Double::start(rounds()).await;
    let agent = AgentBuilder::new(model(server.url()))
        .tool(echo())
        .build()
        .unwrap();
    agent.session("s").run("Go").await.unwrap();
    double.forget();
    let old_requests = server.requests().len();
    let (messages, output) = watch(agent.session("s").run("Once more")).await;
    assert_eq!(output.unwrap().text, "Again.");
    assert_eq!(server.requests().len() - old_requests, 2);
    assert_eq!(double.refusals().len(), 1);
    assert_eq!(
        warnings(&messages),
        ["the server refused reasoning of earlier answers; it was left out"]
    );
}

/// Refuses ids that two items have.
fn check_ids(request: &Received) -> Result<(), (u16, Value)> {
    let body = request.json();
    let items = body["input"].as_array().unwrap().iter();
    let mut seen = HashSet::new();
    let mut ids = items.filter_map(|item| item["id"].as_str());
    let Some(id) = ids.find(|id| !seen.insert(*id)) else {
        return Ok(());
    };
    let text = format!("Duplicate item found with id {id}. Remove duplicate items.");
    let error = json!({"message": text, "type": "invalid_request_error"});
    Err((400, json!({"error": error})))
}

#[tokio::test]
async fn items_with_the_id_of_another_are_sent_without_ids() {
    let calls = ["call_1", "call_2"].map(|id| {
        let mut call = call(id, "echo", "{}");
        call["id"] = json!("fc_1");
        vec![call]
    });
    let answers = calls.into_iter().chain([vec![message("msg_1", "Done.")]]);
    let (double, server) = Double::start_behind(check_ids, answers).await;
    let agent = AgentBuilder::new(model(server.url())).tool(echo());
    let (messages, output) = watch(agent.build().unwrap().run("Go")).await;
    assert_eq!(output.unwrap().text, "Done.");
    assert_eq!(double.refusals().len(), 1);
    assert_eq!(
        warnings(&messages),
        ["the server refused ids of earlier answers; they and the reasoning were left out"]
    );
}

#[tokio::test]
async fn encrypted_content_that_is_refused_in_the_stream_is_left_out() {
    let thought = serde_json::value::to_raw_value(&reasoning("rs_1")).unwrap();
    let block = agentcore::message::ProviderBlock::new("compatible-responses", thought);
    let call = ToolCall::new("c1", "f", json!({}));
    let fields = serde_json::value::to_raw_value(&json!({"id": "fc_1"})).unwrap();
    let fields = agentcore::message::ProviderBlock::new("compatible-responses", fields);
    let call = Part::ToolCall(call.with_extra(fields));
    let history = Messages::from("Go")
        .with(Message::ai([Part::Thinking(block), call]))
        .tool("c1", "f", "ok")
        .human("And?");
    let error = json!({"type": "invalid_request_error", "code": "invalid_encrypted_content",
        "message": "no"});
    let error = json!({"type": "error", "error": error});
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::sse([format!("event: error\ndata: {error}\n\n")]));
    server.reply(crate::kit::doubles::responses::stream(&[message(
        "msg_1", "Done.",
    )]));
    let answer = model(server.url()).call(ModelRequest::new(history)).await;
    assert_eq!(answer.unwrap().text(), "Done.");
    let bodies = server
        .requests()
        .into_iter()
        .map(|request| request.json().to_string());
    let has_reasoning: Vec<_> = bodies.map(|body| body.contains("rs_1")).collect();
    assert_eq!(has_reasoning, [true, false]);
}

#[tokio::test]
async fn later_turns_of_a_run_are_sent_without_the_refused_reasoning() {
    let (double, server) = Double::start(rounds()).await;
    let forgetful = double.clone();
    let tool = FuncTool::new("echo", "", any_object(), move |_, _| {
        forgetful.forget();
        async { "ok" }
    });
    let agent = AgentBuilder::new(model(server.url()))
        .tool(tool)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "Done.");
    // The tool makes the server forget its reasoning, so each round of calls has one refusal.
    assert_eq!(double.refusals().len(), 2);
    assert_eq!(warnings(&messages).len(), 1);
    let body = server.requests().pop().unwrap().json();
    let has_reasoning = |item: &Value| item["type"] == "reasoning";
    assert!(!body["input"].as_array().unwrap().iter().any(has_reasoning));
}

#[tokio::test]
async fn renamed_call_goes_back_behind_its_reasoning_without_ids() {
    // The history of another provider has calls with the same ids.
    let ids = ["call_1", "call_2"];
    let calls = ids.map(|id| ToolCall::new(id, "echo", json!({})));
    let history = Messages::from("Hi")
        .ai_calling("", calls)
        .tool("call_1", "echo", "1")
        .tool("call_2", "echo", "2")
        .with(Message::ai("Yes."))
        .human("Go");
    for new_ids in [["call_1", "call_9"], ["call_9", "call_2"]] {
        let calls = new_ids.map(|id| call(id, "echo", "{}"));
        let mut items = vec![reasoning("rs_1")];
        items.extend(calls);
        items.push(message("msg_1", "One moment."));
        let (double, server) = Double::start([items, rounds().remove(3)]).await;
        let agent = AgentBuilder::new(model(server.url()))
            .tool(echo())
            .build()
            .unwrap();
        agent.run(history.clone()).await.unwrap();
        assert!(
            double.refusals().is_empty(),
            "{new_ids:?}: {:?}",
            double.refusals()
        );
        let body = server.requests().pop().unwrap().json();
        let input = body["input"].as_array().unwrap();
        assert!(input.iter().all(|item| item.get("id").is_none()), "{body}");
        assert!(
            input.iter().all(|item| item.get("status").is_none()),
            "{body}"
        );
        let kinds = input
            .iter()
            .filter_map(|item| item["encrypted_content"].as_str());
        assert_eq!(kinds.collect::<Vec<_>>(), ["gAAAA-rs_1"], "{body}");
        let message = json!({"role": "assistant", "content": "One moment.",
            "phase": "final_answer"});
        assert!(input.contains(&message), "{body}");
    }
}

#[tokio::test]
async fn renamed_call_beside_a_tool_of_the_server_goes_back_without_reasoning() {
    let calls = [ToolCall::new("call_1", "echo", json!({}))];
    let history = Messages::from("Hi")
        .ai_calling("", calls)
        .tool("call_1", "echo", "1")
        .human("Go");
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
    let items = vec![reasoning("rs_1"), search, call("call_1", "echo", "{}")];
    let (double, server) = Double::start([items, rounds().remove(3)]).await;
    let agent = AgentBuilder::new(model(server.url()))
        .tool(echo())
        .build()
        .unwrap();
    agent.run(history).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json().to_string();
    assert!(!body.contains("rs_1") && !body.contains("ws_1"), "{body}");
}

#[tokio::test]
async fn messages_without_ids_stay_apart() {
    let message = |text: &str, phase: &str| {
        let part = json!({"type": "output_text", "text": text, "annotations": []});
        json!({"type": "message", "role": "assistant", "phase": phase, "content": [part]})
    };
    let items = vec![
        message("Look.", "commentary"),
        message("Done.", "final_answer"),
    ];
    let server = FaultServer::start().await.unwrap();
    server.reply(crate::kit::doubles::responses::stream(&items));
    server.fallback(Reply::json(401, "{}"));
    let model = model(server.url());
    let answer = model.call(ModelRequest::new("Go")).await.unwrap();
    let history = Messages::from("Go")
        .with(Message::ai(answer.content))
        .human("And?");
    model.call(ModelRequest::new(history)).await.unwrap_err();
    let body = server.requests().pop().unwrap().json();
    assert_eq!(body["input"].as_array().unwrap()[1..3], items);
}

#[tokio::test]
async fn edited_text_drops_the_reasoning_before_it() {
    let (double, server) = Double::start(rounds().split_off(2)).await;
    let model = model(server.url());
    let answer = model.call(ModelRequest::new("Go")).await.unwrap();
    let thought = answer.content.parts()[0].clone();
    let history = Messages::new()
        .human("Go")
        .with(Message::ai([thought, Part::text("Edited.")]))
        .human("And?");
    model.call(ModelRequest::new(history)).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    assert_eq!(
        body["input"][1],
        json!({"role": "assistant", "content": "Edited."})
    );
}

#[tokio::test]
async fn items_of_one_server_are_not_sent_to_another() {
    let thought = serde_json::value::to_raw_value(&reasoning("rs_1")).unwrap();
    let fields = json!({"item": {"type": "message", "id": "msg_1", "phase": "commentary"},
        "part": {"type": "output_text"}});
    let fields = serde_json::value::to_raw_value(&fields).unwrap();
    let history = |tag: &str| {
        let block = |raw: &serde_json::value::RawValue| {
            agentcore::message::ProviderBlock::new(tag, raw.to_owned())
        };
        let annotations = agentcore::message::Annotations::new([]).with_block(block(&fields));
        let answer = [
            Part::Thinking(block(&thought)),
            Part::text("Look."),
            Part::Annotations(annotations),
        ];
        Messages::new()
            .human("Go")
            .with(Message::ai(answer))
            .human("And?")
    };
    for (tag, name, is_sent) in [
        ("openai-responses", None, false),
        ("compatible-responses", None, true),
        ("compatible-responses", Some("vllm"), false),
        ("vllm-responses", Some("vllm"), true),
    ] {
        let server = FaultServer::start().await.unwrap();
        server.fallback(Reply::json(401, "{}"));
        let mut model = model(server.url());
        if let Some(name) = name {
            model = model.provider(name);
        }
        let request = ModelRequest::new(history(tag));
        model.call(request).await.unwrap_err();
        let body = server.requests().remove(0).json().to_string();
        assert_eq!(body.contains("rs_1"), is_sent, "{tag}: {body}");
        assert_eq!(body.contains("commentary"), is_sent, "{tag}: {body}");
    }
}

#[tokio::test]
async fn history_of_other_providers_is_accepted() {
    let (double, server) = Double::start([]).await;
    let foreign = serde_json::value::to_raw_value(&json!({"type": "thinking"})).unwrap();
    let foreign = agentcore::message::ProviderBlock::new("anthropic", foreign);
    let long_id = "x".repeat(80);
    let history = Messages::new()
        .human("Go")
        .with(Message::ai([
            Part::Thinking(foreign.clone()),
            Part::text("Look."),
            Part::ToolCall(
                ToolCall::new(&*long_id, "functions.echo", json!({})).with_extra(foreign),
            ),
        ]))
        .tool(&*long_id, "functions.echo", "ok")
        .human("And?");
    model(server.url())
        .call(ModelRequest::new(history))
        .await
        .unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    let id = body["input"][2]["call_id"].as_str().unwrap();
    assert!(id.starts_with("xxx") && id.len() == 64, "{id}");
    assert_eq!(
        body["input"],
        json!([
            {"role": "user", "content": [{"type": "input_text", "text": "Go"}]},
            {"role": "assistant", "content": "Look."},
            {"type": "function_call", "call_id": id, "name": "functions_echo", "arguments": "{}"},
            {"type": "function_call_output", "call_id": id, "output": "ok"},
            {"role": "user", "content": [{"type": "input_text", "text": "And?"}]},
        ])
    );
}

#[tokio::test]
async fn stop_sequence_is_an_error_before_sending() {
    let (_, server) = Double::start([]).await;
    let mut request = ModelRequest::new("Go");
    request.stop = ["END".to_owned()].into();
    let error = model(server.url()).call(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("openai-chat:"), "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn volatile_text_stands_behind_the_history() {
    let (double, server) = Double::start([]).await;
    let mut system = SystemPrompt::new();
    system.set("a", "stable", Stability::Stable);
    system.set("b", "volatile", Stability::Volatile);
    let mut request = ModelRequest::new("Go").with_system(system);
    request.settings = ModelSettings::new().with_thinking(ThinkingMode::Effort("low".into()));
    model(server.url()).call(request).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    assert_eq!(body["instructions"], "stable");
    assert_eq!(
        body["input"][1],
        json!({"role": "developer", "content": "volatile"})
    );
    assert_eq!(
        body["reasoning"],
        json!({"effort": "low", "summary": "auto"})
    );
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
}
