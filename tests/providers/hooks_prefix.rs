//! The prefix of requests, byte by byte, with all hooks that read the workspace.

use std::collections::BTreeSet;

use agentcore::backend::{Backend, MemoryBackend};
use agentcore::hooks::{FilesystemHook, MemoryHook, SkillsHook, TodoListHook};
use agentcore::providers::Anthropic;
use agentcore::testing::fault_server::Received;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Agent, AgentBuilder};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::kit::hooks::golden;
use crate::kit::serving::{events, serve};

const ANSWER: &str = include_str!("../data/anthropic/text.sse");

/// An answer that calls one tool.
fn call(id: &str, name: &str, args: &Value) -> Reply {
    let start = json!({"type": "message_start", "message": {"id": "m", "type": "message",
        "role": "assistant", "model": "claude-sonnet-4-5", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 1, "output_tokens": 1}}});
    let block = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}});
    let delta = json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": args.to_string()}});
    let stop = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 2}});
    let all = [
        start,
        block,
        delta,
        json!({"type": "content_block_stop", "index": 0}),
        stop,
        json!({"type": "message_stop"}),
    ];
    let text: String = all
        .iter()
        .map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    events(&text)
}

/// Returns the tools and the system prompt as they were sent, which a provider caches first.
fn prefix(request: &Received) -> (String, String) {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        tools: &'a RawValue,
        #[serde(borrow)]
        system: &'a RawValue,
    }
    let body: Body<'_> = serde_json::from_slice(&request.body).unwrap();
    (body.tools.get().to_owned(), body.system.get().to_owned())
}

fn agent(server: &FaultServer, backend: &MemoryBackend) -> Agent {
    let model = Anthropic::new("claude-sonnet-4-5", "sk-test-123456").base_url(server.url());
    AgentBuilder::new(model)
        .system_prompt("You are a coding assistant.")
        .hook(TodoListHook::new())
        .hook(FilesystemHook::new(backend.clone()))
        .hook(SkillsHook::new(backend.clone()))
        .hook(MemoryHook::new(backend.clone()))
        .build()
        .unwrap()
}

fn turns() -> Vec<Reply> {
    let write = |path: &str, content: &str| json!({"path": path, "content": content});
    vec![
        call("a", "write_todos", &json!({"todos": [{"title": "Look"}]})),
        call("b", "write_file", &write("notes.txt", "x")),
        // Hooks read the files once per run, so these changes affect only later runs.
        call("c", "write_file", &write("AGENTS.md", "changed")),
        call("d", "write_file", &write("skills/new/SKILL.md", "new")),
        events(ANSWER),
    ]
}

#[tokio::test]
async fn request_prefix_is_identical_between_turns_and_runs() {
    let backend = MemoryBackend::new();
    let skill = b"---\nname: greet\ndescription: Greet\n---\n";
    backend.write("skills/greet/SKILL.md", skill).await.unwrap();
    backend.write("AGENTS.md", b"- Be kind\n").await.unwrap();
    let replies = turns().into_iter().chain([events(ANSWER), events(ANSWER)]);
    let server = serve(replies).await;
    let agent = agent(&server, &backend);

    agent.session("s").run("Go").await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    let prefixes: BTreeSet<_> = requests.iter().map(prefix).collect();
    assert_eq!(prefixes.len(), 1, "{prefixes:#?}");
    let system: Value = serde_json::from_str(&prefix(&requests[0]).1).unwrap();
    let texts: Vec<&str> = system
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["text"].as_str().unwrap())
        .collect();
    assert_eq!(
        texts.join("\n\n"),
        golden(include_str!("../data/hooks/prompt.txt"))
    );

    // The next run has the changed files, and the run after it has the same bytes.
    agent.session("s").run("Go on").await.unwrap();
    agent.session("other").run("Go").await.unwrap();
    let requests = server.requests();
    assert_ne!(prefix(&requests[5]).1, prefix(&requests[0]).1);
    assert_eq!(prefix(&requests[5]).0, prefix(&requests[0]).0);
    assert_eq!(prefix(&requests[5]), prefix(&requests[6]));
    assert!(prefix(&requests[5]).1.contains("changed"));
}
