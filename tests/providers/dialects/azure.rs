//! Requests to a strict Azure server, through both of its APIs.

use agentcore::model::ToolDefinition;
use agentcore::providers::openai::Dialect;
use agentcore::providers::{OpenAi, OpenAiResponses};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{ErrorKind, Model, ModelRequest};

use crate::kit::doubles::azure::{KEY, TOKEN, check};
use crate::kit::doubles::chat::Double;

const HOST: &str = "https://res.openai.azure.com/openai/v1";

fn current(server: &FaultServer) -> OpenAi {
    OpenAi::compatible(format!("{}/openai/v1", server.url()), "dep").dialect(Dialect::azure())
}

fn classic(server: &FaultServer) -> OpenAi {
    let url = format!("{}/openai/deployments/dep", server.url());
    let model = OpenAi::compatible(url, "dep").dialect(Dialect::azure());
    model.query("api-version", "2024-10-21")
}

fn request() -> ModelRequest {
    let mut request = ModelRequest::new("Hi").with_max_output_tokens(7);
    request.settings.top_k = Some(5);
    request
}

#[tokio::test]
async fn both_apis_take_a_key_and_a_token() {
    let (double, server) = Double::start(check, []).await;
    for model in [current(&server), classic(&server)] {
        for model in [
            model.clone().key(KEY),
            model.clone().bearer(TOKEN),
            model.clone().key("first").bearer(TOKEN),
            model.clone().bearer(TOKEN).dialect(Dialect::azure()),
        ] {
            assert_eq!(model.call(request()).await.unwrap().text(), "ok");
        }
        for model in [model.clone(), model.bearer(KEY)] {
            let error = model.call(request()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
        }
    }
    assert_eq!(double.refusals().len(), 4);
}

#[tokio::test]
async fn wrong_address_and_wrong_deployment_are_not_found() {
    let (_, server) = Double::start(check, []).await;
    let deployment = format!("{}/openai/deployments/dep", server.url());
    let current_url = format!("{}/openai/v1", server.url());
    for (url, name) in [
        (server.url(), "dep"),
        (deployment, "dep"),
        (current_url, "other"),
    ] {
        let model = OpenAi::compatible(url, name)
            .dialect(Dialect::azure())
            .key(KEY);
        let error = model.call(request()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}

#[tokio::test]
async fn request_that_a_deployment_refuses_is_an_error_before_sending() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::json(401, "{}"));
    let model = |name: &str, path: &str| {
        let url = format!("{}{path}", server.url());
        OpenAi::compatible(url, name)
            .dialect(Dialect::azure())
            .key(KEY)
    };
    let tools: std::sync::Arc<[_]> = [ToolDefinition::new(
        "f",
        "",
        serde_json::json!({"type": "object"}),
    )]
    .into();
    for path in ["/openai/v1", "/openai/deployments/d"] {
        for (name, has_tool, stop, word) in [
            ("gpt-6-luna", true, None, Some("azure:DEPLOYMENT")),
            ("gpt-5.5-pro", false, None, Some("`/openai/v1`")),
            ("gpt-6-luna", false, Some("END"), Some("stop sequences")),
            ("gpt-6-luna", false, None, None),
            ("gpt-5.1", true, Some("END"), None),
            // Deployments with other names may have any model.
            ("gpt-prod", true, Some("END"), None),
            ("dep", true, Some("END"), None),
        ] {
            let mut request = ModelRequest::new("Hi");
            if has_tool {
                request.tools = tools.clone();
            }
            request.stop = stop.into_iter().map(str::to_owned).collect();
            let former = server.requests().len();
            let error = model(name, path).call(request).await.unwrap_err();
            match word {
                Some(word) => {
                    assert_eq!(error.kind(), ErrorKind::Config, "{name}: {error}");
                    assert!(error.text().contains(word), "{error}");
                    assert_eq!(server.requests().len(), former, "{name}");
                }
                None => assert_eq!(error.kind(), ErrorKind::Auth, "{name}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn blocked_prompt_is_a_refusal() {
    let (_, server) = Double::start(check, []).await;
    let model = current(&server).key(KEY);
    let error = model
        .call(ModelRequest::new("forbidden words"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

/// Returns whether the `Debug` text of a model has the headers of each kind of key.
fn headers(model: &dyn std::fmt::Debug) -> (bool, bool) {
    let text = format!("{model:?}");
    assert!(!text.contains("k-1234"), "{text}");
    (text.contains("api-key"), text.contains("authorization"))
}

#[test]
fn address_of_azure_moves_the_key_into_its_header() {
    let key = "k-1234567890";
    let azure = (true, false);
    let bearer = (false, true);
    let chat = || OpenAi::new("dep", key);
    assert_eq!(headers(&chat()), bearer);
    assert_eq!(headers(&chat().base_url(HOST)), azure);
    assert_eq!(headers(&OpenAi::compatible(HOST, "dep").key(key)), azure);
    let moved_back = chat().base_url(HOST).base_url("http://127.0.0.1:1/v1");
    assert_eq!(headers(&moved_back), bearer);
    assert_eq!(headers(&chat().bearer(key).base_url(HOST)), bearer);
    assert_eq!(headers(&chat().base_url(HOST).bearer(key)), bearer);
    let set_by_hand = chat().dialect(Dialect::compatible()).base_url(HOST);
    assert_eq!(headers(&set_by_hand), bearer);
    let with_own_header = chat().key_header("x-key").base_url(HOST);
    assert_eq!(headers(&with_own_header), (false, false));

    let responses = || OpenAiResponses::new("dep", key);
    assert_eq!(headers(&responses()), bearer);
    assert_eq!(headers(&responses().base_url(HOST)), azure);
    assert_eq!(headers(&responses().bearer(key).base_url(HOST)), bearer);
}
