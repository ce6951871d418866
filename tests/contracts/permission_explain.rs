//! The rule of a decision and its origin: a run decides as `explain` describes.

use std::sync::{Arc, Mutex};

use agentcore::permission::{Behavior, PermissionConfig, PermissionRules};
use agentcore::sdk::SystemKind;
use agentcore::testing::ScriptedModel;
use agentcore::tool::{Access, Asking, Confirmer, SideEffect};
use agentcore::{Answer, FuncTool, PermissionRequest, SdkMessage, Tool, ToolCall, async_trait};
use serde_json::{Value, json};

use crate::kit::{agent, any_object, watch};

fn bash() -> FuncTool {
    FuncTool::new("Bash", "Runs", any_object(), |_cx, _args| async { "ran" }).accesses(|args| {
        vec![Access::Command(
            args["command"].as_str().unwrap_or_default().into(),
        )]
    })
}

fn read() -> FuncTool {
    FuncTool::new("Read", "Reads", any_object(), |_cx, _args| async { "read" })
        .side_effect(SideEffect::ReadOnly)
        .accesses(|args| {
            vec![Access::Read(
                args["path"].as_str().unwrap_or_default().into(),
            )]
        })
}

/// Returns rules of three origins.
fn permissions() -> PermissionRules {
    let config = |json: Value| PermissionConfig::from_json(&json.to_string()).unwrap();
    PermissionRules::new()
        .workspace("/w")
        .config(
            &config(json!({"deny": ["Read(*.pem)"], "ask": ["Bash(git push:*)"]})),
            "team.json",
        )
        .unwrap()
        .config(&config(json!({"allow": ["Bash(git:*)"]})), "mine.yaml")
        .unwrap()
        .deny("Bash(rm:*)")
        .unwrap()
}

/// Denies every call, and records the questions.
#[derive(Clone, Default)]
struct No(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Confirmer for No {
    async fn confirm(&self, request: &PermissionRequest, _asking: &Asking) -> Answer {
        self.0.lock().unwrap().push(request.question.clone());
        Answer::Deny("no".to_owned())
    }
}

#[tokio::test]
async fn run_decides_as_explain_reports() {
    let command = |text: &str| ("Bash", json!({"command": text}));
    for ((name, args), verdict, rule, source) in [
        (
            command("git log"),
            Behavior::Allow,
            "allow:Bash(git:*)",
            Some("mine.yaml"),
        ),
        (
            command("git -C a push"),
            Behavior::Ask,
            "ask:Bash(git push:*)",
            Some("team.json"),
        ),
        (
            command("git log && rm x"),
            Behavior::Deny,
            "deny:Bash(rm:*)",
            None,
        ),
        (command("id"), Behavior::Ask, "", None),
        (
            ("Read", json!({"path": "a/key.pem"})),
            Behavior::Deny,
            "deny:Read(*.pem)",
            Some("team.json"),
        ),
        (("Read", json!({"path": "a"})), Behavior::Allow, "", None),
        (
            command("cat a/key.pem"),
            Behavior::Deny,
            "deny:Read(*.pem)",
            Some("team.json"),
        ),
    ] {
        let call = ToolCall::new("call_1", name, args.clone());
        let tool: Box<dyn Tool> = match name {
            "Bash" => Box::new(bash()),
            _ => Box::new(read()),
        };
        let explained = permissions().explain(&call, &*tool);
        let named = explained.rule.as_ref().map(ToString::to_string);
        assert_eq!(explained.decision, verdict, "{args}: {explained}");
        assert_eq!(named.unwrap_or_default(), rule, "{args}: {explained}");
        assert_eq!(explained.source.as_deref(), source, "{args}: {explained}");

        let asked = No::default();
        let agent = agent(ScriptedModel::new().call(name, args.clone()).say("done"))
            .tools([bash(), read()])
            .permissions(permissions())
            .confirmer(asked.clone())
            .build()
            .unwrap();
        let (messages, _) = watch(agent.run("Go")).await;
        let denied = messages.iter().find_map(|message| match message {
            SdkMessage::System(event) => match &event.kind {
                SystemKind::PermissionDenied(denied) => Some((**denied).clone()),
                _ => None,
            },
            _ => None,
        });
        let questions = asked.0.lock().unwrap().clone();
        match verdict {
            Behavior::Allow => assert!(denied.is_none() && questions.is_empty(), "{args}"),
            Behavior::Deny => {
                let denied = denied.unwrap();
                assert_eq!(denied.decision_reason_type.as_deref(), Some("rule"));
                assert_eq!(
                    denied.decision_reason,
                    Some(explained.to_string()),
                    "{args}"
                );
                assert!(questions.is_empty());
            }
            Behavior::Ask => {
                assert_eq!(
                    denied.unwrap().decision_reason_type.as_deref(),
                    Some("user")
                );
                let why = explained.to_string();
                let why = why.strip_prefix("ask: ").unwrap();
                assert_eq!(questions.len(), 1);
                assert!(questions[0].ends_with(why), "{questions:?}: {why}");
            }
        }
    }
}

#[test]
fn behaviors_are_ordered_by_strictness() {
    assert!(Behavior::Allow < Behavior::Ask && Behavior::Ask < Behavior::Deny);
}
