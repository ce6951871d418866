//! Conversations with a strict Bedrock server, on its endpoints that are compatible with other
//! APIs.

use agentcore::message::{Annotations, Citation, ProviderBlock};
use agentcore::model::{ModelSettings, ThinkingMode};
use agentcore::providers::anthropic::{code_execution, web_search};
use agentcore::providers::openai::Dialect;
use agentcore::providers::{Anthropic, OpenAi, OpenAiResponses};
use agentcore::testing::FaultServer;
use agentcore::{
    AgentBuilder, ErrorKind, Message, Messages, Model, ModelEvent, ModelRequest, Part, ToolCall,
};
use futures::TryStreamExt;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::conversation::{agent, converse, picture};
use crate::kit::doubles::anthropic::{self, text, thinking};
use crate::kit::doubles::bedrock::{
    KEY, check_chat, check_chat_body, check_messages, check_messages_body, check_responses,
};
use crate::kit::doubles::chat::{Double, call, text_of};
use crate::kit::doubles::responses;
use crate::kit::echo;

fn chat(server: &FaultServer) -> OpenAi {
    OpenAi::compatible(format!("{}/v1", server.url()), "openai.gpt-oss-120b")
        .dialect(Dialect::bedrock())
        .key(KEY)
}

fn claude(server: &FaultServer) -> Anthropic {
    Anthropic::new("anthropic.claude-sonnet-5-5", KEY)
        .base_url(format!("{}/anthropic", server.url()))
        .hosted_tools(false)
        .bearer(KEY)
}

#[test]
fn doubles_refuse_what_the_server_refuses() {
    let answers = [vec![
        json!({"reasoning": "Let me "}),
        json!({"reasoning": "see."}),
    ]];
    let user = json!({"role": "user", "content": "Hi"});
    let calls = json!([{"id": "c1", "type": "function", "function": {"name": "t"}}]);
    let answer = json!({"role": "assistant", "content": null, "tool_calls": calls,
        "reasoning": "Let me see."});
    let result = json!({"role": "tool", "content": "ok", "tool_call_id": "c1"});
    let body = |model: &str, messages: Value| json!({"model": model, "messages": messages});
    let refusal = |messages: Value| {
        text_of(check_chat_body(
            &body("openai.gpt-oss-20b", messages),
            &answers,
        ))
    };
    assert_eq!(refusal(json!([user, answer, result])), "");

    let mut foreign = answer.clone();
    foreign["reasoning"] = "Other.".into();
    let image = json!({"role": "user", "content": [{"type": "image_url"}]});
    for (messages, text) in [
        (json!([user, foreign, result]), "unknown field"),
        (json!([image]), "image_url"),
        (json!([user, answer]), "must follow"),
        (
            json!([user, answer, result, answer, result]),
            "Duplicate tool call id",
        ),
    ] {
        assert!(
            refusal(messages.clone()).contains(text),
            "{text}: {messages}"
        );
    }
    let seeded = json!({"model": "openai.gpt-oss-20b", "messages": [user], "seed": 7});
    assert!(text_of(check_chat_body(&seeded, &[])).contains("unknown field `seed`"));
    let none =
        json!({"model": "openai.gpt-oss-20b", "messages": [user], "reasoning_effort": "none"});
    assert!(text_of(check_chat_body(&none, &[])).contains("unknown variant"));
    for model in ["openai.gpt-5.4", "anthropic.claude-sonnet-5"] {
        let text = text_of(check_chat_body(&body(model, json!([user])), &[]));
        assert!(
            text.contains("does not support the '/v1/chat/completions' API"),
            "{text}"
        );
    }

    let tools = |tools: Value| {
        text_of(check_messages_body(
            &json!({"model": "anthropic.claude-sonnet-5", "tools": tools}),
        ))
    };
    assert_eq!(tools(json!([{"name": "echo"}])), "");
    assert!(tools(json!([{"type": "web_search_20260318"}])).contains("web_search"));
    let body = |block: Value| {
        let message = json!({"role": "assistant", "content": [block]});
        let body = json!({"model": "anthropic.claude-sonnet-5", "messages": [message]});
        text_of(check_messages_body(&body))
    };
    assert_eq!(body(json!({"type": "text", "text": "Hi"})), "");
    assert!(body(json!({"type": "server_tool_use"})).contains("server_tool_use"));
    let citation = json!({"type": "web_search_result_location"});
    let cited = json!({"type": "text", "text": "Hi", "citations": [citation]});
    assert!(body(cited).contains("web_search_result_location"));
    let prefixed = json!({"model": "us.anthropic.claude-sonnet-5"});
    assert!(text_of(check_messages_body(&prefixed)).contains("not_found_error"));
}

#[tokio::test]
async fn whole_conversation_on_chat_completions_is_accepted() {
    let (double, server) = Double::start(
        check_chat,
        [
            vec![
                json!({"reasoning": "Let me "}),
                json!({"reasoning": "see."}),
                call(0, "c1", "a"),
                call(1, "c2", "b"),
            ],
            vec![json!({"reasoning": "More."}), call(0, "c1", "c")],
            vec![json!({"content": "Done."})],
            vec![json!({"content": "{\"mood\":\"good\"}"})],
        ],
    )
    .await;
    let mut settings = ModelSettings::default();
    settings.thinking = Some(ThinkingMode::Effort("low".into()));
    let agent = AgentBuilder::new(chat(&server))
        .system_prompt("You help.")
        .tool(echo())
        .model_settings(settings)
        .build()
        .unwrap();
    let (output, structured) = converse(&agent, Message::human("Go")).await;
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    assert_eq!(output.text, "Done.");
    assert_eq!(structured, json!({"mood": "good"}));
    let body = server.requests().pop().unwrap().json();
    assert_eq!(body["messages"][2]["reasoning"], "Let me see.");
    assert_eq!(body["reasoning_effort"], "low");
}

#[tokio::test]
async fn whole_conversation_on_the_messages_api_is_accepted() {
    let call = |id: &str| anthropic::call(id, "echo", &json!({"text": id}));
    let (double, server) = anthropic::Double::start_behind(
        check_messages,
        [
            vec![thinking("Hm."), call("toolu_1"), call("toolu_2")],
            vec![thinking("More."), text("One moment."), call("toolu_3")],
            vec![thinking("Well."), text("Done.")],
            vec![text("{\"mood\":\"good\"}")],
        ],
    )
    .await;
    let agent = agent(claude(&server));
    let input = Message::human([Part::text("Look:"), picture()]);
    let (output, structured) = converse(&agent, input).await;
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    assert_eq!(output.text, "Done.");
    assert_eq!(structured, json!({"mood": "good"}));
    let body = server.requests().pop().unwrap().json();
    assert_eq!(body["messages"][1]["content"][0]["signature"], "sig_0");
}

/// An answer of Anthropic's own server, with citations of a web search and of a document.
fn searched() -> Message {
    let block = |value: Value| ProviderBlock::new("anthropic", to_raw_value(&value).unwrap());
    let cited = |kind: &str| {
        let fields = json!({"citations": [{"type": kind, "cited_text": "c"}]});
        let citations = [Citation::new("https://x/y")];
        Part::Annotations(Annotations::new(citations).with_block(block(fields)))
    };
    Message::ai([
        Part::Opaque(block(json!({"type": "server_tool_use", "id": "srv_1",
            "name": "web_search", "input": {"query": "tides"}}))),
        Part::Opaque(block(
            json!({"type": "web_search_tool_result", "tool_use_id": "srv_1",
            "content": []}),
        )),
        Part::text("From the web."),
        cited("web_search_result_location"),
        Part::text("From a page."),
        cited("page_location"),
        Part::text("The end. "),
        Part::Opaque(block(json!({"type": "server_tool_use", "id": "srv_2",
            "name": "web_search", "input": {"query": "more"}}))),
    ])
}

#[tokio::test]
async fn tools_of_anthropic_and_what_they_gave_are_left_out() {
    let (double, server) = anthropic::Double::start_behind(check_messages, []).await;
    for is_last in [false, true] {
        let mut history = Messages::from("Hi").with(searched());
        if !is_last {
            history = history.human("And now?");
        }
        let mut request = ModelRequest::new(history);
        request.hosted_tools = [web_search(), code_execution()].into();
        let events = claude(&server).stream(request).await.unwrap();
        let events: Vec<_> = events.try_collect().await.unwrap();
        assert!(double.refusals().is_empty(), "{:?}", double.refusals());
        let warnings = events.iter().filter_map(|event| match event {
            ModelEvent::Warning(text) => Some(&**text),
            _ => None,
        });
        assert_eq!(
            warnings.collect::<Vec<_>>(),
            ["tools that this API does not run were left out of the request (anthropic)"]
        );

        let body = server.requests().pop().unwrap().json();
        assert!(body.get("tools").is_none(), "{body}");
        let blocks = body["messages"][1]["content"].as_array().unwrap();
        let texts: Vec<_> = blocks.iter().map(|block| &block["text"]).collect();
        // The server does not continue an answer that ends with whitespace.
        let end = if is_last { "The end." } else { "The end. " };
        assert_eq!(texts, ["From the web.", "From a page.", end]);
        assert!(blocks[0].get("citations").is_none(), "{body}");
        assert_eq!(blocks[1]["citations"][0]["type"], "page_location");
    }
}

#[tokio::test]
async fn tools_of_openai_are_left_out() {
    let (double, server) = responses::Double::start_behind(check_responses, []).await;
    let url = format!("{}/openai/v1", server.url());
    let model = OpenAiResponses::compatible(url, "openai.gpt-5.4").provider("bedrock");
    let model = model.hosted_tools(false).key(KEY);
    let mut request = ModelRequest::new("Hi");
    request.hosted_tools = [agentcore::providers::responses::web_search()].into();
    let events = model.stream(request).await.unwrap();
    let events: Vec<_> = events.try_collect().await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let warning =
        "tools that this API does not run were left out of the request (openai-responses)";
    assert!(
        events.contains(&ModelEvent::Warning(warning.to_owned())),
        "{events:?}"
    );
    let body = server.requests().pop().unwrap().json();
    assert!(body.get("tools").is_none(), "{body}");
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
}

#[tokio::test]
async fn ids_that_begin_again_in_every_answer_stay_apart() {
    let call = |id: &str| responses::call(id, "echo", "{\"text\":\"a\"}");
    let (double, server) = responses::Double::start_behind(
        check_responses,
        [
            vec![responses::reasoning("rs_1"), call("call_0"), call("call_1")],
            vec![
                responses::reasoning("rs_2"),
                responses::message("msg_1", "Done."),
            ],
        ],
    )
    .await;
    double.push(vec![
        responses::reasoning("rs_3"),
        call("call_0"),
        call("call_9"),
    ]);
    double.push(vec![responses::message("msg_2", "Again.")]);
    let url = format!("{}/openai/v1", server.url());
    let model = OpenAiResponses::compatible(url, "openai.gpt-5.4").key(KEY);
    let agent = AgentBuilder::new(model).tool(echo()).build().unwrap();
    agent.session("s").run("Go").await.unwrap();
    let output = agent.session("s").run("Once more").await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    assert_eq!(output.text, "Again.");
    let body = server.requests().pop().unwrap().json();
    let input = body["input"].as_array().unwrap();
    let calls = input.iter().filter(|item| item["type"] == "function_call");
    let ids: Vec<_> = calls
        .map(|call| call["call_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["call_0", "call_1", "call_0_2", "call_9"]);

    // The third reasoning item is sent without its id, because the id of the call after it was
    // replaced.
    let reasoning = input.iter().filter(|item| item["type"] == "reasoning");
    let reasoning: Vec<_> = reasoning.collect();
    let mut expected = ["rs_1", "rs_2", "rs_3"].map(responses::reasoning);
    expected[2].as_object_mut().unwrap().remove("id");
    assert_eq!(reasoning, expected.each_ref());
}

#[tokio::test]
async fn models_have_the_family_and_the_profile_of_their_own_names() {
    let answer = vec![responses::message("msg_1", "ok")];
    let (double, server) = responses::Double::start_behind(check_responses, [answer]).await;
    let url = format!("{}/openai/v1", server.url());
    let model = OpenAiResponses::compatible(url, "openai.gpt-6-luna").key(KEY);
    assert_eq!(model.profile().context_window, 1_050_000);
    let mut request = ModelRequest::new("Hi");
    request.temperature = Some(0.5);
    model.call(request).await.unwrap();
    assert!(double.refusals().is_empty(), "{:?}", double.refusals());
    let body = server.requests().pop().unwrap().json();
    assert!(body.get("temperature").is_none(), "{body}");
    assert_eq!(body["reasoning"], json!({"summary": "auto"}));
    let mut request = ModelRequest::new("Hi");
    request.settings.thinking = Some(ThinkingMode::Effort("minimal".into()));
    let error = model.call(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");

    let claude = Anthropic::new("anthropic.claude-sonnet-5", KEY);
    let own = Anthropic::new("claude-sonnet-5", KEY);
    assert_eq!(claude.profile(), own.profile());
    assert_eq!(claude.profile().context_window, 1_000_000);
}

#[tokio::test]
async fn wrong_key_is_an_error_of_each_endpoint() {
    let (_, chat_server) = Double::start(check_chat, []).await;
    let (_, messages_server) = anthropic::Double::start_behind(check_messages, []).await;
    let (_, responses_server) = responses::Double::start_behind(check_responses, []).await;
    let responses_url = format!("{}/openai/v1", responses_server.url());
    let models: [Box<dyn Model>; 4] = [
        Box::new(chat(&chat_server).key("wrong")),
        Box::new(claude(&messages_server).bearer("wrong")),
        // This model sends the key in `x-api-key`.
        Box::new(
            Anthropic::new("anthropic.claude-sonnet-5-5", KEY)
                .base_url(format!("{}/anthropic", messages_server.url())),
        ),
        Box::new(OpenAiResponses::compatible(responses_url, "openai.gpt-5.4").key("wrong")),
    ];
    for model in models {
        let error = model.call(ModelRequest::new("Hi")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    }
}

#[tokio::test]
async fn settings_and_history_of_other_servers_are_accepted() {
    let fields = to_raw_value(&json!({"reasoning": "canary"})).unwrap();
    let thought = |tag: &str| Part::Thinking(ProviderBlock::new(tag, fields.clone()));
    let history = Messages::from("Hi")
        .with(Message::ai([
            thought("openai"),
            thought("groq"),
            Part::ToolCall(ToolCall::new("c1", "t", json!({}))),
        ]))
        .tool("c1", "t", "")
        .human("And now?");
    for thinking in [None, Some(ThinkingMode::Disabled)] {
        let (double, server) = Double::start(check_chat, []).await;
        let mut request = ModelRequest::new(history.clone()).with_max_output_tokens(9);
        request.temperature = Some(0.5);
        request.settings.top_k = Some(5);
        request.settings.seed = Some(7);
        request.settings.thinking = thinking;
        chat(&server).call(request).await.unwrap();
        assert!(double.refusals().is_empty(), "{:?}", double.refusals());
        let body = server.requests().pop().unwrap().json().to_string();
        assert!(!body.contains("canary"), "{body}");
    }

    let server = FaultServer::start().await.unwrap();
    let mut request = ModelRequest::new("Hi");
    request.settings.thinking = Some(ThinkingMode::Effort("max".into()));
    let error = chat(&server).call(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(
        error.text().contains("use one of: low, medium, high"),
        "{error}"
    );
}
