//! JSON that is nested very deep: it is refused with an error, and ends neither a run nor a
//! process.

use std::sync::Arc;

use agentcore::message::{Annotations, Citation, ProviderBlock};
use agentcore::model::ModelEvent;
use agentcore::testing::ScriptedModel;
use agentcore::tool::GateRequest;
use agentcore::{
    AgentBuilder, BoxError, FuncTool, Part, SessionStore, ThreadStore, ToolCall, ToolDecision,
    ToolError, ToolOutput, ToolResult, hook,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kit::{Gate, any_object, progress, results, warnings, watch};

const DEPTHS: [usize; 11] = [99, 100, 101, 123, 124, 125, 126, 127, 128, 200, 200_000];
const LIMIT: usize = 100;

/// Returns a value nested `depth` levels deep.
fn nested(depth: usize) -> Value {
    let inner = (1..depth).fold(json!(1), |inner, _| Value::Array(vec![inner]));
    // The macro would walk the value by recursion.
    Value::Object([("a".to_owned(), inner)].into_iter().collect())
}

/// Returns the text of a value nested `depth` levels deep.
fn text(depth: usize) -> String {
    let depth = depth - 1;
    format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth))
}

/// Drops a value of any depth without recursion, unlike the `Drop` of `Value`.
fn dismantle(value: Value) {
    let mut values = vec![value];
    while let Some(value) = values.pop() {
        match value {
            Value::Array(items) => values.extend(items),
            Value::Object(members) => values.extend(members.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

fn tool() -> FuncTool {
    FuncTool::new("act", "Acts", any_object(), |_cx, args: Value| async move {
        dismantle(args);
        "acted"
    })
}

/// Runs the agent in a session of each kind of store, reads the session again, and returns the
/// results of its calls.
async fn stored(build: impl Fn() -> AgentBuilder) -> Vec<ToolResult> {
    let mut all: Vec<Vec<ToolResult>> = Vec::new();
    let memory = ThreadStore::new();
    #[cfg_attr(not(any(feature = "jsonl", feature = "sqlite")), expect(unused_mut))]
    let mut stores: Vec<Arc<dyn SessionStore>> = vec![Arc::new(memory)];
    let _dir = tempfile::tempdir().unwrap();
    #[cfg(feature = "jsonl")]
    stores.push(Arc::new(
        agentcore::session::JsonlStore::open(_dir.path().join("jsonl")).unwrap(),
    ));
    #[cfg(feature = "sqlite")]
    stores.push(Arc::new(
        agentcore::session::SqliteStore::open(_dir.path().join("sqlite")).unwrap(),
    ));
    for store in stores {
        let agent = build().store(store.clone()).build().unwrap();
        let (_, output) = watch(agent.session("s").run("go")).await;
        output.unwrap();
        let messages = store.load("s").await.unwrap().unwrap().state.messages;
        messages.validate().unwrap();
        let json = store.export("s").await.unwrap();
        store.import("copy", json.as_bytes()).await.unwrap();
        let copy = store.load("copy").await.unwrap().unwrap().state.messages;
        assert_eq!(copy, messages);
        all.push(results(&messages));
    }

    let first = all.swap_remove(0);
    assert!(all.iter().all(|other| *other == first));
    first
}

fn check(results: &[ToolResult], depth: usize) {
    assert_eq!(results.len(), 1, "{depth}");
    let text = results[0].content.text();
    assert_eq!(results[0].is_error, depth > LIMIT, "{depth}: {text}");
    if depth > LIMIT {
        assert!(text.contains("nested deeper than 100"), "{depth}: {text}");
    }
}

fn calls_act() -> ScriptedModel {
    ScriptedModel::new().call("act", json!({})).say("done")
}

fn calls(call: ToolCall) -> ScriptedModel {
    let step = vec![ModelEvent::ToolCall(call)];
    ScriptedModel::new().step(step).say("done")
}

#[tokio::test]
async fn arguments_of_a_model_beyond_the_limit_are_a_tool_error() {
    for depth in DEPTHS {
        let call = || ToolCall::from_raw("c", "act", text(depth));
        let results = stored(|| AgentBuilder::new(calls(call())).tool(tool())).await;
        check(&results, depth);
    }
}

#[tokio::test]
async fn arguments_built_in_code_beyond_the_limit_are_a_tool_error() {
    for depth in DEPTHS {
        let call = || ToolCall::new("c", "act", nested(depth));
        let results = stored(|| {
            AgentBuilder::new(calls(call()))
                .include_partial_messages(true)
                .tool(tool())
        });
        check(&results.await, depth);
    }
}

#[tokio::test]
async fn arguments_set_by_hooks_and_gates_beyond_the_limit_are_a_tool_error() {
    for depth in DEPTHS {
        let before = || {
            hook::pre_tool_use("deep", move |_, _| async move {
                Ok(ToolDecision::proceed().with_args(nested(depth)))
            })
        };

        let around = || {
            hook::wrap_tool_call("deep", move |call: ToolCall, next| async move {
                next.run(call.with_args(nested(depth))).await
            })
        };

        let gate = move |_: &GateRequest| ToolDecision::allow().with_args(nested(depth));
        let agent = || AgentBuilder::new(calls_act()).tool(tool());
        check(&stored(|| agent().hook(before())).await, depth);
        check(&stored(|| agent().hook(around())).await, depth);
        check(&stored(|| agent().permissions(Gate(gate))).await, depth);
    }
}

#[tokio::test]
async fn details_beyond_the_limit_make_a_tool_error() {
    for depth in DEPTHS {
        let output = || {
            FuncTool::new(
                "act",
                "Acts",
                any_object(),
                move |_cx, _: Value| async move { ToolOutput::new("ok").with_details(nested(depth)) },
            )
        };

        let error = || {
            FuncTool::new(
                "act",
                "Acts",
                any_object(),
                move |_cx, _: Value| async move {
                    let error = ToolError::new("no").with_details(nested(depth));
                    Err::<String, BoxError>(error.into())
                },
            )
        };

        let after = || {
            hook::post_tool_use("deep", move |_, _, mut result: ToolResult| async move {
                result.details = Some(nested(depth));
                Ok(result)
            })
        };

        let around = || {
            hook::wrap_tool_call("deep", move |call, next| async move {
                let mut result: ToolResult = next.run(call).await?;
                result.details = Some(nested(depth));
                Ok(result)
            })
        };

        let agent = || AgentBuilder::new(calls_act());
        check(&stored(|| agent().tool(output())).await, depth);
        check(&stored(|| agent().tool(tool()).hook(after())).await, depth);
        check(&stored(|| agent().tool(tool()).hook(around())).await, depth);
        let failed = stored(|| agent().tool(error())).await.remove(0);
        assert!(failed.is_error);
        assert_eq!(failed.details.is_none(), depth > LIMIT);
    }
}

#[tokio::test]
async fn json_that_a_tool_returns_beyond_the_limit_is_a_tool_error() {
    for depth in DEPTHS {
        let tool = || {
            FuncTool::new(
                "act",
                "Acts",
                any_object(),
                move |_cx, _: Value| async move { nested(depth) },
            )
        };

        check(
            &stored(|| AgentBuilder::new(calls_act()).tool(tool())).await,
            depth,
        );
    }
}

#[tokio::test]
async fn progress_beyond_the_limit_is_replaced() {
    for depth in DEPTHS {
        let tool = FuncTool::new(
            "act",
            "Acts",
            any_object(),
            move |cx, _: Value| async move {
                cx.progress(nested(depth)).await;
                "ok"
            },
        );
        let agent = AgentBuilder::new(calls_act()).tool(tool).build().unwrap();
        let (shown, output) = watch(agent.run("go")).await;
        output.unwrap();
        let is_replaced = progress(&shown)
            .iter()
            .any(|progress| format!("{progress:?}").contains("nested deeper than 100"));
        assert_eq!(is_replaced, depth > LIMIT, "{depth}");
    }
}

#[tokio::test]
async fn block_of_a_provider_beyond_the_limit_is_dropped_with_a_warning() {
    for depth in DEPTHS {
        let raw = RawValue::from_string(text(depth).replacen('{', "{\"type\":\"odd\",", 1));
        let part = Part::Opaque(ProviderBlock::new("anthropic", raw.unwrap()));
        let build = || {
            let step = vec![
                ModelEvent::Part(part.clone()),
                ModelEvent::Text("done".into()),
            ];
            AgentBuilder::new(ScriptedModel::new().step(step))
        };

        assert!(stored(build).await.is_empty());
        let (shown, output) = watch(build().build().unwrap().run("go")).await;
        assert_eq!(output.unwrap().text, "done");
        assert_eq!(
            warnings(&shown).len(),
            usize::from(depth > LIMIT),
            "{depth}"
        );
    }
}

#[tokio::test]
async fn annotations_and_extra_nested_too_deep_are_dropped() {
    for depth in DEPTHS {
        let block = || ProviderBlock::new("gemini", RawValue::from_string(text(depth)).unwrap());
        let annotations = |annotations: Annotations| {
            ModelEvent::Part(Part::Annotations(annotations.with_block(block())))
        };

        let build = || {
            let step = vec![
                ModelEvent::Text("cited".into()),
                annotations(Annotations::new([Citation::new("u")])),
                ModelEvent::Text("signed".into()),
                annotations(Annotations::default()),
                ModelEvent::ToolCall(ToolCall::new("c", "act", json!({})).with_extra(block())),
            ];
            AgentBuilder::new(ScriptedModel::new().step(step).say("done")).tool(tool())
        };

        let results = stored(build).await;
        assert_eq!((results.len(), results[0].is_error), (1, false), "{depth}");
        let (shown, output) = watch(build().build().unwrap().run("go")).await;
        let history = output.unwrap().messages;
        let answer = history.get(1).unwrap();
        let call = answer.tool_calls().next().unwrap();
        assert_eq!(call.extra.is_none(), depth > LIMIT, "{depth}");
        let parts = answer.content().parts();
        let citations: Vec<_> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Annotations(one) => Some((one.citations.len(), one.block.is_some())),
                _ => None,
            })
            .collect();
        let expected = if depth > LIMIT {
            vec![(1, false)]
        } else {
            vec![(1, true), (0, true)]
        };

        assert_eq!(citations, expected, "{depth}");
        assert_eq!(
            warnings(&shown).len(),
            usize::from(depth > LIMIT),
            "{depth}"
        );
    }
}

#[tokio::test]
async fn structured_answer_beyond_the_limit_is_requested_again() {
    for depth in [100, 101, 127] {
        let model = ScriptedModel::new().say(text(depth));
        let model = if depth > LIMIT {
            model.say("{}")
        } else {
            model
        };

        let agent = AgentBuilder::new(model.clone()).build().unwrap();
        let run = agent.run("go").output_schema("deep", any_object());
        let output = run.finish().await.unwrap();
        assert!(output.structured.is_some());
        assert_eq!(model.requests().len(), 1 + usize::from(depth > LIMIT));
    }
}
