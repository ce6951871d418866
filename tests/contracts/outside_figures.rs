//! Figures of callers, servers and files at their largest: no sum of them overflows.

use std::time::Duration;

use agentcore::agent::RetryPolicy;
use agentcore::message::TokenCounter;
use agentcore::model::{ModelProfile, Prices, StopReason, SystemPrompt};
use agentcore::testing::{ScriptedModel, Step};
use agentcore::{AgentBuilder, Error, ErrorKind, ExitReason, FuncTool, ModelRequest, Usage};
use serde_json::{Value, json};

use crate::kit::{any_object, echo};

struct Endless;

impl TokenCounter for Endless {
    fn count_text(&self, _: &str) -> u64 {
        u64::MAX
    }
}

fn prices(dollars: f64) -> ModelProfile {
    ModelProfile::default().with_prices(Prices::new(dollars, dollars))
}

#[test]
fn token_count_of_a_request_saturates() {
    let mut request = ModelRequest::new("hi");
    request.system = SystemPrompt::from("Be brief.");
    assert_eq!(request.count_tokens(&Endless), u64::MAX);
}

#[tokio::test]
async fn token_counter_that_returns_the_maximum_overflows_nothing() {
    let profile = prices(1.0);
    let model = || {
        ScriptedModel::new()
            .with_profile(profile)
            .call("echo", json!({"text": "a"}))
            .say("done")
    };

    let agent = |model| {
        AgentBuilder::new(model)
            .tool(echo())
            .system_prompt("Be brief.")
    };

    let free = agent(model()).token_counter(Endless).build().unwrap();
    assert_eq!(free.run("hi").await.unwrap().text, "done");
    let limits: [fn(AgentBuilder) -> AgentBuilder; 4] = [
        |agent| agent.max_total_tokens(u64::MAX),
        |agent| agent.max_total_tokens(10),
        |agent| agent.max_budget_usd(1.0),
        |agent| agent.max_budget_usd(f64::MAX),
    ];
    for limit in limits {
        let model = model();
        let agent = limit(agent(model.clone()).token_counter(Endless));
        if let Err(error) = agent.build().unwrap().run("hi").await {
            assert!(!error.to_string().contains("panicked"), "{error}");
        }

        // The limit decides how many requests there are.
        drop(model.verify());
    }
}

#[tokio::test]
async fn usage_of_the_maximum_saturates_and_exhausts_the_budget() {
    let huge = Usage::new(u64::MAX, u64::MAX);
    let model = ScriptedModel::new()
        .with_profile(prices(1e300))
        .call("echo", json!({"text": "a"}))
        .with_usage(huge)
        .say("done");
    let agent = AgentBuilder::new(model.clone())
        .tool(echo())
        .build()
        .unwrap();
    let output = agent.run("hi").await.unwrap();
    assert_eq!(output.usage.total_tokens(), u64::MAX);
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "a"}))
        .with_usage(huge);
    let agent = AgentBuilder::new(model)
        .tool(echo())
        .max_total_tokens(1_000_000);
    let error = agent.build().unwrap().run("hi").await;
    let exit = error.map_or_else(|error| error.partial().unwrap().end, |output| output.end);
    assert_ne!(exit, ExitReason::EndTurn);
}

#[tokio::test]
async fn price_that_is_not_finite_or_negative_counts_as_unknown() {
    for price in [f64::NAN, f64::INFINITY, -1.0] {
        let model = ScriptedModel::new().with_profile(prices(price));
        let error = AgentBuilder::new(model)
            .max_budget_usd(1.0)
            .build()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let model = ScriptedModel::new().with_profile(prices(price)).say("done");
        let agent = AgentBuilder::new(model)
            .max_budget_usd(1.0)
            .allow_unpriced();
        let output = agent.build().unwrap().run("hi").await.unwrap();
        assert_eq!((&*output.text, output.cost), ("done", None), "{price}");
    }
}

/// Runs an agent that `set` changes: a request fails once, a tool is called, and the model answers.
async fn play(set: impl FnOnce(AgentBuilder) -> AgentBuilder) {
    let model = ScriptedModel::new()
        .fail(Error::new(ErrorKind::Overloaded, "busy"))
        .call("act", json!({}))
        .say("done");
    let tool = FuncTool::new("act", "Acts", any_object(), |_cx, _: Value| async { "ok" });
    let mut retry = RetryPolicy::default().with_max_retries(u32::MAX);
    retry.base = Duration::ZERO;
    let agent = set(AgentBuilder::new(model.clone()).retry(retry).tool(tool));
    let run = agent.build().unwrap().run("hi");

    // The duration decides the result, so only the end of the run is checked.
    let ended = tokio::time::timeout(Duration::from_secs(60 * 60), run.finish()).await;
    drop(ended.expect("the run ends"));
    drop(model.verify());
}

#[tokio::test(start_paused = true)]
async fn duration_settings_accept_zero_and_the_maximum() {
    for time in [Duration::MAX, Duration::ZERO] {
        play(|agent| agent.approval_expiry(time)).await;
        play(|agent| agent.ask_timeout(time)).await;
        play(|agent| agent.tool_timeout(time)).await;
        play(|agent| agent.hook_timeout(time)).await;
        play(|agent| agent.max_duration(time)).await;
        play(|agent| agent.store(agentcore::ThreadStore::with_ttl(time))).await;
        play(|agent| {
            let mut retry = RetryPolicy::default();
            (retry.base, retry.max_wait) = (Duration::ZERO, time);
            agent.retry(retry)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn retry_wait_of_the_maximum_ends_at_the_time_limit() {
    let model = ScriptedModel::new().fail(Error::new(ErrorKind::Overloaded, "busy"));
    let mut retry = RetryPolicy::default();
    (retry.base, retry.max_wait) = (Duration::MAX, Duration::MAX);
    let agent = AgentBuilder::new(model)
        .retry(retry)
        .max_duration(Duration::from_secs(1));
    let output = agent.build().unwrap().run("hi").await.unwrap();
    assert_eq!(output.end, ExitReason::MaxDuration);
}

#[tokio::test]
async fn long_refusal_is_cut_in_errors() {
    let step = Step::text("No, no. ".repeat(10_000)).stop(StopReason::Refusal);
    let model = ScriptedModel::new().step(step);
    let agent = AgentBuilder::new(model).build().unwrap();
    let (shown, _) = crate::kit::watch(agent.run("hi")).await;
    let result = shown.last().unwrap().as_result().unwrap();
    let lengths: Vec<_> = result.errors.iter().map(String::len).collect();
    assert!(lengths.iter().all(|len| *len < 1_100), "{lengths:?}");
}

#[cfg(feature = "http")]
mod servers {
    use agentcore::providers::{Anthropic, anthropic, gemini, ollama, openai, responses};
    use agentcore::testing::{FaultServer, Reply};
    use agentcore::{Model, ModelEvent};
    use futures::StreamExt;
    use futures::executor::block_on;
    use futures::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_timeout_accepts_the_maximum() {
        let server = FaultServer::start().await.unwrap();
        let body = include_str!("../data/anthropic/text.sse");
        let reply = Reply::sse([body]).every(20);
        server.reply(reply);
        let model = Anthropic::new("m", "key")
            .base_url(server.url())
            .idle_timeout(Duration::MAX)
            .connect_timeout(Duration::MAX);
        let response = Model::call(&model, ModelRequest::new("hi")).await;
        response.unwrap();
    }

    #[tokio::test]
    async fn long_request_id_is_cut() {
        let server = FaultServer::start().await.unwrap();
        server.reply(Reply::json(400, "{}").header("request-id", "r".repeat(5_000)));
        let model = Anthropic::new("m", "key").base_url(server.url());
        let error = Model::call(&model, ModelRequest::new("hi"))
            .await
            .unwrap_err();
        let cut = format!("{}…", "r".repeat(200));
        assert_eq!(error.request_id(), Some(&*cut));
    }

    fn usage(figure: &str, events: Vec<agentcore::Result<ModelEvent>>) -> Usage {
        let events: agentcore::Result<Vec<_>> = events.into_iter().collect();
        let events = events.unwrap_or_else(|error| panic!("{figure}: {error}"));
        let usage = events.into_iter().filter_map(|event| match event {
            ModelEvent::Usage(usage) => Some(usage),
            _ => None,
        });
        // A response without counts has no usage event.
        usage.last().unwrap_or_default()
    }

    #[test]
    fn usage_figures_outside_the_range_decode() {
        for (figure, tokens) in [
            ("18446744073709551615", u64::MAX),
            ("18446744073709551616", u64::MAX),
            ("1e300", u64::MAX),
            ("-1", 0),
            ("1.5", 1),
        ] {
            let message_start = format!(
                "data: {{\"type\":\"message_start\",\"message\":{{\"id\":\"m\",\
                 \"usage\":{{\"input_tokens\":{figure},\"output_tokens\":{figure},\
                 \"cache_read_input_tokens\":{figure}}}}}}}\n\n\
                 data: {{\"type\":\"message_stop\"}}\n\n"
            );
            let events = anthropic::decode(stream::iter([Ok(message_start.into())]));
            let counted = usage(figure, block_on(events.collect()));
            assert_eq!(counted.input_tokens, tokens, "{figure}");
            assert_eq!(counted.total_tokens(), tokens.saturating_mul(3), "{figure}");

            let chunks = format!(
                "data: {{\"id\":\"r\",\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n\
                 data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{figure},\
                 \"completion_tokens\":{figure},\
                 \"prompt_tokens_details\":{{\"cached_tokens\":{figure},\"cache_write_tokens\":1}},\
                 \"completion_tokens_details\":{{\"reasoning_tokens\":{figure}}}}}}}\n\n\
                 data: [DONE]\n\n"
            );
            let events = openai::decode(stream::iter([Ok(chunks.into())]));
            let counted = usage(figure, block_on(events.collect()));
            assert_eq!(counted.input_tokens, 0, "{figure}");
            assert_eq!(counted.cache_read_tokens, tokens, "{figure}");
            assert_eq!(counted.reasoning_tokens, tokens, "{figure}");

            let line = format!(
                "{{\"model\":\"m\",\"message\":{{\"content\":\"a\"}},\"done\":true,\
                 \"prompt_eval_count\":{figure},\"eval_count\":{figure}}}\n"
            );
            let events = ollama::decode(stream::iter([Ok(line.into())]));
            let counted = usage(figure, block_on(events.collect()));
            assert_eq!(counted.input_tokens, tokens, "{figure}");

            let response = format!(
                "event: response.completed\ndata: {{\"response\":{{\"status\":\"completed\",\
                 \"usage\":{{\"input_tokens\":{figure},\"output_tokens\":{figure}}}}}}}\n\n"
            );
            let created = "event: response.created\ndata: {\"response\":{\"id\":\"r\"}}\n\n";
            let body = created.to_owned() + &response;
            let events = responses::decode(stream::iter([Ok(body.into())]));
            let counted = usage(figure, block_on(events.collect()));
            assert_eq!(counted.output_tokens, tokens, "{figure}");

            let chunk = format!(
                "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"a\"}}]}},\
                 \"finishReason\":\"STOP\"}}],\"usageMetadata\":{{\"promptTokenCount\":{figure},\
                 \"candidatesTokenCount\":{figure},\"thoughtsTokenCount\":{figure}}}}}\n\n"
            );
            let events = gemini::decode(stream::iter([Ok(chunk.into())]));
            let counted = usage(figure, block_on(events.collect()));
            assert_eq!(counted.output_tokens, tokens.saturating_mul(2), "{figure}");
        }
    }
}

#[cfg(feature = "jsonl")]
mod logs {
    use agentcore::SessionStore;
    use agentcore::session::JsonlStore;

    use super::*;

    /// Sets figures in all records of a log, and updates the checksums.
    fn set(folder: &std::path::Path, figures: &[(&str, u64)]) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_none_or(|extension| extension != "jsonl")
            {
                continue;
            }

            let log = std::fs::read_to_string(&path).unwrap();
            let Some(last) = log.lines().last() else {
                continue;
            };

            let mut line = last.to_owned();
            for (name, figure) in figures {
                let mark = format!("\"{name}\":");
                let start = line.find(&mark).unwrap() + mark.len();
                let digits = line[start..].bytes().take_while(u8::is_ascii_digit).count();
                line.replace_range(start..start + digits, &figure.to_string());
            }

            let body = line.find(',').unwrap() + 1;
            let crc = format!("{:08x}", crc32fast::hash(&line.as_bytes()[body..]));
            line.replace_range(8..16, &crc);
            let mut lines: Vec<_> = log.lines().map(str::to_owned).collect();
            lines.pop();
            lines.push(line);
            std::fs::write(path, lines.join("\n") + "\n").unwrap();
        }
    }

    #[tokio::test]
    async fn log_with_maximum_sequence_numbers_loads_without_panic() {
        for figures in [
            [("seq", u64::MAX), ("at", 1)],
            [("seq", u64::MAX - 1), ("at", u64::MAX)],
            [("token", u64::MAX), ("at", u64::MAX)],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let model = ScriptedModel::new().say("Hello.");
            let store = JsonlStore::open(folder.path()).unwrap();
            let agent = AgentBuilder::new(model).store(store).build().unwrap();
            agent.session("s").run("hi").await.unwrap();
            drop(agent);
            set(folder.path(), &figures);
            let store = JsonlStore::open(folder.path()).unwrap();
            assert_eq!(store.list().await.unwrap().len(), 1);
            let session = store.load("s").await.unwrap().unwrap();
            assert!(!session.state.messages.is_empty());
            let model = ScriptedModel::new().say("Hello again.");
            let agent = AgentBuilder::new(model.clone())
                .store(store)
                .build()
                .unwrap();
            let output = agent.session("s").run("hi").await;
            if figures[0] == ("seq", u64::MAX) {
                assert_eq!(output.unwrap_err().kind(), ErrorKind::Corrupt);
            }
            drop(model.verify());
        }
    }
}

#[test]
fn usage_details_of_any_shape_are_read() {
    for odd in [
        json!(null),
        json!(7),
        json!("x"),
        json!([1]),
        json!({"thinking_tokens": -1}),
    ] {
        let wire = json!({
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_creation": odd,
            "output_tokens_details": odd,
            "server_tool_use": odd,
        });
        let usage: Usage = serde_json::from_value(wire).unwrap();
        assert_eq!(usage, Usage::new(1, 2), "{odd}");
    }
}

#[test]
fn usage_details_round_trip_and_are_absent_when_empty() {
    let plain = serde_json::to_value(Usage::new(1, 2).with_cache(3, 4)).unwrap();
    let expected = json!({
        "input_tokens": 1,
        "output_tokens": 2,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 4,
    });
    assert_eq!(plain, expected);

    let wire = json!({
        "input_tokens": 1,
        "output_tokens": 20,
        "cache_read_input_tokens": 3,
        "cache_creation_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 3},
        "output_tokens_details": {"thinking_tokens": 15},
        "server_tool_use": {"web_search_requests": 2},
    });
    let usage: Usage = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(usage.cache_write_long_tokens, 3);
    assert_eq!(usage.reasoning_tokens, 15);
    assert_eq!(usage.server_tool_requests, 2);
    assert_eq!(serde_json::to_value(usage).unwrap(), wire);
    assert_eq!((usage + usage).reasoning_tokens, 30);
}
