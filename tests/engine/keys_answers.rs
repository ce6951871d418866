//! Models that repeat a key of this process: answers contain none, wherever their pieces are cut.

use agentcore::message::{Annotations, Citation, Media, ProviderBlock};
use agentcore::model::{ModelEvent, ResponseHead, StopReason};
use agentcore::sdk::SdkMessage;
use agentcore::testing::{ScriptedModel, Step};
use agentcore::{AgentBuilder, Error, ErrorKind, Model, Part, Secret, ToolCall};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kit::keys::assert_no_leak;
use crate::kit::{Log, logged, stored, watch};

/// The messages, the output and the stored session of a run.
struct Seen {
    all: String,
    /// The emitted pieces of text, thinking and arguments, joined.
    shown: String,
    text: String,
    error: Option<Error>,
}

async fn run(model: impl Model, log: &Log) -> Seen {
    let agent = AgentBuilder::new(model)
        .include_partial_messages(true)
        .retry(agentcore::agent::RetryPolicy::never())
        .tool(logged("tool", log))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("go")).await;
    let mut shown = String::new();
    let mut all = String::new();
    for message in &messages {
        let value = serde_json::to_value(message).unwrap();
        if matches!(message, SdkMessage::Partial(_)) {
            for kind in ["text", "thinking", "partial_json"] {
                shown.push_str(value["event"]["delta"][kind].as_str().unwrap_or_default());
            }
        }

        all.push_str(&value.to_string());
    }

    let history = stored(&agent, "s").await;
    history.validate().unwrap();
    all.push_str(&serde_json::to_string(&history).unwrap());
    all.push_str(&format!("{history:?}"));
    let (text, error) = match output {
        Ok(output) => {
            all.push_str(&format!("{output:?}"));
            (output.text, None)
        }
        Err(error) => {
            all.push_str(&format!("{error:?}{:?}", error.partial()));
            (String::new(), Some(error))
        }
    };

    Seen {
        all,
        shown,
        text,
        error,
    }
}

async fn run_events(events: Vec<ModelEvent>) -> Seen {
    run(ScriptedModel::new().step(events), &Log::default()).await
}

fn text(piece: &str) -> ModelEvent {
    ModelEvent::Text(piece.to_owned())
}

fn thinking(piece: &str) -> ModelEvent {
    ModelEvent::Thinking(piece.to_owned())
}

fn block(provider: &str, raw: &serde_json::Value) -> ProviderBlock {
    ProviderBlock::new(provider, RawValue::from_string(raw.to_string()).unwrap())
}

#[tokio::test]
async fn key_split_at_any_byte_of_a_text_is_redacted() {
    let key = "k-text-0123456789-abcdefgh";
    let _known = Secret::new(key);
    let answer = format!("It is {key}, really.");
    for cut in 0..=answer.len() {
        let (a, b) = answer.split_at(cut);
        let seen = run_events(vec![text(a), text(b)]).await;
        assert_no_leak(&seen.all, key, &format!("cut at {cut}"));
        assert_no_leak(&seen.shown, key, &format!("shown, cut at {cut}"));
        assert!(seen.text.ends_with("[redacted], really."), "{}", seen.text);
        assert_eq!(seen.shown, seen.text);
    }

    let pieces = answer.chars().map(|c| text(&c.to_string())).collect();
    let seen = run_events(pieces).await;
    assert_no_leak(&seen.all, key, "single characters");
    assert_no_leak(&seen.shown, key, "single characters");
}

#[tokio::test]
async fn text_that_starts_like_a_key_is_unchanged() {
    let key = "k-begin-0123456789";
    let _known = Secret::new(key);
    for tail in ["", " and more", "k-begin-01", "k-begin-0123456780"] {
        let answer = format!("k-begin-01 k-begin-0{tail}");
        for cut in 0..=answer.len() {
            let (a, b) = answer.split_at(cut);
            let seen = run_events(vec![text(a), text(b)]).await;
            assert_eq!(seen.text, answer);
            assert_eq!(seen.shown, answer);
        }
    }
}

#[tokio::test]
async fn key_split_by_other_events_is_redacted() {
    let key = "k-between-0123456789";
    let _known = Secret::new(key);
    let (a, b) = key.split_at(9);
    let seen = run_events(vec![text(a), thinking("hm"), text(b)]).await;
    assert_no_leak(&seen.all, key, "around thinking");
}

#[tokio::test]
async fn key_that_continues_in_the_next_block_is_not_shown_whole() {
    let key = "k-blocks-0123456789";
    let _known = Secret::new(key);
    for cut in 1..key.len() {
        let (a, b) = key.split_at(cut);
        let seen = run_events(vec![text(a), ModelEvent::PartEnd, text(b), text(".")]).await;
        assert_eq!(seen.text, format!("{a}[redacted]."), "cut at {cut}");
        assert_eq!(seen.shown, seen.text);
        assert!(!seen.all.contains(key), "{}", seen.all);
    }
    let seen = run_events(vec![
        text("k-blocks"),
        ModelEvent::PartEnd,
        text(" of text"),
    ])
    .await;
    assert_eq!(seen.text, "k-blocks of text");
}

#[tokio::test]
async fn key_prefix_at_the_end_of_a_broken_stream_is_redacted() {
    let key = "k-broken-0123456789";
    let _known = Secret::new(key);
    for end in [Some(Err(Error::new(ErrorKind::Server, "broke"))), None] {
        let mut events = vec![Ok(text("so ")), Ok(text(&key[..key.len() - 1]))];
        events.extend(end);
        let seen = run(ScriptedModel::new().events(events), &Log::default()).await;
        assert!(seen.error.is_some());
        assert_no_leak(&seen.all, key, "broken");
        assert_no_leak(&seen.shown, key, "broken");
    }

    let cut = Step::from(vec![text(&key[..key.len() - 1])]).stop(StopReason::MaxTokens);
    let seen = run(ScriptedModel::new().step(cut), &Log::default()).await;
    assert_no_leak(&seen.all, key, "cut by the output limit");
}

#[tokio::test]
async fn restart_inside_a_key_discards_the_held_prefix() {
    let key = "k-restart-0123456789";
    let _known = Secret::new(key);
    let (a, b) = key.split_at(10);
    let seen = run_events(vec![text(a), ModelEvent::Restart, text(b)]).await;
    assert_eq!(seen.text, b);
}

#[tokio::test]
async fn key_in_arguments_reaches_neither_the_tool_nor_the_session() {
    let key = "k-args-01234\"56789/abc";
    let _known = Secret::new(key);
    let plain = json!({"a": key, "deep": [{key: 1}]}).to_string();
    let spelled = key
        .chars()
        .map(|c| format!("\\u{:04x}", c as u32))
        .collect::<String>();
    let raws = [
        plain.clone(),
        plain.replace('/', "\\/"),
        format!(r#"{{"a":"{spelled}"}}"#),
    ];
    for raw in raws {
        for cut in (0..raw.len()).filter(|cut| raw.is_char_boundary(*cut)) {
            let delta = |json: &str| ModelEvent::ToolCallDelta {
                index: 0,
                json: json.to_owned(),
            };

            let call = ToolCall::from_raw("c1", "tool", raw.clone());
            let start = ModelEvent::ToolCallStart {
                index: 0,
                id: "c1".into(),
                name: "tool".into(),
            };

            let events = vec![
                start,
                delta(&raw[..cut]),
                delta(&raw[cut..]),
                ModelEvent::ToolCall(call),
            ];
            let log = Log::default();
            let seen = run(ScriptedModel::new().step(events).say("ok"), &log).await;
            assert!(seen.error.is_none());
            let called = log.take().join("\n");
            assert!(called.contains("[redacted]"), "{called}");
            for what in [&called, &seen.all, &seen.shown] {
                assert_no_leak(what, key, &format!("{raw}, cut at {cut}"));
            }
        }
    }
}

#[tokio::test]
async fn key_in_arguments_of_single_characters_is_redacted() {
    let key = "k-chars-Hw27RbKdu5Xq9eTz40LmGs";
    let _known = Secret::new(key);
    let escape = |c: char| match c {
        '-' => "\\u002d".to_owned(),
        c => c.to_string(),
    };
    let plain: Vec<String> = key.chars().map(String::from).collect();
    for letters in [plain, key.chars().map(escape).collect()] {
        let raw = format!(r#"{{"a":"{}"}}"#, letters.concat());
        let delta = |json: &str| ModelEvent::ToolCallDelta {
            index: 0,
            json: json.to_owned(),
        };
        let parts = |c: char| [text(&c.to_string()), thinking(&c.to_string())];
        let mut events: Vec<_> = key.chars().flat_map(parts).collect();
        events.push(ModelEvent::ToolCallStart {
            index: 0,
            id: "c1".into(),
            name: "tool".into(),
        });
        events.push(delta(r#"{"a":""#));
        events.extend(letters.iter().map(|letter| delta(letter)));
        events.push(delta(r#""}"#));
        events.push(ModelEvent::ToolCall(ToolCall::from_raw(
            "c1",
            "tool",
            raw.clone(),
        )));
        let model = ScriptedModel::new().step(events).say("ok");
        let seen = run(model, &Log::default()).await;
        for what in [&seen.all, &seen.shown] {
            assert_no_leak(what, key, &raw);
            assert!(!what.contains("Hw27RbKdu5"), "{raw}: {what}");
        }
    }
}

#[tokio::test]
async fn arguments_nested_without_end_are_a_tool_error_while_a_key_is_known() {
    let _known = Secret::new("k-nested-0123456789");
    let nested = (0..200_000).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    let call = ToolCall::new("c1", "tool", json!({})).with_args(nested);
    let log = Log::default();
    let model = ScriptedModel::new()
        .step(vec![ModelEvent::ToolCall(call)])
        .say("ok");
    let seen = run(model, &log).await;
    assert!(seen.error.is_none(), "{:?}", seen.error);
    assert!(seen.all.contains("nested deeper"), "{:.2000}", seen.all);
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn arguments_held_back_without_end_are_too_large() {
    let _known = Secret::new("k-held-0123456789");
    let start = ModelEvent::ToolCallStart {
        index: 0,
        id: "c1".into(),
        name: "tool".into(),
    };
    let delta = |index| ModelEvent::ToolCallDelta {
        index,
        json: "\\u0041".repeat(170_000),
    };
    let of_one_call = std::iter::once(start).chain((0..70).map(|_| delta(0)));
    let of_no_call = (1..70).map(delta);
    for events in [Vec::from_iter(of_one_call), Vec::from_iter(of_no_call)] {
        let seen = run_events(events).await;
        let error = seen.error.unwrap();
        assert_eq!(error.kind(), ErrorKind::ResponseTooLarge, "{error}");
    }
}

#[tokio::test]
async fn text_that_starts_like_a_key_before_a_call_leaves_its_arguments_whole() {
    let _known = Secret::new("k-ahead-0123456789");
    let raw = r#"{"a":"\u0041"}"#;
    let events = vec![
        text("It begins with k-ahead-0"),
        ModelEvent::ToolCallStart {
            index: 0,
            id: "c1".into(),
            name: "tool".into(),
        },
        ModelEvent::ToolCallDelta {
            index: 0,
            json: raw.to_owned(),
        },
        ModelEvent::ToolCall(ToolCall::from_raw("c1", "tool", raw)),
    ];
    let model = ScriptedModel::new().step(events).say("ok");
    let seen = run(model, &Log::default()).await;
    assert_eq!(seen.shown, format!("It begins with {raw}k-ahead-0ok"));
}

#[tokio::test]
async fn key_in_unparsable_arguments_is_not_stored() {
    let key = "k-torn-0123456789";
    let _known = Secret::new(key);
    let call = ToolCall::from_raw("c1", "tool", format!(r#"{{"a":"{key}"#));
    let model = ScriptedModel::new()
        .step(Step::new().and_tool_call(call))
        .say("ok");
    let seen = run(model, &Log::default()).await;
    assert_no_leak(&seen.all, key, "torn");
}

#[tokio::test]
async fn key_in_unsigned_thinking_is_redacted() {
    let key = "k-think-0123456789";
    let _known = Secret::new(key);
    for field in ["reasoning_content", "reasoning", "thinking"] {
        for cut in 0..=key.len() {
            let part = Part::Thinking(block("openai", &json!({field: format!("use {key}!")})));
            let events = vec![
                thinking(&format!("use {}", &key[..cut])),
                thinking(&format!("{}!", &key[cut..])),
                ModelEvent::Part(part),
                text("ok"),
            ];
            let seen = run_events(events).await;
            assert!(seen.error.is_none());
            assert_no_leak(&seen.all, key, field);
            assert_no_leak(&seen.shown, key, field);
            assert!(seen.all.contains("use [redacted]!"), "{}", seen.all);
        }
    }
}

#[tokio::test]
async fn key_in_a_signed_block_fails_the_answer_and_nothing_is_stored() {
    let key = "k-signed-01234\"56789/";
    let _known = Secret::new(key);
    let spelled = key
        .chars()
        .map(|c| format!("\\u{:04x}", c as u32))
        .collect::<String>();
    let raw = format!(r#"{{"type":"thinking","thinking":"{spelled}","signature":"c2ln"}}"#);
    let parts = [
        Part::Thinking(block(
            "anthropic",
            &json!({"type": "thinking", "thinking": format!("use {key}"), "signature": "c2ln"}),
        )),
        Part::Thinking(ProviderBlock::new(
            "anthropic",
            RawValue::from_string(raw).unwrap(),
        )),
        Part::Thinking(block(
            "openai",
            &json!({"type": "reasoning", "summary": [{"text": key}], "encrypted_content": "gAAA"}),
        )),
        Part::Opaque(block(
            "anthropic",
            &json!({"type": "server_tool_use", "id": "x", "name": "web_search", "input": {"query": key}}),
        )),
    ];
    for part in parts {
        let events = vec![
            thinking("use "),
            thinking(key),
            ModelEvent::Part(part.clone()),
            text("ok"),
        ];
        let model = ScriptedModel::new().step(events).say("again");
        let agent = AgentBuilder::new(model.clone())
            .include_partial_messages(true)
            .build()
            .unwrap();
        let (messages, output) = watch(agent.session("s").run("go")).await;
        let error = output.unwrap_err();
        assert_eq!(
            format!("{:?}", error.kind()),
            "SecretInAnswer",
            "{part:?}: {error}"
        );
        assert!(!error.is_retryable());
        let all = serde_json::to_string(&messages).unwrap();
        assert_no_leak(
            &format!("{all}{error:?}{:?}", error.partial()),
            key,
            "signed",
        );
        let history = stored(&agent, "s").await;
        history.validate().unwrap();
        assert_no_leak(&serde_json::to_string(&history).unwrap(), key, "stored");
        assert_eq!(model.remaining(), 1, "it is not asked again");
        assert_eq!(agent.session("s").run("go on").await.unwrap().text, "again");
    }
}

#[tokio::test]
async fn key_in_a_signed_block_of_a_hook_fails_the_answer() {
    let key = "k-hook-signed-0123456789";
    let _known = Secret::new(key);
    let raw = json!({"type": "thinking", "thinking": key, "signature": "c2ln"});
    let signed = Part::Thinking(block("anthropic", &raw));
    let adds = agentcore::hook::wrap_model_call("adds", move |request, next| {
        let signed = signed.clone();
        async move {
            let mut response = next.run(request).await?;
            response.content.push(signed);
            Ok(response)
        }
    });

    let model = ScriptedModel::new().say("ok");
    let agent = AgentBuilder::new(model).hook(adds).build().unwrap();
    let error = agent.session("s").run("go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SecretInAnswer, "{error}");
    let history = serde_json::to_string(&stored(&agent, "s").await).unwrap();
    assert_no_leak(&history, key, "stored");
}

/// Asserts that an answer that ends in an error because of `key` is neither emitted nor stored.
async fn assert_not_kept(events: Vec<ModelEvent>, key: &str) {
    let model = ScriptedModel::new().step(events).say("again");
    let log = Log::default();
    let agent = AgentBuilder::new(model.clone())
        .include_partial_messages(true)
        .tool(logged("tool", &log))
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run("go")).await;
    let error = output.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SecretInAnswer, "{error}");
    let all = serde_json::to_string(&messages).unwrap();
    assert_no_leak(&format!("{all}{error:?}{:?}", error.partial()), key, "seen");
    let history = serde_json::to_string(&stored(&agent, "s").await).unwrap();
    assert_no_leak(&history, key, "stored");
    assert_eq!((log.len(), model.remaining()), (0, 1));
    assert_eq!(agent.session("s").run("go on").await.unwrap().text, "again");
}

#[tokio::test]
async fn secret_in_media_of_an_answer_is_redacted() {
    let key = "k-media-0123456789";
    let _known = Secret::new(key);
    let media = [
        Media::url(format!("https://example.com/{key}")),
        Media::file("gemini", format!("https://example.com/{key}")),
        Media::bytes("audio/wav", b"x").with_name(key),
    ];
    for media in media {
        let part = ModelEvent::Part(Part::Audio(media));
        let seen = run_events(vec![part, text("ok")]).await;
        assert_no_leak(&seen.all, key, "media");
        assert!(seen.all.contains("[redacted]"), "{}", seen.all);
    }
}

#[tokio::test]
async fn secret_in_fields_of_a_call_ends_the_answer() {
    let key = "k-extra-0123\"456789/";
    let _known = Secret::new(key);
    let fields = block("gemini", &json!({"thoughtSignature": key}));
    let call = ToolCall::new("c1", "tool", json!({})).with_extra(fields);
    assert_not_kept(vec![ModelEvent::ToolCall(call.clone())], key).await;
    assert_not_kept(vec![ModelEvent::Part(Part::ToolCall(call))], key).await;

    let fields = block("gemini", &json!({"thoughtSignature": "c2ln"}));
    let call = ToolCall::new("c1", "tool", json!({"a": key})).with_extra(fields);
    let model = ScriptedModel::new().step(vec![ModelEvent::ToolCall(call)]);
    let seen = run(model.say("ok"), &Log::default()).await;
    assert_eq!(seen.text, "ok");
    assert!(seen.all.contains("c2ln"), "{}", seen.all);
    assert_no_leak(&seen.all, key, "arguments next to fields");
}

#[tokio::test]
async fn secret_in_a_citation_is_redacted() {
    let key = "k-cite-0123456789";
    let _known = Secret::new(key);
    let citations = [
        Citation::new(format!("https://example.com/{key}")),
        Citation::new("u").with_title(key),
        Citation::new("u").with_cited_text(format!("it is {key}.")),
    ];
    let fields = block("openai", &json!({"phase": "final_answer"}));
    let annotations = Annotations::new(citations).with_block(fields);
    let part = ModelEvent::Part(Part::Annotations(annotations));
    let seen = run_events(vec![text("It is "), text(key), part, text("ok")]).await;
    assert_eq!(seen.text, "It is [redacted]ok");
    assert!(seen.all.contains("it is [redacted]."), "{}", seen.all);
    assert!(seen.all.contains("final_answer"), "{}", seen.all);
    assert_no_leak(&seen.all, key, "citations");
}

#[tokio::test]
async fn secret_in_annotations_block_ends_the_answer() {
    let key = "k-noted-0123\"456789/";
    let _known = Secret::new(key);
    let annotations = Annotations::default().with_block(block("gemini", &json!({"a": [key]})));
    let part = ModelEvent::Part(Part::Annotations(annotations));
    assert_not_kept(vec![text("ok"), part], key).await;
}

#[tokio::test]
async fn signed_thinking_without_a_key_is_unchanged() {
    let _known = Secret::new("k-clean-0123456789");
    let part = Part::Thinking(block(
        "anthropic",
        &json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
    ));
    let seen = run_events(vec![
        thinking("hm"),
        ModelEvent::Part(part.clone()),
        text("ok"),
    ])
    .await;
    assert!(seen.all.contains(r#"c2ln"#));
    assert_eq!(seen.text, "ok");
}

#[tokio::test]
async fn key_in_ids_and_stop_reason_of_an_answer_is_redacted() {
    let key = "k-ids-0123456789";
    let _known = Secret::new(key);
    let mut head = ResponseHead::new(format!("id-{key}"), format!("model-{key}"));
    head.request_id = Some(format!("req-{key}").into());
    let events = vec![
        ModelEvent::Start(Box::new(head)),
        text("ok"),
        ModelEvent::Stop {
            reason: Some(StopReason::Other(key.into())),
            sequence: Some(key.into()),
        },
    ];
    let seen = run_events(events).await;
    assert_no_leak(&seen.all, key, "ids");
    assert!(seen.all.contains("req-[redacted]"), "{}", seen.all);
}

#[tokio::test]
async fn random_answers_contain_no_key_at_any_split() {
    let mut random = fastrand::Rng::with_seed(11);
    for round in 0..60 {
        let length = random.usize(12..40);
        let keys: Vec<String> = (0..2)
            .map(|_| {
                (0..length)
                    .map(|_| *random.choice(b"abk-0").unwrap() as char)
                    .collect()
            })
            .collect();
        let _known: Vec<_> = keys.iter().cloned().map(Secret::new).collect();
        let mut answer = String::new();
        for _ in 0..6 {
            let key = random.choice(&keys).unwrap();
            let end = if random.bool() {
                key.len()
            } else {
                random.usize(..key.len())
            };

            answer.push_str(&key[..end]);
        }

        let mut rest = &*answer;
        let mut events = Vec::new();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(random.usize(1..=rest.len().min(9)));
            events.push(text(piece));
            rest = after;
        }

        let seen = run_events(events).await;
        for key in &keys {
            assert!(
                !seen.all.contains(key.as_str()),
                "round {round}: {key} in {}",
                seen.text
            );
            assert!(
                !seen.shown.contains(key.as_str()),
                "round {round}: {key} in {}",
                seen.shown
            );
        }
    }
}

/// Hooks may ask a model too, for example for a summary of the history.
#[tokio::test]
async fn calls_of_hooks_to_a_model_are_redacted() {
    let key = "k-inner-0123456789";
    let _known = Secret::new(key);
    let log = Log::default();
    let asked = log.clone();
    let inner = ScriptedModel::new().say(format!("It is {key}."));
    let asks = agentcore::hook::before_agent("asks", move |cx, state| {
        let (inner, asked) = (inner.clone(), asked.clone());
        async move {
            let model: std::sync::Arc<dyn Model> = std::sync::Arc::new(inner);
            let answer = cx
                .call_model(&model, agentcore::ModelRequest::new("title?"))
                .await?;
            asked.add(answer.text());
            Ok(state)
        }
    });

    let agent = AgentBuilder::new(ScriptedModel::new().say("ok"))
        .hook(asks)
        .build()
        .unwrap();
    agent.run("go").await.unwrap();
    assert_eq!(log.take(), ["It is [redacted]."]);
}

#[cfg(all(feature = "jsonl", unix))]
#[tokio::test]
async fn session_files_contain_no_key() {
    use base64::Engine as _;
    let key = "k-files-0123456789";
    let _known = Secret::new(key);
    let folder = tempfile::tempdir().unwrap();
    let call = ToolCall::from_raw("c1", "tool", json!({"a": key}).to_string());
    let thinking = Part::Thinking(block("openai", &json!({"reasoning": key})));
    let step = Step::new()
        .and_event(ModelEvent::Part(thinking))
        .and_text(&key[..8])
        .and_text(&key[8..])
        .and_tool_call(call);
    let spelled = base64::engine::general_purpose::STANDARD.encode(format!("u:{key}"));
    let tool = agentcore::FuncTool::new(
        "tool",
        "Says it",
        crate::kit::any_object(),
        move |_cx, _args| {
            let spelled = spelled.clone();
            async move { spelled }
        },
    );
    let agent = AgentBuilder::new(ScriptedModel::new().step(step).say("ok"))
        .tool(tool)
        .store(agentcore::session::JsonlStore::open(folder.path()).unwrap())
        .build()
        .unwrap();
    agent.session("s").run("go").await.unwrap();
    drop(agent);
    let mut files = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            files += 1;
            let bytes = std::fs::read(&path).unwrap();
            assert_no_leak(&String::from_utf8_lossy(&bytes), key, "file");
        }
    }

    assert!(files > 0);
}
