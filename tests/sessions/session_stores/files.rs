//! Session files: their names, their form and their permissions, and concurrent writers.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use agentcore::session::JsonlStore;
use agentcore::session::Record;
use agentcore::testing::ScriptedModel;
use agentcore::{AgentState, ErrorKind, Message, SessionStore, ToolCall, ToolResult};
use serde_json::{Value, json};

use super::places::{Held, let_go, said};
use crate::kit;

type Files = Held<JsonlStore>;

impl Files {
    fn path(&self, name: &str) -> PathBuf {
        self.store.folder().join(name)
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(files: &Files) -> Vec<String> {
    let entries = fs::read_dir(files.store.folder()).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn session_files_are_readable_by_the_owner_only() {
    let files = Files::new();
    files.say("a", &["Hi"]).await;
    assert_eq!(mode(files.store.folder()), 0o700);
    assert_eq!(mode(&files.path("a.jsonl")), 0o600);
}

#[tokio::test]
async fn session_file_appends_json_lines_and_changes_none() {
    let files = Files::new();
    files.say("a", &["one", "two"]).await;
    let before = fs::read(files.path("a.jsonl")).unwrap();
    let lease = files.store.lease("a").await.unwrap();
    let mut state = files.store.load("a").await.unwrap().unwrap().state;
    state.messages.push(Message::ai("three"));
    files.store.save(&lease, &state).await.unwrap();
    let after = fs::read(files.path("a.jsonl")).unwrap();
    assert!(after.starts_with(&before));
    let text = String::from_utf8(after).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seqs: Vec<_> = lines
        .iter()
        .map(|line| line["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, [1, 2, 3]);
    let tokens: Vec<_> = lines
        .iter()
        .map(|line| line["token"].as_u64().unwrap())
        .collect();
    assert_eq!(tokens, [1, 1, 2]);
    assert_eq!(lines[2]["kind"], "message");
    assert_eq!(lines[2]["data"]["message"]["content"], "three");
    assert_eq!(lines[0].get("info"), None, "the write has further records");
    assert_eq!(lines[1]["info"]["messages"], 2);
}

#[tokio::test]
async fn save_writes_only_differences() {
    let files = Files::new();
    let long = "x".repeat(1_000);
    let many = vec![&*long; 1_000];
    files.say("a", &many).await;
    let len = || fs::metadata(files.path("a.jsonl")).unwrap().len();
    let lease = files.store.lease("a").await.unwrap();
    let mut state = files.store.load("a").await.unwrap().unwrap().state;
    let before = len();
    files.store.save(&lease, &state).await.unwrap();
    assert_eq!(len(), before, "nothing has changed");
    state.messages.insert(999, Message::ai("in between"));
    state.files = std::sync::Arc::new([("a".into(), "b".into())].into());
    files.store.save(&lease, &state).await.unwrap();
    assert!(len() - before < 3_000, "{before} {}", len());
    let rebuilt = serde_json::to_string(&state).unwrap();
    let rebuilt: AgentState = serde_json::from_str(&rebuilt).unwrap();
    let before = len();
    files.store.save(&lease, &rebuilt).await.unwrap();
    assert_eq!(len(), before, "equal messages are not written again");
}

#[tokio::test]
async fn record_too_deep_to_be_read_back_is_rejected() {
    let files = Files::new();
    let lease = files.store.lease("a").await.unwrap();
    let mut refused = 0;
    for depth in [1, 100, 110, 115, 120, 125, 130, 500] {
        let nested = (0..depth).fold(json!(1), |inner, _| json!([inner]));
        let call = ToolCall::new("call_1", "act", json!({}));
        let mut result = ToolResult::failed(&call, "deep");
        result.details = Some(nested);
        let record = Record::Message {
            message: Message::Tool(result).into(),
            input_id: None,
        };

        let before = files.store.load("a").await.unwrap().unwrap_or_default();
        match files.store.append(&lease, vec![record]).await {
            Ok(()) => assert_eq!(refused, 0, "{depth}"),
            Err(error) => {
                refused += 1;
                assert_eq!(error.kind(), ErrorKind::InvalidMessages);
                assert!(error.text().contains("read again"), "{error}");
            }
        }

        let other = JsonlStore::open(files.store.folder()).unwrap();
        let after = other.load("a").await.unwrap().unwrap_or_default();
        let added = usize::from(refused == 0);
        assert_eq!(
            after.state.messages.len(),
            before.state.messages.len() + added
        );
        assert!(after.damage.is_empty());
    }

    assert!((1..8).contains(&refused), "{refused}");
}

#[tokio::test]
async fn input_ids_are_listed_until_the_state_is_saved() {
    let files = Files::new();
    let input = |id: &str| Record::Message {
        message: Message::human(id).into(),
        input_id: Some(id.into()),
    };

    let lease = files.store.lease("a").await.unwrap();
    let records = ["1", "2", "3"].map(input).into();
    files.store.append(&lease, records).await.unwrap();
    let other = JsonlStore::open(files.store.folder()).unwrap();
    let known = async || {
        let ids = other.load("a").await.unwrap().unwrap().input_ids;
        ids.join(" ")
    };

    assert_eq!(known().await, "1 2 3");
    let mut state = files.store.load("a").await.unwrap().unwrap().state;
    state.messages.insert(0, Message::ai("in front"));
    files.store.save(&lease, &state).await.unwrap();
    assert_eq!(
        known().await,
        "",
        "`save` of other messages removes the input ids"
    );
    files.store.append(&lease, vec![input("4")]).await.unwrap();
    assert_eq!(known().await, "4");
}

#[tokio::test]
async fn repeated_input_in_another_process_returns_the_stored_answer() {
    let files = Files::new();
    let agent = |model: ScriptedModel| {
        let store = JsonlStore::open(files.store.folder()).unwrap();
        kit::agent(model).store(store).build().unwrap()
    };

    let first = agent(ScriptedModel::new().say("One.").say("Two."));
    let session = first.session("s");
    session.clone().input_id("in_1").run("1").await.unwrap();
    session.input_id("in_2").run("2").await.unwrap();
    let silent = agent(ScriptedModel::new());
    let again = silent.session("s").input_id("in_1").run("1").await.unwrap();
    assert_eq!(again.text, "One.");
    assert_eq!(again.state.messages.len(), 4);
}

#[tokio::test]
async fn session_file_names_are_reversible_and_portable() {
    let mut files = Files::new();
    for (id, name) in [
        ("th_8f3a2b", "th_8f3a2b.jsonl"),
        ("A", "%41.jsonl"),
        ("..", "%2E%2E.jsonl"),
        ("a/b", "a%2Fb.jsonl"),
        ("telegram:1", "telegram%3A1.jsonl"),
        ("\u{e4}", "%C3%A4.jsonl"),
    ] {
        files.say(id, &[id]).await;
        assert!(files.path(name).is_file(), "{name}");
    }

    // None of these names is the name of a session file.
    for name in [
        "%61.jsonl",
        "b.json",
        "B.jsonl",
        "%zz.jsonl",
        ".jsonl",
        "a%2fb.jsonl",
    ] {
        fs::write(files.path(name), "x").unwrap();
    }

    fs::create_dir(files.path("folder")).unwrap();
    files.reopen();
    let list = files.store.list().await.unwrap();
    let mut ids: Vec<_> = list.iter().map(|info| &*info.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["..", "A", "a/b", "telegram:1", "th_8f3a2b", "\u{e4}"]);
    let long = files.store.lease(&"x".repeat(241)).await.unwrap_err();
    assert_eq!(long.kind(), ErrorKind::InvalidRequest);
    assert!(long.text().contains("240"), "{long}");
    files.say(&"x".repeat(240), &["fits"]).await;
}

#[tokio::test]
async fn session_of_a_subagent_has_a_file_in_a_thread_with_a_long_id() {
    let files = Files::new();
    let thread = "A".repeat(50) + &"x".repeat(60);
    let helper = kit::agent(ScriptedModel::new().say("Quiet."))
        .store(files.store.clone())
        .build()
        .unwrap();
    let model = ScriptedModel::new()
        .call("helper", json!({"task": "Look"}))
        .say("done");
    let lead = kit::agent(model)
        .tool(helper.as_tool("helper", "Helps"))
        .store(files.store.clone())
        .build()
        .unwrap();
    let session = lead.session(thread.as_str());
    let output = session.clone().run("Go").await.unwrap();
    assert_eq!(kit::result_texts(&output.messages), ["Quiet."]);
    let children = files.store.children(&thread).await.unwrap();
    assert_eq!(children.len(), 1);
    assert!(children[0].starts_with(&format!("{thread}:sub:")));
    assert!(session.delete().await.unwrap());
    assert!(files.store.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn path_that_is_not_a_regular_file_is_an_error() {
    let files = Files::new();
    fs::create_dir(files.path("a.jsonl")).unwrap();
    for error in [
        files.store.lease("a").await.unwrap_err(),
        files.store.load("a").await.unwrap_err(),
        files.store.delete("a").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(
            error.text().contains("a.jsonl: it is not a regular file"),
            "{error}"
        );
    }

    // Other sessions are listed and continue.
    let lease = files.store.lease("c").await.unwrap();
    files.store.append(&lease, vec![said("one")]).await.unwrap();
    drop(lease);
    let list = files.store.list().await.unwrap();
    let problems: Vec<_> = list
        .iter()
        .map(|info| (&*info.id, info.problem.is_some()))
        .collect();
    assert_eq!(problems, [("c", false), ("a", true)]);
    assert_eq!(
        files.store.prune(std::time::Duration::ZERO).await.unwrap(),
        1
    );
    let file = files.path("b");
    fs::write(&file, "").unwrap();
    let error = JsonlStore::open(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[tokio::test]
async fn symbolic_link_in_place_of_a_session_file_is_rejected() {
    let files = Files::new();
    let outside = files.path("outside");
    fs::write(&outside, "of somebody else\n").unwrap();
    symlink(&outside, files.path("a.jsonl")).unwrap();
    symlink(files.path("missing"), files.path("b.jsonl")).unwrap();
    for id in ["a", "b"] {
        for error in [
            files.store.lease(id).await.unwrap_err(),
            files.store.load(id).await.unwrap_err(),
            files.store.delete(id).await.unwrap_err(),
        ] {
            assert!(error.text().contains("not a regular file"), "{error}");
        }
    }

    assert!(!files.path("missing").exists());
}

/// Creates something other than a regular file at the path for damaged parts.
type Obstruct = fn(&Files, &str);

const OBSTACLES: [Obstruct; 4] = [
    |files, name| {
        let status = Command::new("mkfifo").arg(files.path(name)).status();
        assert!(status.unwrap().success());
    },
    |files, name| fs::create_dir(files.path(name)).unwrap(),
    |files, name| symlink(files.path("outside"), files.path(name)).unwrap(),
    |files, name| fs::hard_link(files.path("outside"), files.path(name)).unwrap(),
];

#[tokio::test]
async fn damaged_parts_are_stored_next_to_an_entry_with_the_name_of_their_file() {
    for obstruct in OBSTACLES {
        let files = Files::new();
        fs::write(files.path("outside"), "of somebody else\n").unwrap();
        fs::write(files.path("a.jsonl"), "damaged\n").unwrap();
        obstruct(&files, "a.damaged");
        let lease = files.store.lease("a").await.unwrap();
        let session = files.store.load("a").await.unwrap().unwrap_or_default();
        let [damage] = &session.damage[..] else {
            panic!("{:?}", session.damage);
        };
        let place = files.path("a.2.damaged");
        assert_eq!(damage.kept_in.as_deref(), place.to_str());
        assert!(fs::read_to_string(place).unwrap().contains("damaged"));
        let content = fs::read_to_string(files.path("outside")).unwrap();
        assert_eq!(content, "of somebody else\n");
        drop(lease);
        files.say("a", &["Hi"]).await;
        assert_eq!(files.texts("a").await, ["Hi"]);
    }
}

#[tokio::test]
async fn damage_without_a_place_is_an_error_that_names_a_remedy() {
    for obstruct in OBSTACLES {
        let files = Files::new();
        fs::write(files.path("outside"), "of somebody else\n").unwrap();
        fs::write(files.path("a.jsonl"), "damaged\n").unwrap();
        for name in ["a.damaged", "a.2.damaged", "a.3.damaged", "a.4.damaged"] {
            obstruct(&files, name);
        }
        let error = files.store.lease("a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        for part in ["a.damaged: it is", "move it away"] {
            assert!(error.text().contains(part), "{error}");
        }
        let log = fs::read_to_string(files.path("a.jsonl")).unwrap();
        assert_eq!(log, "damaged\n");
        let content = fs::read_to_string(files.path("outside")).unwrap();
        assert_eq!(content, "of somebody else\n");
    }
}

#[tokio::test]
async fn removed_session_leaves_no_file_of_damaged_parts() {
    let files = Files::new();
    files.say("a", &["Hi"]).await;
    fs::write(files.path("a.damaged"), "").unwrap();
    fs::write(files.path("a.3.damaged"), "").unwrap();
    assert!(files.store.delete("a").await.unwrap());
    assert!(names(&files).is_empty());
}

#[tokio::test]
async fn lease_excludes_other_stores_over_one_folder() {
    let files = Files::new();
    let other = JsonlStore::open(files.store.folder()).unwrap();
    let lease = files.store.lease("a").await.unwrap();
    for kind in [
        other.lease("a").await.unwrap_err().kind(),
        other
            .create("a", Default::default())
            .await
            .unwrap_err()
            .kind(),
    ] {
        assert_eq!(kind, ErrorKind::SessionBusy);
    }

    files.store.append(&lease, vec![said("one")]).await.unwrap();
    assert_eq!(
        other.delete("a").await.unwrap_err().kind(),
        ErrorKind::SessionBusy
    );
    assert_eq!(other.prune(std::time::Duration::ZERO).await.unwrap(), 0);
    assert_eq!(
        other.load("a").await.unwrap().unwrap().state.messages.len(),
        1
    );
    let_go(lease);
    let lease = other.lease("a").await.unwrap();
    assert_eq!(
        lease.token(),
        2,
        "the token continues that of the other store"
    );
    other.append(&lease, vec![said("two")]).await.unwrap();
    drop(lease);
    assert_eq!(files.texts("a").await, ["one", "two"]);
}

#[tokio::test]
async fn append_to_a_file_changed_by_another_writer_is_a_conflict() {
    let files = Files::new();
    let lease = files.store.lease("a").await.unwrap();
    files.store.append(&lease, vec![said("one")]).await.unwrap();
    let path = files.path("a.jsonl");
    let mut content = fs::read(&path).unwrap();
    content.extend_from_slice(b"\n");
    fs::write(&path, &content).unwrap();
    let error = files
        .store
        .append(&lease, vec![said("two")])
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(fs::read(&path).unwrap(), content);
    let again = files.store.append(&lease, vec![said("two")]).await;
    assert!(
        again.is_err(),
        "writes fail until the session is read again"
    );
    drop(lease);
    files.say("a", &["three"]).await;
    assert_eq!(files.texts("a").await, ["one", "three"]);
}

#[tokio::test]
async fn append_to_a_removed_or_replaced_file_is_an_error() {
    let files = Files::new();
    let path = files.path("a.jsonl");
    let moved = files.path("moved");
    type Spoil = fn(&Path, &Path);
    let removed: Spoil = |path, _| fs::remove_file(path).unwrap();
    let renamed: Spoil = |path, to| fs::rename(path, to).unwrap();

    // Editors save in this way: they replace the file by another one, here of the same length.
    let replaced: Spoil = |path, to| {
        fs::copy(path, to).unwrap();
        fs::rename(to, path).unwrap();
    };

    for spoil in [removed, renamed, replaced] {
        files.store.delete("a").await.unwrap();
        let lease = files.store.lease("a").await.unwrap();
        files.store.append(&lease, vec![said("one")]).await.unwrap();
        spoil(&path, &moved);
        let before = fs::read(&path).ok();
        for _ in 0..2 {
            let outcome = files.store.append(&lease, vec![said("two")]).await;
            assert!(outcome.is_err(), "no store would read it");
        }

        assert_eq!(fs::read(&path).ok(), before);
        drop(lease);
        files.say("a", &["three"]).await;
        assert_eq!(files.texts("a").await.last().unwrap(), "three");
    }
}

#[tokio::test]
async fn prune_removes_other_sessions_when_one_cannot_be_removed() {
    let files = Files::new();
    for id in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        files.say(id, &["Hi"]).await;
    }

    for id in ["c", "f"] {
        fs::create_dir(files.path(&format!("{id}.damaged"))).unwrap();
    }

    let hour = std::time::Duration::from_secs(3600);
    assert_eq!(files.store.prune(hour).await.unwrap(), 0);
    let error = files.store.prune(std::time::Duration::ZERO).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.text().contains(".damaged"), "{error}");
    assert_eq!(names(&files), ["c.damaged", "f.damaged"]);
}

#[tokio::test]
async fn deleted_sessions_and_released_leases_leave_no_files() {
    let files = Files::new();
    let_go(files.store.lease("a").await.unwrap());
    assert!(names(&files).is_empty());
    files.say("a", &["Hi"]).await;
    let path = files.path("a.jsonl");
    let content = fs::read(&path).unwrap();
    fs::write(&path, [&content, &b"torn"[..]].concat()).unwrap();
    drop(files.store.lease("a").await.unwrap());
    assert_eq!(names(&files), ["a.damaged", "a.jsonl"]);
    assert_eq!(mode(&files.path("a.damaged")), 0o600);
    assert!(files.store.delete("a").await.unwrap());
    assert!(names(&files).is_empty());
}

#[tokio::test]
async fn list_reads_only_the_ends_of_files() {
    let mut files = Files::new();
    files
        .say("a", &["The first words", &"x".repeat(300_000), "end"])
        .await;
    files.say("a", &[&"y".repeat(100_000)]).await;
    files.reopen();
    let list = files.store.list().await.unwrap();
    assert_eq!(list[0].title.as_deref(), Some("The first words"));
    assert_eq!(list[0].messages, 4);
    let len = fs::metadata(files.path("a.jsonl")).unwrap().len();
    assert_eq!(list[0].size, Some(len));
    assert!(list[0].created_at < list[0].updated_at);
}
