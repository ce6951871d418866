//! Context windows that are set by hand, or that a server reports.

use agentcore::providers::openai::Dialect;
use agentcore::providers::{Anthropic, Ollama, OpenAi};
use agentcore::testing::{FaultServer, Reply};
use agentcore::{ErrorKind, Model, ModelRequest};
use serde_json::{Value, json};

async fn telling(replies: impl IntoIterator<Item = (u16, Value)>) -> FaultServer {
    let server = FaultServer::start().await.unwrap();
    for (status, body) in replies {
        server.reply(Reply::json(status, body.to_string()));
    }
    server
}

fn asked(server: &FaultServer) -> Vec<String> {
    let requests = server.requests();
    let lines = requests
        .iter()
        .map(|asked| format!("{} {}", asked.method, asked.path));
    lines.collect()
}

fn compatible(server: &FaultServer) -> OpenAi {
    OpenAi::compatible(format!("{}/v1", server.url()), "m").key("secret-key-1")
}

fn ollama(server: &FaultServer) -> Ollama {
    Ollama::new("m").base_url(server.url())
}

#[tokio::test]
async fn context_window_is_set_and_not_sent() {
    let server = FaultServer::start().await.unwrap();
    server.openai_text("ok");
    let model = compatible(&server).context_window(4_096);
    assert_eq!(model.profile().context_window, 4_096);
    assert_eq!(
        model.profile().max_output_tokens,
        4_096,
        "no answer is longer"
    );
    model.call(ModelRequest::new("Hi")).await.unwrap();
    let body = server.requests()[0].json();
    assert_eq!(body.get("max_tokens"), None);
    let fields: Vec<_> = body.as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["messages", "model", "stream", "stream_options"]);
    let anthropic = Anthropic::new("claude-sonnet-4-5", "key").context_window(50_000);
    assert_eq!(anthropic.profile().context_window, 50_000);
    let ollama = Ollama::new("m").context_window(16_384);
    assert_eq!(ollama.profile().context_window, 16_384);
}

#[tokio::test]
async fn llama_cpp_window_is_read_from_props() {
    let props = json!({"default_generation_settings": {"n_ctx": 4_096}, "total_slots": 4});
    let server = telling([(200, props)]).await;
    assert_eq!(
        compatible(&server).read_context_window().await.unwrap(),
        Some(4_096)
    );
    assert_eq!(asked(&server), ["GET /props"]);
    let key = server.requests()[0]
        .header("authorization")
        .map(str::to_owned);
    assert_eq!(key.as_deref(), Some("Bearer secret-key-1"));
}

#[tokio::test]
async fn vllm_window_is_read_from_the_list_of_models() {
    let models = json!({"data": [
        {"id": "other", "max_model_len": 1_024},
        {"id": "m", "max_model_len": 32_768, "meta": {"n_ctx_train": 131_072}},
    ]});
    let server = telling([(404, json!({})), (200, models)]).await;
    assert_eq!(
        compatible(&server).read_context_window().await.unwrap(),
        Some(32_768)
    );
    assert_eq!(asked(&server), ["GET /props", "GET /v1/models"]);
}

#[tokio::test]
async fn training_context_size_is_not_taken_as_the_window() {
    let models = json!({"data": [{"id": "m", "meta": {"n_ctx_train": 131_072}}]});
    let server = telling([(501, json!({})), (200, models)]).await;
    assert_eq!(
        compatible(&server).read_context_window().await.unwrap(),
        None
    );
}

#[tokio::test]
async fn each_local_server_is_asked_where_it_reports_its_window() {
    let props = || {
        (
            200,
            json!({"default_generation_settings": {"n_ctx": 4_096}}),
        )
    };
    let vllm = || {
        let own = json!({"id": "m", "max_model_len": 32_768});
        (200, json!({"data": [own]}))
    };
    let missing = || (404, json!({}));
    let lm_studio = |own: Value| {
        let other = json!({"id": "other", "loaded_context_length": 1_024});
        (200, json!({"object": "list", "data": [other, own]}))
    };
    let loaded = json!({"id": "m", "state": "loaded", "max_context_length": 131_072,
        "loaded_context_length": 8_192});
    // LM Studio loads these for the request; their window is then at most the default one.
    let small = json!({"id": "m", "state": "not-loaded", "max_context_length": 16_384});
    let large = json!({"id": "m", "state": "not-loaded", "max_context_length": 1_000_000});
    for (dialect, replies, window, paths) in [
        (
            Dialect::llama_cpp(),
            vec![props()],
            Some(4_096),
            &["/props"][..],
        ),
        (Dialect::llama_cpp(), vec![missing()], None, &["/props"]),
        (Dialect::vllm(), vec![vllm()], Some(32_768), &["/v1/models"]),
        (Dialect::vllm(), vec![missing()], None, &["/v1/models"]),
        (
            Dialect::lm_studio(),
            vec![lm_studio(loaded.clone())],
            Some(8_192),
            &["/api/v0/models"],
        ),
        (
            Dialect::lm_studio(),
            vec![lm_studio(small)],
            Some(16_384),
            &["/api/v0/models"],
        ),
        (
            Dialect::lm_studio(),
            vec![lm_studio(large)],
            Some(128_000),
            &["/api/v0/models"],
        ),
        (
            Dialect::lm_studio(),
            vec![lm_studio(
                json!({"id": "m/x", "loaded_context_length": 8_192}),
            )],
            None,
            &["/api/v0/models"],
        ),
        (
            Dialect::compatible(),
            vec![missing(), missing(), lm_studio(loaded)],
            Some(8_192),
            &["/props", "/v1/models", "/api/v0/models"],
        ),
        (Dialect::mistral(), vec![], None, &[]),
    ] {
        let server = telling(replies).await;
        let model = compatible(&server).dialect(dialect);
        let read = model.read_context_window().await.unwrap();
        assert_eq!(read, window, "{dialect:?}");
        let requests = server.requests();
        let asked: Vec<_> = requests.iter().map(|asked| &*asked.path).collect();
        assert_eq!(asked, paths, "{dialect:?}");
        assert!(requests.iter().all(|asked| asked.method == "GET"));
    }
}

#[tokio::test]
async fn odd_list_of_models_leaves_the_window_unknown() {
    for answer in [
        json!({"data": []}),
        json!({"data": {"id": "m"}}),
        json!({"data": [{"id": "m"}, "m", 1, null]}),
        json!({"data": [{"id": "m", "loaded_context_length": 0, "max_context_length": -1,
            "max_model_len": 0}]}),
        json!({"data": [{"id": "m", "loaded_context_length": u64::MAX,
            "max_context_length": "4096", "max_model_len": 1e300}]}),
        json!({"error": "Unexpected endpoint or method."}),
        json!([{"id": "m", "loaded_context_length": 8_192, "max_model_len": 8_192}]),
        json!("x".repeat(8_000_000)),
    ] {
        for dialect in [Dialect::vllm(), Dialect::lm_studio()] {
            let server = telling([(200, answer.clone())]).await;
            let model = compatible(&server).dialect(dialect);
            assert_eq!(model.read_context_window().await.unwrap(), None);
        }
    }
}

#[tokio::test]
async fn openai_server_is_not_queried_for_the_window() {
    let model = OpenAi::new("gpt-4o", "key");
    assert_eq!(model.read_context_window().await.unwrap(), None);
}

#[tokio::test]
async fn ollama_window_of_a_loaded_model_is_read() {
    let loaded = json!({"models": [
        {"name": "other:latest", "context_length": 1_024},
        {"name": "m:latest", "model": "m:latest", "context_length": 8_192},
    ]});
    let server = telling([(200, loaded)]).await;
    assert_eq!(
        ollama(&server).read_context_window().await.unwrap(),
        Some(8_192)
    );
    assert_eq!(asked(&server), ["GET /api/ps"]);
}

#[tokio::test]
async fn ollama_window_of_an_unloaded_model_is_computed() {
    let info = json!({"llama.context_length": 131_072, "llama.block_count": 32});
    for (parameters, own, window) in [
        (
            json!("stop \"x\"\nnum_ctx                        16384"),
            None,
            16_384,
        ),
        (json!("num_ctx 999999"), None, 131_072),
        (json!(""), None, 4_096),
        (Value::Null, Some(65_536), 65_536),
        (json!("num_ctx 2048"), Some(262_144), 131_072),
    ] {
        let show = json!({"model_info": info, "parameters": parameters});
        let mut replies = vec![(200, show)];
        if own.is_none() {
            replies.insert(0, (200, json!({"models": []})));
        }
        let server = telling(replies).await;
        let mut model = ollama(&server);
        if let Some(tokens) = own {
            model = model.num_ctx(tokens);
        }
        assert_eq!(model.read_context_window().await.unwrap(), Some(window));
        let last = server.requests().pop().unwrap();
        assert_eq!((&*last.method, &*last.path), ("POST", "/api/show"));
        assert_eq!(last.json(), json!({"model": "m"}));
    }
}

#[tokio::test]
async fn unusable_server_reply_leaves_the_window_unknown() {
    for answer in [
        json!({"default_generation_settings": {"n_ctx": 0}}),
        json!({"default_generation_settings": {"n_ctx": -1}}),
        json!({"default_generation_settings": {"n_ctx": 1e300}}),
        json!({"default_generation_settings": {"n_ctx": u64::MAX}}),
        json!({"default_generation_settings": {"n_ctx": "4096"}}),
        json!({"default_generation_settings": []}),
        json!([1]),
        json!("x".repeat(8_000_000)),
    ] {
        let server = telling([(200, answer)]).await;
        server.fallback(Reply::json(200, "{not json"));
        assert_eq!(
            compatible(&server).read_context_window().await.unwrap(),
            None
        );
        assert_eq!(ollama(&server).read_context_window().await.unwrap(), None);
    }

    let server = FaultServer::start().await.unwrap();
    let deep = "[".repeat(100_000);
    server.fallback(Reply::json(200, deep));
    assert_eq!(
        compatible(&server).read_context_window().await.unwrap(),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn server_that_never_answers_is_a_timeout() {
    let server = FaultServer::start().await.unwrap();
    server.fallback(Reply::new(200).send("{").stall());
    let error = compatible(&server).read_context_window().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn rejected_key_or_unreachable_server_is_an_error() {
    let refusal = json!({"error": {"message": "wrong key secret-key-1"}});
    let server = telling([(401, refusal)]).await;
    let error = compatible(&server).read_context_window().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth);
    assert!(
        !format!("{error} {error:?}").contains("secret-key-1"),
        "{error:?}"
    );
    let nobody = OpenAi::compatible("http://127.0.0.1:1/v1", "m");
    let error = nobody.read_context_window().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connect);
}

#[tokio::test(start_paused = true)]
async fn server_that_does_not_report_its_window_in_time_is_named_with_the_limit() {
    let server = FaultServer::start().await.unwrap();
    server.reply(Reply::raw().stall());
    let error = compatible(&server).read_context_window().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.text().contains("did not reply within 10s"), "{error}");
}
