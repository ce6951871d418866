//! The extension points of an agent: prompts, gates, compactors, sources of tools.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentcore::hook::{self, Phases};
use agentcore::model::{
    NoCompaction, PromptContext, Prompter, Stability, StaticPrompt, SystemPrompt,
};
use agentcore::sdk::{Envelope, SystemEvent, SystemKind};
use agentcore::testing::{ScriptedModel, StrictModel};
use agentcore::tool::{AllowAll, ToolSource};
use agentcore::{
    AgentBuilder, ErrorKind, FuncTool, Hook, Result, SdkMessage, Tool, ToolOutput, async_trait,
};
use serde_json::json;

use crate::kit::{agent, any_object, echo, result_texts, warnings, watch};

fn tool(name: &str) -> Arc<dyn Tool> {
    let text = name.to_owned();
    Arc::new(FuncTool::new(name, "", any_object(), move |_, _| {
        let text = text.clone();
        async move { text }
    }))
}

/// A source of the tools in a list, which fails or panics if a fault is set.
#[derive(Clone, Default)]
struct Shelf {
    tools: Arc<Mutex<Vec<Arc<dyn Tool>>>>,
    version: Arc<AtomicU64>,
    asked: Arc<AtomicUsize>,
    has_version: bool,
    fault: Arc<Mutex<Option<&'static str>>>,
}

#[async_trait]
impl ToolSource for Shelf {
    fn name(&self) -> &str {
        "shelf"
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match *self.fault.lock().unwrap() {
            Some("panic") => panic!("the shelf broke"),
            Some(text) => return Err(text.into()),
            None => {}
        }
        Ok(self.tools.lock().unwrap().clone())
    }

    fn version(&self) -> Option<u64> {
        self.has_version
            .then(|| self.version.load(Ordering::Relaxed))
    }
}

fn offered(request: &agentcore::ModelRequest) -> Vec<String> {
    request
        .tools
        .iter()
        .map(|tool| tool.name.to_string())
        .collect()
}

#[tokio::test]
async fn tool_source_is_read_before_each_turn() {
    let shelf = Shelf::default();
    *shelf.tools.lock().unwrap() = vec![tool("first")];
    let (tools, fault) = (shelf.tools.clone(), shelf.fault.clone());
    let change = hook::wrap_tool_call("change", move |call, next| {
        let (tools, fault) = (tools.clone(), fault.clone());
        async move {
            match &*call.name {
                "first" => *tools.lock().unwrap() = vec![tool("second"), tool("third")],
                _ => *fault.lock().unwrap() = Some("out of reach"),
            }

            next.run(call).await
        }
    });

    let model = ScriptedModel::new()
        .call("first", json!({}))
        .call("second", json!({}))
        .call("first", json!({}))
        .say("done");
    let script = model.clone();
    let agent = agent(StrictModel::new(model))
        .tool_source(shelf)
        .hook(change)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    let seen: Vec<_> = script.requests().iter().map(offered).collect();
    assert_eq!(seen[0], ["first"]);

    // A source that fails keeps its earlier tools.
    assert!(seen[1..].iter().all(|tools| *tools == ["second", "third"]));
    let texts = result_texts(&output.unwrap().messages);
    assert_eq!(texts[..2], ["first", "second"]);
    assert!(
        texts[2].starts_with("Error: unknown tool \"first\""),
        "{texts:?}"
    );
    let warnings = warnings(&messages);
    assert!(
        warnings[0].contains("`shelf` failed") && warnings[0].contains("out of reach"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn tool_source_with_a_version_is_read_only_after_a_change() {
    let shelf = Shelf {
        has_version: true,
        ..Shelf::default()
    };

    *shelf.tools.lock().unwrap() = vec![tool("first")];
    let asked = shelf.asked.clone();
    let version = shelf.version.clone();
    let bump = hook::before_stop("bump", move |_, _| {
        let first = version.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            Ok(if first {
                agentcore::StopDecision::continue_with("More")
            } else {
                agentcore::StopDecision::Stop
            })
        }
    });

    let model = ScriptedModel::new()
        .call("first", json!({}))
        .say("a")
        .say("b");
    let agent = agent(model).tool_source(shelf).hook(bump).build().unwrap();
    agent.run("Go").await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 2, "of three turns");
}

#[tokio::test]
async fn panicking_tool_source_is_a_warning() {
    let shelf = Shelf::default();
    *shelf.fault.lock().unwrap() = Some("panic");
    let agent = agent(ScriptedModel::new().say("done"))
        .tool_source(shelf)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    let warnings = warnings(&messages);
    assert!(
        warnings[0].contains("`shelf`") && warnings[0].contains("the shelf broke"),
        "{warnings:?}"
    );
}

struct Telling(Option<&'static str>);

#[async_trait]
impl Prompter for Telling {
    async fn assemble(&self, cx: PromptContext<'_>) -> Result<SystemPrompt> {
        match self.0 {
            Some("panic") => panic!("no prompt"),
            Some(text) => Err(text.into()),
            None => Ok(format!(
                "{} of {} in {:?} with {}: {}",
                cx.agent,
                cx.session_id,
                cx.cwd,
                cx.model,
                cx.tools.join(",")
            )
            .into()),
        }
    }
}

#[tokio::test]
async fn prompter_receives_the_context_of_the_run() {
    let model = ScriptedModel::new()
        .with_id("scripted:one")
        .say("a")
        .say("b");
    let script = model.clone();
    let build = |model: ScriptedModel| agent(model).name("Ada").tool(echo());
    let telling = build(model.clone())
        .prompter(Telling(None))
        .build()
        .unwrap();
    telling.session("s").run("Go").await.unwrap();
    let fixed = build(model)
        .prompter(StaticPrompt::new("Be brief."))
        .build()
        .unwrap();
    fixed.run("Go").await.unwrap();
    let prompts: Vec<_> = script
        .requests()
        .iter()
        .map(|request| request.system.text_of(Stability::Stable))
        .collect();
    assert_eq!(
        prompts,
        ["Ada of s in None with scripted:one: echo", "Be brief."]
    );
}

#[tokio::test]
async fn failing_prompter_ends_the_run_before_the_model_call() {
    for (fault, expected) in [("no template", "no template"), ("panic", "no prompt")] {
        let agent = agent(ScriptedModel::new())
            .prompter(Telling(Some(fault)))
            .build()
            .unwrap();
        let (messages, output) = watch(agent.run("Go")).await;
        let error = output.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let results = messages.iter().filter(|message| message.is_result());
        assert_eq!(results.count(), 1);
        assert!(messages.last().unwrap().is_result());
    }
}

#[tokio::test]
async fn allow_all_asks_no_question_and_no_compaction_never_compacts() {
    let model = ScriptedModel::new()
        .call("echo", json!({"text": "x".repeat(4_000)}))
        .say("done")
        .with_profile(agentcore::model::ModelProfile::default().with_context_window(500));
    let agent = agent(model)
        .tool(echo())
        .permissions(AllowAll)
        .compactor(NoCompaction)
        .build()
        .unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done");
    assert!(!crate::kit::kinds(&messages).contains(&"system/compact_boundary".into()));
}

#[tokio::test]
async fn message_forwarded_by_a_tool_carries_its_call_id() {
    let relay = FuncTool::new("relay", "", any_object(), |cx, _| async move {
        let kind = SystemKind::Unknown {
            subtype: "child".into(),
            fields: serde_json::Map::new(),
        };

        let event = SystemEvent::new(Envelope::new("child", 1), kind);
        cx.forward(SdkMessage::from(event)).await;
        cx.progress(json!({"half": true})).await;
        ToolOutput::new(format!("{} {}", cx.tool_name(), cx.session_id()))
    });

    let model = ScriptedModel::new().call("relay", json!({})).say("done");
    let agent = agent(model).tool(relay).build().unwrap();
    let (messages, output) = watch(agent.session("s").run("Go")).await;
    assert_eq!(result_texts(&output.unwrap().messages), ["relay s"]);
    let passed = messages
        .iter()
        .position(|message| crate::kit::kind(message) == "system/child")
        .unwrap();
    assert_eq!(messages[passed].parent_tool_use_id(), Some("call_1"));
    assert_eq!(messages[passed].session_id(), "child");
}

#[test]
fn phases_combine_and_print_their_names() {
    const NAMES: [(Phases, &str); 8] = [
        (Phases::BEFORE_AGENT, "before_agent"),
        (Phases::MODIFY_REQUEST, "modify_request"),
        (Phases::WRAP_MODEL_CALL, "wrap_model_call"),
        (Phases::PRE_TOOL_USE, "pre_tool_use"),
        (Phases::WRAP_TOOL_CALL, "wrap_tool_call"),
        (Phases::POST_TOOL_USE, "post_tool_use"),
        (Phases::BEFORE_STOP, "before_stop"),
        (Phases::AFTER_AGENT, "after_agent"),
    ];
    let mut all = Phases::NONE;
    for (phase, name) in NAMES {
        assert_eq!(phase.to_string(), name);
        assert!(!all.contains(phase) && Phases::ALL.contains(phase));
        all = phase | all;
    }

    assert_eq!(all, Phases::ALL);
    let names: Vec<_> = Phases::ALL.names().collect();
    assert_eq!(names, NAMES.map(|(_, name)| name));
    assert_eq!(Phases::NONE.to_string(), "");
    assert!(Phases::ALL.contains(Phases::NONE));
}

#[tokio::test]
async fn pre_and_post_generation_run_as_before_and_after_agent() {
    let hooks = [
        hook::pre_generation("load", |cx, mut state| async move {
            cx.set_value(7_u8);
            state.system_prompt = "Loaded.".into();
            Ok(state)
        }),
        hook::post_generation("save", |cx, state| async move {
            assert_eq!(cx.value::<u8>().as_deref(), Some(&7));
            assert_eq!(state.output_messages.len(), 2, "input and answer");
            Err("the disk is full".into())
        }),
    ];
    assert_eq!(hooks[0].phases(), Phases::BEFORE_AGENT);
    assert_eq!(hooks[1].phases(), Phases::AFTER_AGENT);
    let model = ScriptedModel::new().say("done");
    let script = model.clone();
    let agent = agent(model).hooks(hooks).build().unwrap();
    let (messages, output) = watch(agent.run("Go")).await;
    assert_eq!(output.unwrap().text, "done", "the answer stands");
    assert_eq!(
        script.requests()[0].system.text_of(Stability::Stable),
        "Loaded."
    );
    assert_eq!(
        warnings(&messages),
        ["hook `save` failed in after_agent: the disk is full"]
    );

    let failing = hook::pre_generation("load", |_, _| async { Err("no session".into()) });
    let agent = AgentBuilder::new(ScriptedModel::new())
        .hook(failing)
        .build()
        .unwrap();
    let error = agent.run("Go").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Hook);
    assert_eq!(
        error.to_string(),
        "hook `load` failed in before_agent: no session"
    );
}

#[test]
fn invalid_temperature_is_a_config_error() {
    for temperature in [f64::NAN, f64::INFINITY, -0.1] {
        let built = agent(ScriptedModel::new()).temperature(temperature).build();
        let error = built.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().starts_with("temperature is "), "{error}");
    }

    for temperature in [0.0, 0.7, 2.0] {
        agent(ScriptedModel::new())
            .temperature(temperature)
            .build()
            .unwrap();
    }
}
