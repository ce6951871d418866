//! Rules, modes and grants for calls whose accesses are not declared or go through links.

use std::sync::{Arc, Mutex};

use agentcore::permission::{Behavior, PermissionRules, Rule};
use agentcore::testing::ScriptedModel;
use agentcore::tool::{Access, Asking, Confirmer};
use agentcore::{
    AgentBuilder, Answer, FuncTool, PermissionMode, PermissionRequest, ToolCall, async_trait,
};
use serde_json::{Value, json};

use crate::kit::any_object;

fn tool(name: &str) -> FuncTool {
    FuncTool::new(name, "A tool", any_object(), |_cx, _args| async { "done" })
}

fn decide(rules: &[&str], name: &str, args: Value) -> Behavior {
    let rules = rules.iter().map(|rule| rule.parse::<Rule>().unwrap());
    let permissions = PermissionRules::new()
        .home("/h/me")
        .workspace("/h/me/project");
    let permissions = rules.fold(permissions, PermissionRules::rule);
    let call = ToolCall::new("c", name, args);
    permissions.explain(&call, &tool(name)).decision
}

#[test]
fn call_with_too_many_paths_for_the_number_of_rules_is_a_question() {
    let rules = PermissionRules::new().allow("Read").unwrap();
    let rules = (0..10).fold(rules, |rules, number| {
        rules.deny(&format!("Read(secrets{number}/**)")).unwrap()
    });
    let explain = |count| {
        let call = ToolCall::new("c", "Read", json!({"paths": vec!["src/a"; count]}));
        rules.explain(&call, &tool("Read"))
    };

    assert_eq!(explain(100).decision, Behavior::Allow);
    let explanation = explain(20_000);
    assert_eq!(explanation.decision, Behavior::Ask);
    let why = "it has 20000 paths, addresses and commands, too many";
    assert!(explanation.why.contains(why), "{explanation}");
}

#[test]
fn address_that_is_too_long_may_be_any_address() {
    let args = |len| json!({"url": format!("https://a.test/{}", "x".repeat(len))});
    for (rule, len, decision) in [
        ("allow:WebFetch(domain:a.test)", 60_000, Behavior::Allow),
        ("allow:WebFetch(domain:a.test)", 70_000, Behavior::Ask),
        ("deny:WebFetch(domain:b.test)", 70_000, Behavior::Deny),
    ] {
        assert_eq!(decide(&[rule], "WebFetch", args(len)), decision, "{rule}");
    }
}

#[test]
fn deny_rule_and_undeclared_arguments_in_any_spelling_are_not_allowed() {
    for (rules, name, args) in [
        (
            ["allow:copy", "deny:Read(secrets/**)"],
            "copy",
            json!({"file_path": "src/a", "path": "secrets/key"}),
        ),
        (
            ["allow:mcp__x", "deny:Read(secrets/**)"],
            "mcp__x__read",
            json!({"uri": "file:///h/me/project/secrets/key"}),
        ),
        (
            ["allow:mcp__x", "deny:Bash(rm:*)"],
            "mcp__x__run",
            json!({"command": "ls", "cmd": "rm -rf src"}),
        ),
        (
            ["allow:mcp__x", "deny:Bash(rm:*)"],
            "mcp__x__run",
            json!({"command": ["rm", "-rf", "src"]}),
        ),
        (
            ["allow:mcp__x", "deny:Read(secrets/**)"],
            "mcp__x__move",
            json!({"files": [{"source": "secrets/key", "destination": "x"}]}),
        ),
        (
            ["allow:mcp__x", "deny:Read(secrets/**)"],
            "mcp__x__read",
            json!({"from": "FILE://localhost/h/me/project/%73ecrets/key"}),
        ),
        (
            ["allow:mcp__x", "deny:Bash(rm:*)"],
            "mcp__x__run",
            json!({"program": "rm", "args": ["-rf", "src"]}),
        ),
        (
            ["allow:mcp__x", "deny:WebFetch(domain:evil.test)"],
            "mcp__x__get",
            json!({"href": "https://evil.test/"}),
        ),
        (
            ["allow:mcp__x", "deny:Read(secrets/**)"],
            "mcp__x__read",
            json!({"names": vec!["a"; 300]}),
        ),
        (
            ["allow:mcp__x", "deny:Read({secrets,keys}/**)"],
            "mcp__x__read",
            json!({"path": "keys/a"}),
        ),
        (
            ["allow:Deploy", "deny:Deploy(target:prod)"],
            "Deploy",
            json!({"target": ["prod"]}),
        ),
        (
            ["allow:Pay", "deny:Pay(amount:100)"],
            "Pay",
            json!({"amount": 1e2}),
        ),
        (
            ["allow:Skill", "deny:Skill(deploy *)"],
            "Skill",
            json!({"agent": "x", "skill": "deploy prod"}),
        ),
    ] {
        let decision = decide(&rules, name, args.clone());
        assert_ne!(decision, Behavior::Allow, "{rules:?} {args}");
    }
}

#[test]
fn undeclared_address_in_the_spelling_of_a_client_is_not_allowed() {
    let decision = |rule: &str, href: &str| {
        let rule = format!("deny:WebFetch({rule})");
        decide(
            &["allow:mcp__x", &rule],
            "mcp__x__get",
            json!({"href": href}),
        )
    };
    for (rule, href) in [
        ("domain:127.0.0.1", "http://0177.0.0.1:8080/x"),
        ("domain:127.0.0.1", "http://2130706433:8080/x"),
        ("domain:127.0.0.1", "http://0x7f.1/x"),
        ("domain:127.0.0.1", "http://0X7F.0.0x1./x"),
        ("http://127.0.0.1:8080/**", "http://017700000001:08080/x"),
        ("domain:evil.test", "http://a:b@evil.test/"),
        ("domain:evil.test", "http://ev%69l%2etest/"),
        ("http://evil.test:8080/**", "http://evil.test:08080/x"),
        ("domain:evil.test", "http://evil.test/docs/..;/x"),
        ("domain:evil.test", "http://evil.test/docs/..;x//../a"),
    ] {
        assert_ne!(decision(rule, href), Behavior::Allow, "{rule} {href}");
    }
    for href in [
        "http://127.2/x",
        "http://1.2.3.4.5/x",
        "http://127.0.0.0x/x",
        "http://256.1/x",
        "http://4294967296/x",
        "127.1",
        "evil@127.0.0.1",
    ] {
        assert_eq!(
            decision("domain:127.0.0.1", href),
            Behavior::Allow,
            "{href}"
        );
    }
}

#[test]
fn accepted_edit_without_a_known_path_is_a_question() {
    let permissions = PermissionRules::new().mode(PermissionMode::AcceptEdits);
    let tool = tool("create_file");
    let args = json!({"filename": "/etc/cron.d/x", "content": "x"});
    let call = ToolCall::new("c", "create_file", args);
    assert_eq!(permissions.explain(&call, &tool).decision, Behavior::Ask);
}

/// Answers every question with a grant for the session, and records the arguments of the calls.
struct Grant(Arc<Mutex<Vec<Value>>>);

#[async_trait]
impl Confirmer for Grant {
    async fn confirm(&self, request: &PermissionRequest, _asking: &Asking) -> Answer {
        self.0.lock().unwrap().push((*request.input).clone());
        Answer::AllowForSession
    }
}

#[tokio::test(start_paused = true)]
async fn session_grant_covers_neither_another_tool_nor_other_arguments_nor_another_port() {
    let edit = tool("Edit").accesses(|args| {
        let path = args["path"].as_str().unwrap_or_default();
        vec![Access::Write(path.into())]
    });
    let fetch = tool("WebFetch").accesses(|args| {
        let url = args["url"].as_str().unwrap_or_default();
        vec![Access::Url(url.into())]
    });
    let calls = [
        ("Edit", json!({"path": "src/a"})),
        ("delete_file", json!({"path": "src/a"})),
        ("fs", json!({"path": "src/a", "mode": "stat"})),
        ("fs", json!({"path": "src/a", "mode": "delete"})),
        ("WebFetch", json!({"url": "https://x.test/a"})),
        ("WebFetch", json!({"url": "http://x.test:22/b"})),
    ];
    let again = [
        ("Edit", json!({"path": "src/a"})),
        ("fs", json!({"path": "src/a", "mode": "stat"})),
        ("WebFetch", json!({"url": "https://x.test/c"})),
    ];
    let model = ScriptedModel::new();
    let model = calls
        .iter()
        .chain(&again)
        .fold(model, |model, (name, args)| model.call(*name, args.clone()));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let agent = AgentBuilder::new(model.say("done"))
        .tool(edit)
        .tool(fetch)
        .tool(tool("delete_file"))
        .tool(tool("fs"))
        .permissions(PermissionRules::new())
        .confirmer(Grant(asked.clone()))
        .build()
        .unwrap();
    agent.run("go").await.unwrap();
    let args: Vec<_> = calls.into_iter().map(|(_, args)| args).collect();
    assert_eq!(*asked.lock().unwrap(), args);
}

#[cfg(unix)]
#[test]
fn deny_rule_about_a_link_covers_the_folder_that_it_leads_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| format!("{}/{name}", folder.path().display());
    std::fs::create_dir(path("real")).unwrap();
    std::os::unix::fs::symlink(path("real"), path("link")).unwrap();
    let denied = format!("deny:Read({}/**)", path("link"));
    let decision = decide(
        &["allow:Read", &denied],
        "Read",
        json!({"path": path("real/key")}),
    );
    assert_eq!(decision, Behavior::Deny);
}
