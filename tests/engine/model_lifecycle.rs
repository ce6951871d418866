//! The warning about a model that has ended or ends soon.

use agentcore::model::{Date, Lifecycle, ModelProfile};
use agentcore::testing::ScriptedModel;
use agentcore::{BoxError, FuncTool, Run, SdkMessage};
use serde_json::{Value, json};

use crate::kit::{agent, any_object, echo, kinds, warnings, watch};

fn ending(id: &str, ends: &str) -> ScriptedModel {
    let ends: Date = ends.parse().unwrap();
    let profile = ModelProfile::default().with_lifecycle(Lifecycle::default().with_ends(ends));
    ScriptedModel::new().with_id(id).with_profile(profile)
}

async fn messages(run: Run) -> Vec<SdkMessage> {
    let (messages, output) = watch(run).await;
    output.unwrap();
    messages
}

#[tokio::test]
async fn run_with_a_model_that_has_ended_warns_once_after_init() {
    let id = "anthropic:claude-opus-4-1";
    let model = ending(id, "2020-01-01")
        .call("echo", json!({"text": "a"}))
        .say("done")
        .say("again");
    let agent = agent(model).tool(echo()).build().unwrap();
    let expected = format!("the model {id:?} ended on 2020-01-01; use claude-opus-5");
    for _ in 0..2 {
        let messages = messages(agent.session("s").run("Hi")).await;
        assert_eq!(
            kinds(&messages)[..2],
            ["system/init", "system/informational"]
        );
        assert_eq!(warnings(&messages), [&*expected]);
    }
}

#[tokio::test]
async fn run_with_a_model_without_a_known_replacement_asks_for_another_model() {
    let agent = agent(ending("mine:old", "2020-01-01").say("done"));
    let messages = messages(agent.build().unwrap().run("Hi")).await;
    let expected = r#"the model "mine:old" ended on 2020-01-01; choose another model"#;
    assert_eq!(warnings(&messages), [expected]);
}

#[tokio::test]
async fn run_with_a_model_that_lasts_has_no_warning() {
    let later = ending("mine:new", "9999-12-31").say("done");
    let unknown = ScriptedModel::new().with_id("claude-opus-4-1").say("done");
    for model in [later, unknown] {
        let messages = messages(agent(model).build().unwrap().run("Hi")).await;
        assert_eq!(warnings(&messages), Vec::<String>::new());
    }
}

#[tokio::test]
async fn child_run_warns_only_of_models_that_its_parent_has_not() {
    for (child_model, count) in [("mine:old", 1), ("mine:older", 2)] {
        let child = agent(ending(child_model, "2020-01-01").say("found"))
            .build()
            .unwrap();
        let delegate = FuncTool::new(
            "delegate",
            "Delegates",
            any_object(),
            move |cx, _: Value| {
                let child = child.clone();
                async move {
                    let output = child.session("child").run_as_child(&cx, "Help").await?;
                    Ok::<_, BoxError>(output.text)
                }
            },
        );
        let model = ending("mine:old", "2020-01-01")
            .call("delegate", json!({}))
            .say("done");
        let messages = messages(agent(model).tool(delegate).build().unwrap().run("Hi")).await;
        assert_eq!(warnings(&messages).len(), count, "{child_model}");
    }
}

#[cfg(feature = "http")]
#[tokio::test]
async fn run_with_a_fallback_warns_of_every_model_that_may_answer() {
    let first = ending("mine:old", "2020-01-01").say("done");
    let second = ending("mine:new", "9999-12-31");
    let third = ending("mine:older", "2019-01-01");
    let model = agentcore::providers::FallbackModel::new([first, second, third]);
    let messages = messages(agent(model).build().unwrap().run("Hi")).await;
    let expected = [
        r#"the model "mine:old" ended on 2020-01-01; choose another model"#,
        r#"the model "mine:older" ended on 2019-01-01; choose another model"#,
    ];
    assert_eq!(warnings(&messages), expected);
}
