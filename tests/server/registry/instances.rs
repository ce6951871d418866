//! The agents of users.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentcore::config::{AgentConfig, BackendCfg, HookChoice, SessionsCfg};
use agentcore::hook::before_agent;
use agentcore::hooks::{TodoListHook, TracingHook};
use agentcore::permission::PermissionConfig;
use agentcore::registry::{Instance, Registry};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{
    Agent, AgentBuilder, Decision, Error, ErrorKind, ExitReason, FuncTool, ModelEvent,
    OnUnanswered, SdkMessage,
};
use futures::future::join_all;
use serde_json::json;

use super::{empty, registry};
use crate::agents::AskAlways;

fn hooks(instance: &Instance) -> Vec<String> {
    let info = instance.agent().info();
    info.hooks.into_iter().map(|hook| hook.name).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn instances_share_the_configuration_of_their_template() {
    let registry = empty(ScriptedModel::new());
    registry
        .register_template("a", AgentConfig::new("m"))
        .unwrap();
    let ann = registry.get_or_clone("a", "ann").await.unwrap();
    let bob = registry.get_or_clone("a", "bob").await.unwrap();
    assert!(Arc::ptr_eq(&ann.config().unwrap(), &bob.config().unwrap()));
}

#[tokio::test]
async fn calls_at_the_same_time_make_one_instance() {
    let agent_count = Arc::new(AtomicUsize::new(0));
    let count = agent_count.clone();
    let registry = Registry::new().models(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(ScriptedModel::new())
    });
    let folder = tempfile::tempdir().unwrap();
    let workdir = folder.path().to_str().unwrap();
    let config = AgentConfig::new("m").with_backend(BackendCfg::local(workdir));
    registry.register_template("default", config).unwrap();

    let calls = (0..20).map(|_| registry.get_or_clone("default", "ann"));
    let instances: Vec<_> = join_all(calls)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert!(instances.iter().all(|one| Arc::ptr_eq(one, &instances[0])));
    assert_eq!(agent_count.load(Ordering::Relaxed), 1);

    let again = registry
        .clone()
        .get_or_clone("default", "ann")
        .await
        .unwrap();
    assert!(Arc::ptr_eq(&again, &instances[0]));
    registry.invalidate("default", Some("bob"));
    let again = registry.get_or_clone("default", "ann").await.unwrap();
    assert!(Arc::ptr_eq(&again, &instances[0]));
    registry.invalidate("default", Some("ann"));
    let again = registry.get_or_clone("default", "ann").await.unwrap();
    assert!(!Arc::ptr_eq(&again, &instances[0]));
}

#[tokio::test]
async fn instance_that_cannot_be_made_is_tried_again() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = attempts.clone();
    let registry = Registry::new().models(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 => Err(Error::new(ErrorKind::Auth, "there is no key")),
        _ => Ok(ScriptedModel::new()),
    });
    registry
        .register_template("default", AgentConfig::new("m"))
        .unwrap();
    let error = registry.get_or_clone("default", "ann").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Auth, "model: there is no key")
    );
    registry.get_or_clone("default", "ann").await.unwrap();
}

#[tokio::test]
async fn runs_of_an_instance_stream_the_pieces_of_answers() {
    let registry = registry(ScriptedModel::new().say("Hello!"));
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    let mut run = instance.session("th_1").run("Hi");
    let mut has_pieces = false;
    while let Some(message) = run.next().await {
        has_pieces |= matches!(message, SdkMessage::Partial(_));
    }
    assert!(has_pieces);
}

#[tokio::test]
async fn session_continues_when_the_agent_is_built_again() {
    let registry = registry(ScriptedModel::new().say("1").say("2").say("3"));
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    instance.session("th_1").run("Hi").await.unwrap();
    instance
        .set_hooks(&[], &names(&["todolist"]))
        .await
        .unwrap();
    instance.session("th_1").run("Hi").await.unwrap();
    registry.invalidate("default", None);
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    let output = instance.session("th_1").run("Hi").await.unwrap();
    assert_eq!(output.messages.len(), 6);
}

#[tokio::test]
async fn hooks_are_switched_for_one_user() {
    let registry = registry(ScriptedModel::new());
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    let bob = registry.get_or_clone("default", "bob").await.unwrap();
    ann.set_hooks(&[], &names(&["todolist", "summarization"]))
        .await
        .unwrap();
    assert_eq!(hooks(&ann), ["tracing", "filesystem"]);
    assert_eq!(
        hooks(&bob),
        ["tracing", "todolist", "filesystem", "summarization"]
    );

    ann.set_hooks(&names(&["todolist"]), &[]).await.unwrap();
    assert_eq!(hooks(&ann), ["tracing", "todolist", "filesystem"]);
    let overrides = serde_json::to_value(ann.overrides()).unwrap();
    assert_eq!(
        overrides["hooks"],
        json!({"summarization": false, "todolist": true})
    );
}

#[tokio::test]
async fn hook_that_the_template_has_off_can_be_switched_on() {
    let registry = empty(ScriptedModel::new());
    let config = AgentConfig::new("m").with_hooks(HookChoice::without(["todolist"]));
    registry.register_template("default", config).unwrap();
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    assert_eq!(hooks(&instance), ["tracing", "summarization"]);
    instance
        .set_hooks(&names(&["todolist"]), &[])
        .await
        .unwrap();
    assert_eq!(hooks(&instance), ["tracing", "todolist", "summarization"]);
}

#[tokio::test]
async fn unknown_and_fixed_hooks_are_refused_and_nothing_changes() {
    let registry = empty(ScriptedModel::new());
    let mut rules = PermissionConfig::default();
    rules.deny.push("write_todos".to_owned());
    let config = AgentConfig::new("m").with_permissions(rules);
    registry.register_template("default", config).unwrap();
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    for (enable, disable, text) in [
        (
            names(&[]),
            names(&["tracing", "todolst"]),
            "unknown hook \"todolst\"; did you mean \"todolist\"?",
        ),
        (
            names(&["tracing"]),
            names(&["permissions"]),
            "the hook \"permissions\" cannot be switched on or off; change the key \"permissions\"",
        ),
        (
            names(&["tracing"]),
            names(&["tracing"]),
            "the hook \"tracing\" cannot be both on and off",
        ),
    ] {
        let error = instance.set_hooks(&enable, &disable).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidRequest, text)
        );
    }
    assert_eq!(
        hooks(&instance),
        ["tracing", "todolist", "summarization", "permissions"]
    );
    assert!(instance.overrides().hooks.is_empty());
}

#[tokio::test]
async fn hooks_of_a_builder_are_switched_by_their_names() {
    let registry = empty(ScriptedModel::new());
    let builder = Agent::builder(ScriptedModel::new())
        .hook(TracingHook::new())
        .hook(TodoListHook::new());
    registry.register_template("default", builder).unwrap();
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    instance.set_hooks(&[], &names(&["tracing"])).await.unwrap();
    assert_eq!(hooks(&instance), ["todolist"]);
    let error = instance
        .set_hooks(&[], &names(&["memory"]))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown hook \"memory\"; use one of: tracing, todolist"
    );
    assert!(instance.config().is_none() && instance.backend().is_none());
}

#[tokio::test]
async fn user_may_switch_only_what_the_template_has_on() {
    let registry = empty(ScriptedModel::new());
    let config = AgentConfig::new("m").with_hooks(HookChoice::without(["filesystem"]));
    registry.register_template("default", config).unwrap();
    let builder = Agent::builder(ScriptedModel::new())
        .hook(TodoListHook::new())
        .hook(before_agent("guard", |_, state| async { Ok(state) }));
    registry.register_template("guarded", builder).unwrap();

    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    let todolist = names(&["todolist"]);
    instance.set_hooks_as_user(&[], &todolist).await.unwrap();
    instance.set_hooks_as_user(&todolist, &[]).await.unwrap();
    let filesystem = names(&["filesystem"]);
    let error = instance
        .set_hooks_as_user(&filesystem, &[])
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (
            ErrorKind::PermissionDenied,
            "the agent \"default\" has the hook \"filesystem\" off; only an admin may switch it on"
        )
    );

    let guarded = registry.get_or_clone("guarded", "ann").await.unwrap();
    let guard = names(&["guard"]);
    let error = guarded.set_hooks_as_user(&[], &guard).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    guarded.set_hooks_as_user(&[], &todolist).await.unwrap();
    assert_eq!(hooks(&guarded), ["guard"]);
    guarded.set_hooks(&[], &guard).await.unwrap();
    assert!(hooks(&guarded).is_empty());
}

/// Creates a registry whose template stores files in a folder, and a counter of the created agents.
fn counted(folder: &std::path::Path) -> (Registry, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let registry = Registry::new().models(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(ScriptedModel::new())
    });
    let backend = BackendCfg::local(folder.to_str().unwrap());
    let config = AgentConfig::new("m").with_backend(backend);
    registry.register_template("default", config).unwrap();
    (registry, count)
}

#[tokio::test(start_paused = true)]
async fn instance_that_is_idle_for_an_hour_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (registry, count) = counted(folder.path());
    let get = async |user: &str| registry.get_or_clone("default", user).await.unwrap();
    let ann = get("ann").await;
    ann.backend().unwrap().write("a", b"of Ann").await.unwrap();
    drop(ann);
    let bob = get("bob").await;
    let cy = get("cy").await;
    cy.set_hooks(&[], &names(&["todolist"])).await.unwrap();
    drop(cy);

    tokio::time::advance(Duration::from_secs(59 * 60)).await;
    get("ann").await;
    assert_eq!(count.load(Ordering::Relaxed), 4);
    tokio::time::advance(Duration::from_secs(61 * 60)).await;
    get("dan").await;
    assert!(registry.backends().get("default", "ann").is_none());
    assert!(registry.backends().get("default", "bob").is_some());
    assert!(Arc::ptr_eq(&bob, &get("bob").await));
    assert!(!hooks(&*get("cy").await).contains(&"todolist".to_owned()));
    assert_eq!(count.load(Ordering::Relaxed), 6);

    let files = get("ann").await.backend().unwrap();
    assert_eq!(files.read("a").await.unwrap(), b"of Ann"[..]);
    assert_eq!(count.load(Ordering::Relaxed), 7);
    drop(files);

    registry.invalidate("default", Some("cy"));
    assert!(hooks(&*get("cy").await).contains(&"todolist".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn least_recently_used_instance_is_dropped_above_1024() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let registry = Registry::new().models(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(ScriptedModel::new())
    });
    registry
        .register_template("default", AgentConfig::new("m"))
        .unwrap();
    let get = async |number: usize| {
        let user = format!("u{number}");
        tokio::time::advance(Duration::from_millis(1)).await;
        registry.get_or_clone("default", &user).await.unwrap();
        count.load(Ordering::Relaxed)
    };
    for number in 0..1_024 {
        get(number).await;
    }
    assert_eq!(get(0).await, 1_024);
    assert_eq!(get(1_024).await, 1_025);
    assert_eq!(get(0).await, 1_025);
    assert_eq!(get(1).await, 1_026);
    for number in 0..1_100 {
        let user = format!("u{number}");
        let instance = registry.get_or_clone("default", &user).await.unwrap();
        let todolist = names(&["todolist"]);
        instance.set_hooks_as_user(&[], &todolist).await.unwrap();
    }
    let first = registry.get_or_clone("default", "u0").await.unwrap();
    assert!(!hooks(&first).contains(&"todolist".to_owned()));
    assert!(format!("{registry:?}").contains("instances: 1024"));
}

#[tokio::test]
async fn tools_have_their_sources() {
    let registry = empty(ScriptedModel::new());
    let config = AgentConfig::new("m")
        .with_backend(BackendCfg::state())
        .with_tools(["request_user_input"]);
    registry.register_template("default", config).unwrap();
    let any = json!({"type": "object"});
    let tool = agentcore::FuncTool::new("add", "Adds", any, |_, _| async { "5" });
    registry.tools().register(tool).unwrap();
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    let tools = serde_json::to_value(instance.tools()).unwrap();
    let source = |name: &str| {
        let tool = tools
            .as_array()
            .unwrap()
            .iter()
            .find(|tool| tool["name"] == name);
        tool.map(|tool| tool["source"].clone())
    };
    assert_eq!(source("add"), Some("external".into()));
    assert_eq!(source("read_file"), Some("filesystem".into()));
    assert_eq!(source("write_todos"), Some("todolist".into()));
    assert_eq!(source("request_user_input"), Some("builtin".into()));
}

#[tokio::test]
async fn skills_are_those_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let skill = folder.path().join("greet");
    std::fs::create_dir(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: greet\ndescription: Greets\n---\n",
    )
    .unwrap();
    let registry = empty(ScriptedModel::new());
    let config = AgentConfig::new("m")
        .with_backend(BackendCfg::state())
        .with_skills([folder.path().to_str().unwrap()]);
    registry.register_template("default", config).unwrap();
    let instance = registry.get_or_clone("default", "ann").await.unwrap();
    let skills = instance.skills().await;
    assert_eq!(skills.len(), 1);
    assert_eq!(
        (&*skills[0].name, &*skills[0].description),
        ("greet", "Greets")
    );
}

/// The call waits longer than the default store keeps a session, as on a server.
#[tokio::test(start_paused = true)]
async fn call_that_waits_in_the_default_store_is_decided_hours_later() {
    let model = ScriptedModel::new().call("act", json!({})).say("Done.");
    let act = FuncTool::new("act", "Acts", json!({"type": "object"}), |_, _| async {
        "acted"
    });
    let builder = AgentBuilder::new(model).tool(act).permissions(AskAlways);
    let registry = Registry::new().complete_with(|builder| {
        builder
            .unanswered(OnUnanswered::Park)
            .approval_expiry(Duration::from_secs(24 * 3_600))
    });
    registry.register_template("default", builder).unwrap();
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    let output = ann.session("th_1").run("Go").await.unwrap();
    assert_eq!(output.end, ExitReason::AwaitingApproval);
    let call = output.pending()[0].clone();
    drop(ann);

    tokio::time::advance(Duration::from_secs(23 * 3_600)).await;
    let ann = registry.get_or_clone("default", "ann").await.unwrap();
    let decisions = vec![Decision::allow(&call)];
    let output = ann.session("th_1").resume(decisions).await.unwrap();
    assert_eq!(output.text, "Done.");
}

#[tokio::test]
async fn stores_in_memory_have_at_most_a_thousand_sessions() {
    for sessions in [None, Some(SessionsCfg::default())] {
        let model = || FunctionModel::new(|_| vec![Ok(ModelEvent::Text("hello".into()))]);
        let registry = Registry::new().models(move |_| Ok(model()));
        let mut config = AgentConfig::new("m").with_backend(BackendCfg::state());
        config.sessions = sessions;
        registry.register_template("default", config).unwrap();
        let instance = registry.get_or_clone("default", "ann").await.unwrap();
        let agent = instance.agent();
        for _ in 0..1_010 {
            agent.run("hi").await.unwrap();
        }
        assert_eq!(agent.sessions().await.unwrap().len(), 1_000);
    }
}
