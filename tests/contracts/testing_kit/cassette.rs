//! Cassettes, which record every byte and replay only what was recorded.

use super::*;

struct File(std::path::PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let name = format!("agentcore-{}-{name}.jsonl", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn rich() -> Vec<Result<ModelEvent>> {
    let raw = "{\"b\": 1.0,  \"a\":\"\\u00e9\"}";
    let mut call = ToolCall::from_raw("c1", "t", "{ \"x\":1e2 }");
    call.args = Arc::new(json!({"x": 100.0}));
    let call = call.with_extra(block("gemini", "{ \"thoughtSignature\":\"c2ln\"}"));
    let mut head = ResponseHead::new("r", "m");
    head.request_id = Some("req".into());
    vec![
        Ok(ModelEvent::Start(Box::new(head))),
        Ok(ModelEvent::Thinking("hm".into())),
        Ok(ModelEvent::Part(Part::Thinking(block("anthropic", raw)))),
        Ok(ModelEvent::Part(Part::Opaque(block("x", "[1 ,2]")))),
        Ok(ModelEvent::Part(Part::Image(Media::url(
            "http://example.org/i.png",
        )))),
        Ok(ModelEvent::Part(Part::Document(
            Media::bytes("application/pdf", b"%PDF").with_name("a.pdf"),
        ))),
        Ok(ModelEvent::Part(Part::Audio(Media::bytes(
            "audio/wav",
            b"x",
        )))),
        Ok(ModelEvent::Part(Part::Image(
            Media::file("openai", "file-1").with_name("f"),
        ))),
        Ok(ModelEvent::Restart),
        Ok(ModelEvent::Text("te".into())),
        Ok(ModelEvent::Part(Part::Annotations(
            Annotations::new([Citation::new("u").with_title("t"), Citation::default()])
                .with_block(block("openai", "{\"a\" :1.0}")),
        ))),
        Ok(ModelEvent::Text("xt".into())),
        Ok(ModelEvent::Part(Part::Annotations(Annotations::default()))),
        Ok(ModelEvent::PartEnd),
        Ok(ModelEvent::ToolCallStart {
            index: 3,
            id: "c1".into(),
            name: "t".into(),
        }),
        Ok(ModelEvent::ToolCallDelta {
            index: 3,
            json: "{".into(),
        }),
        Ok(ModelEvent::ToolCall(call)),
        Ok(ModelEvent::Usage(Usage::new(1, 2).with_cache(3, 4))),
        Ok(ModelEvent::Stop {
            reason: Some(StopReason::Other("odd".into())),
            sequence: Some("END".into()),
        }),
    ]
}

#[tokio::test]
async fn replayed_events_equal_the_recorded_ones() {
    let file = File::new("lossless");
    let profile = || {
        ModelProfile::default()
            .with_context_window(5)
            .with_prices(Prices::new(1.0, 2.0))
    };

    let model = FunctionModel::new(|_| rich())
        .with_profile(profile())
        .with_id("x:y");
    let recorded = Cassette::record(&file.0, model).unwrap();
    let first = plain(events(&recorded, ModelRequest::new("hi")).await);
    let replayed = Cassette::replay(&file.0).unwrap();
    assert_eq!(replayed.id(), "x:y");
    assert_eq!(replayed.profile(), &profile());
    let second = plain(events(&replayed, ModelRequest::new("hi")).await);
    assert_eq!(first, second);

    // Calls are equal in different spellings, so the texts are compared.
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    replayed.verify().unwrap();
}

#[tokio::test]
async fn replayed_errors_keep_all_fields() {
    let file = File::new("errors");
    let error = || {
        Error::new(ErrorKind::RateLimited, "slow")
            .with_retry_after(Duration::from_millis(1500))
            .with_request_id("req_1")
            .with_status(429)
            .with_retryable(false)
    };

    let busy = || Error::new(ErrorKind::SessionBusy, "taken");
    let script = ScriptedModel::new()
        .fail(error())
        .events(vec![Ok(ModelEvent::Text("a".into())), Err(error())])
        .fail(busy());
    let recorded = Cassette::record(&file.0, script).unwrap();
    for _ in 0..3 {
        assert!(recorded.call(ModelRequest::new("hi")).await.is_err());
    }

    let replayed = Cassette::replay(&file.0).unwrap();
    let replayed_error = replayed
        .stream(ModelRequest::new("hi"))
        .await
        .err()
        .unwrap();
    let mut torn = events(&replayed, ModelRequest::new("hi")).await;
    let torn = torn.pop().unwrap().unwrap_err();
    for replay in [replayed_error, torn] {
        assert_eq!(format!("{replay:?}"), format!("{:?}", error()));
        assert!(!replay.is_retryable());
    }

    let replay = replayed.call(ModelRequest::new("hi")).await.unwrap_err();
    assert_eq!(replay.kind(), ErrorKind::SessionBusy);
}

#[tokio::test]
async fn different_request_is_an_error_that_names_the_difference() {
    let file = File::new("strict");
    let mut system = SystemPrompt::from("Be brief.");
    let recorded =
        Cassette::record(&file.0, FunctionModel::text(|_| "secret answer".into())).unwrap();
    let request = ModelRequest::new(Messages::new().human("my password").ai("a").human("b"))
        .with_system(system.clone());
    recorded.call(request.clone()).await.unwrap();
    let text = std::fs::read_to_string(&file.0).unwrap();
    assert!(
        !text.contains("password") && !text.contains("brief"),
        "{text}"
    );

    let replayed = Cassette::replay(&file.0).unwrap();
    let mut other = request.clone();
    other.messages.push(Message::ai("more"));
    *other.messages.get_mut(1).unwrap() = Message::ai("A");
    other.system = "Be long.".into();
    other.settings = ModelSettings::new().with_top_k(1);
    let error = replayed.call(other).await.unwrap_err();
    for part in [
        "the system prompt",
        "the settings",
        "message[1]",
        "4 messages, recorded were 3",
    ] {
        assert!(error.text().contains(part), "{error}");
    }

    assert!(!error.text().contains("the tools"), "{error}");
    assert!(replayed.verify().is_err());

    let mut uncached = request.clone();
    uncached.settings = ModelSettings::new().with_prompt_cache(false);
    let error = replayed.call(uncached).await.unwrap_err();
    assert!(error.text().contains("the settings"), "{error}");

    // A volatile section may differ.
    system.set("clock", "noon", Stability::Volatile);
    let again = request.clone().with_system(system);
    assert_eq!(replayed.call(again).await.unwrap().text(), "secret answer");
    replayed.verify().unwrap();
    assert!(replayed.call(request).await.is_err());
}

/// An earlier version made the recording: its calls, media and parts have fewer fields and kinds.
#[tokio::test]
async fn old_recordings_are_read() {
    let file = File::new("old");
    let text = concat!(
        r#"{"cassette":1,"model":"m","context_window":1,"max_output_tokens":1,"images":true}"#,
        "\n",
        r#"{"call":0,"request":{"system":"","tools":"","settings":"","messages":[]},"events":["#,
        r#"{"part":{"image":{"media_type":"","url":true,"source":"http://x/y.png","name":null}}},"#,
        r#"{"part":{"document":{"media_type":"application/pdf","url":false,"source":"AA==","name":"a.pdf"}}},"#,
        r#"{"part":{"call":{"id":"c","name":"f","args":{"x":1},"raw":"{ \"x\":1}"}}},"#,
        r#"{"stop":{"reason":{"known":"tool_use"},"sequence":null}}]}"#,
        "\n",
    );

    // The fingerprint is that of this request.
    let request = || ModelRequest::new("hi");
    let other = File::new("old-print");
    let recorded = Cassette::record(&other.0, FunctionModel::text(|_| "x".into())).unwrap();
    recorded.call(request()).await.unwrap();
    let print = std::fs::read_to_string(&other.0).unwrap();
    let print: serde_json::Value = serde_json::from_str(print.lines().nth(1).unwrap()).unwrap();
    let empty_print = r#"{"system":"","tools":"","settings":"","messages":[]}"#;
    let text = text.replace(empty_print, &print["request"].to_string());
    std::fs::write(&file.0, text).unwrap();

    let replayed = Cassette::replay(&file.0).unwrap();
    let call = ToolCall::from_raw("c", "f", "{ \"x\":1}");
    let expected = vec![
        ModelEvent::Part(Part::Image(Media::url("http://x/y.png"))),
        ModelEvent::Part(Part::Document(
            Media::base64("application/pdf", "AA==").with_name("a.pdf"),
        )),
        ModelEvent::ToolCall(call),
        ModelEvent::stop(StopReason::ToolUse),
    ];
    let replay = plain(events(&replayed, request()).await);
    assert_eq!(format!("{replay:?}"), format!("{expected:?}"));
}

#[tokio::test]
async fn call_with_other_extra_fields_is_the_same_request() {
    let file = File::new("extra");
    let recorded = Cassette::record(&file.0, FunctionModel::text(|_| "ok".into())).unwrap();
    let call = ToolCall::new("c", "f", json!({}));
    let request = |call: &ToolCall| {
        let history = Messages::from("hi").ai_calling("", [call.clone()]);
        ModelRequest::new(history.tool("c", "f", "1"))
    };

    recorded.call(request(&call)).await.unwrap();
    let signed_call = call.with_extra(block("gemini", "{}"));
    let replayed = Cassette::replay(&file.0).unwrap();
    assert_eq!(
        replayed.call(request(&signed_call)).await.unwrap().text(),
        "ok"
    );
}

#[tokio::test]
async fn stream_dropped_midway_is_recorded_as_truncated() {
    let file = File::new("dropped");
    let recorded = Cassette::record(&file.0, FunctionModel::text(|_| "one two".into())).unwrap();
    let mut stream = recorded.stream(ModelRequest::new("hi")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let replayed = Cassette::replay(&file.0).unwrap();
    let error = replayed.call(ModelRequest::new("hi")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StreamTruncated);
}

#[test]
fn malformed_cassette_file_is_an_error_that_names_the_line() {
    let file = File::new("corrupt");
    let kind = |text: &str| {
        std::fs::write(&file.0, text).unwrap();
        Cassette::replay(&file.0).unwrap_err()
    };

    assert_eq!(kind("").kind(), ErrorKind::Corrupt);
    let header =
        r#"{"cassette":1,"model":"m","context_window":1,"max_output_tokens":1,"images":true}"#;
    let error = kind(&format!("{header}\n{{torn"));
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.text().contains("jsonl:2"), "{error}");
    let newer = header.replace("\"cassette\":1", "\"cassette\":2");
    assert_eq!(kind(&newer).kind(), ErrorKind::VersionTooNew);
    let missing = Cassette::replay("/nonexistent/file").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
}

#[cfg(unix)]
#[test]
fn cassette_that_is_a_pipe_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let status = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(status.unwrap().success());
    let error = Cassette::replay(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.text().contains("it is not a regular file"), "{error}");
    let error = Cassette::record(&path, ScriptedModel::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn cassette_longer_than_64_mib_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.jsonl");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(64 * 1024 * 1024 + 1).unwrap();
    let error = Cassette::replay(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let reason = "it is longer than 67108864 bytes";
    assert!(error.text().contains(reason), "{error}");
}

#[tokio::test]
async fn cassette_contains_no_key_that_a_model_repeats() {
    let key = "k-cassette-0123456789";
    let _known = Secret::new(key);
    let file = File::new("key");
    let (a, b) = key.split_at(9);
    let model = ScriptedModel::new().step(vec![
        ModelEvent::Text(a.to_owned()),
        ModelEvent::Text(b.to_owned()),
        ModelEvent::stop(StopReason::EndTurn),
    ]);
    let recorder = Cassette::record(&file.0, model).unwrap();
    let response = recorder.call(ModelRequest::new("hi")).await.unwrap();
    assert_eq!(response.text(), "[redacted]");
    let text = std::fs::read_to_string(&file.0).unwrap();
    assert!(!text.contains(a) && !text.contains(b), "{text}");
    assert!(text.contains("[redacted]"), "{text}");
}
