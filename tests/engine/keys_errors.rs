//! Errors, logs and results without the keys of this process, in any spelling.

use std::fmt;

use agentcore::hooks::TracingHook;
use agentcore::testing::ScriptedModel;
use agentcore::trace::MemoryRecorder;
use agentcore::{Error, ErrorKind, FuncTool, Secret, ToolContext, ToolOutput, hook};
use serde_json::json;

use crate::kit::keys::{Logged, assert_no_leak, listen, printed, spellings};
use crate::kit::{agent, any_object, watch};

/// An error of another crate, whose `Debug` has more details than its `Display`.
struct Foreign {
    text: String,
    cause: Option<Box<Foreign>>,
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign({})", self.text)
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something foreign")
    }
}

impl std::error::Error for Foreign {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

fn foreign(text: &str) -> Foreign {
    let cause = Foreign {
        text: text.to_owned(),
        cause: None,
    };
    Foreign {
        text: "outer".into(),
        cause: Some(Box::new(cause)),
    }
}

#[test]
fn error_with_a_key_in_any_spelling_prints_none_of_it() {
    let key = "k/err+0123456789 \"abc\\def~";
    let _known = Secret::new(key);
    for (name, text) in spellings(key) {
        let message = format!("refused: {text}.");
        let errors = [
            Error::new(ErrorKind::Auth, message.clone()),
            Error::new(ErrorKind::Auth, "no").context(&message),
            Error::new(ErrorKind::Auth, "no").with_request_id(message.clone()),
            Error::new(ErrorKind::Auth, "no").with_source(message.clone()),
            Error::new(ErrorKind::Auth, "no").with_source(foreign(&message)),
            Error::other(foreign(&message)),
            Error::other(message.clone()),
            Error::from(std::io::Error::other(message.clone())),
            Error::from(message.as_str()),
        ];
        for error in &errors {
            let id = error.request_id().unwrap_or_default();
            assert_no_leak(&format!("{}{id}", printed(error)), key, &name);
        }

        assert!(
            errors[0].text().starts_with("refused: "),
            "{name}: {}",
            errors[0]
        );
        assert!(
            errors[0].text().contains("[redacted]"),
            "{name}: {}",
            errors[0]
        );
    }
}

#[test]
fn error_without_a_key_keeps_its_source() {
    let _known = Secret::new("k-source-0123456789");
    let error = Error::other(foreign("nothing to hide"));
    let source = std::error::Error::source(&error).unwrap();
    assert!(source.downcast_ref::<Foreign>().is_some());
    assert_eq!(
        format!("{:?}", source.source().unwrap()),
        "Foreign(nothing to hide)"
    );
}

#[test]
fn key_with_another_key_as_its_prefix_is_redacted_whole() {
    let (short, long) = ("k-prefix-0123456789", "k-prefix-0123456789-and-more");
    let _known = [Secret::new(short), Secret::new(long)];
    let error = Error::from(format!("a {long} b {short} c"));
    assert_eq!(error.text(), "a [redacted] b [redacted] c");
}

#[test]
fn placeholder_keys_are_not_redacted() {
    let words = [
        "ollama",
        "not-needed",
        "no-key-required",
        "sk-no-key-required",
        "ollama-local-key",
    ];
    let _known: Vec<_> = words.into_iter().map(Secret::new).collect();
    for word in words {
        assert_eq!(
            Error::from(format!("{word}: no such model")).text(),
            format!("{word}: no such model")
        );
    }
}

#[test]
fn random_keys_in_random_spellings_leak_nothing() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..120 {
        let length = random.usize(12..60);
        let key: String = (0..length)
            .map(|_| char::from(random.u8(0x21..0x7f)))
            .collect();
        let _known = Secret::new(key.clone());
        let all = spellings(&key);
        let mut text = String::new();
        for _ in 0..4 {
            let words: String = (0..random.usize(0..12))
                .map(|_| random.alphanumeric())
                .collect();
            text.push_str(&format!("{words} {} ", all[random.usize(..all.len())].1));
        }

        let shown = Error::from(text.clone()).to_string();
        assert_no_leak(&shown, &key, &format!("round {round}, {text}"));
    }
}

/// Returns all outputs of a run as text: messages, output, session, spans and logs.
async fn all_texts(tool: FuncTool, input: &str) -> String {
    let logged = Logged::default();
    let _listening = listen(logged.clone());
    let recorder = MemoryRecorder::new();
    let model = ScriptedModel::new().call("tool", json!({})).say("done");
    let own = hook::before_stop("own", |cx, _answer| async move {
        if let Some(trace) = cx.trace() {
            let mut span = trace.start_span("own");
            span.set(
                "said",
                cx.with_state(|state| format!("{:?}", state.messages))
                    .into(),
            );
            trace.record_event(
                "own",
                json!({"said": cx.with_state(|state| format!("{:?}", state.messages))}),
            );
        }

        Ok(agentcore::StopDecision::Stop)
    });

    let agent = agent(model)
        .tool(tool)
        .hook(TracingHook::new().with_content(true))
        .hook(own)
        .trace_recorder(recorder.clone())
        .build()
        .unwrap();
    let (messages, output) = watch(agent.session("s").run(input)).await;
    let results = serde_json::to_string(&messages[1..]).unwrap();
    let _ = output.unwrap();
    format!(
        "{results}\n{:?}\n{:?}\n{}",
        recorder.spans(),
        recorder.events(),
        logged.text()
    )
}

#[tokio::test]
async fn traces_and_logs_contain_no_key_from_the_input() {
    let key = "k-typed-0123456789/abc";
    let _known = Secret::new(key);
    for (name, text) in spellings(key) {
        let tool = FuncTool::new("tool", "Says it", any_object(), |_cx, _args| async {
            "nothing"
        });

        assert_no_leak(
            &all_texts(tool, &format!("my key: {text}")).await,
            key,
            &name,
        );
    }
}

#[tokio::test]
async fn tool_results_and_progress_contain_no_key_in_any_spelling() {
    let key = "k-tool-0123456789/abcdef";
    let _known = Secret::new(key);
    for (name, text) in spellings(key) {
        for ends in ["ok", "error", "panic"] {
            let text = text.clone();
            let tool = FuncTool::new(
                "tool",
                "Says it",
                any_object(),
                move |cx: ToolContext, _args| {
                    let text = text.clone();
                    async move {
                        cx.progress(json!({"line": text})).await;
                        let end: Result<_, agentcore::BoxError> = match ends {
                            "ok" => Ok(ToolOutput::new(text.clone()).with_display(text)),
                            "error" => Err(agentcore::ToolError::new(text).into()),
                            _ => panic!("{text}"),
                        };

                        end
                    }
                },
            );
            assert_no_leak(
                &all_texts(tool, "go").await,
                key,
                &format!("{name}, {ends}"),
            );
        }
    }
}

#[tokio::test]
async fn hook_panics_and_warnings_contain_no_key() {
    let key = "k-panic-0123456789";
    let _known = Secret::new(key);
    let logged = Logged::default();
    let _listening = listen(logged.clone());
    let panics = hook::after_agent("panics", move |_cx, state| async move {
        if key.len() > 1 {
            panic!("{key}");
        }

        Ok(state)
    });

    let warns = hook::before_agent("warns", move |cx, state| async move {
        cx.warn(format!("careful with {key}"));
        Ok(state)
    });

    let agent = agent(ScriptedModel::new().say("done"))
        .hook(panics)
        .hook(warns)
        .build()
        .unwrap();
    let (messages, _) = watch(agent.run("go")).await;
    let all = format!(
        "{}{}",
        serde_json::to_string(&messages).unwrap(),
        logged.text()
    );
    assert_no_leak(&all, key, "panic");
    assert!(all.contains("careful with [redacted]"), "{all}");
}
