//! Checks that written data is read back.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::error::{ErrorKind, Result};
use crate::message::{
    AssistantMessage, Message, Messages, Part, ProviderBlock, Role, Todo, TodoStatus, ToolCall,
    ToolResult,
};
use crate::model::{Compaction, ModelResponse, StopReason};
use crate::session::{AgentState, MessageInfo, PendingCall, Record, SessionStore};
use crate::usage::Usage;

use super::check::{fails, ids, input, load, message, same, same_state, say, texts};

/// Returns a history with a call and its result.
pub(super) fn history() -> Messages {
    let call = ToolCall::new(
        "call_1",
        "grep",
        json!({"pattern": "TO\u{301}DO\n\0", "n": 1.5}),
    );
    let mut result = ToolResult::failed(&call, "nothing found");
    result.details = Some(json!({"found": null, "list": [1, {"a": "b"}]}));
    result.display = Some("no match".into());
    Messages::from("Search \"this\"\u{2028}\r\n\\ and {\"crc\":\"that\"}")
        .ai_calling("Looking.", [call])
        .with(Message::Tool(result))
        .ai("There is none. \u{1f980}")
}

/// A state in which everything is set that is stored.
pub(super) fn full(id: &str) -> AgentState {
    let mut state = AgentState::new(id);
    state.user_id = Some("u".into());
    state.title = Some("A search".into());
    state.cwd = Some("/work place/\u{e4}".into());
    state.parent = Some("p/1".into());
    state.messages = history();
    let mut todo = Todo::new("1", "Look");
    todo.status = TodoStatus::InProgress;
    state.todos = Arc::new(vec![todo, Todo::new("2", "Tell")]);
    state.files = Arc::new([("a.txt".into(), "one\n".into()), ("b".into(), "".into())].into());
    state.compaction = Some(Compaction::new("They met.", 1));
    for (at, message) in state.messages.iter().enumerate() {
        if message.role() == Role::Assistant {
            state.infos.put(at, info());
        }
    }

    let call = ToolCall::new("call_1", "grep", json!({"pattern": "x"}));
    let mut pending = PendingCall::new("ask_1".into(), id.into(), call, "May it?\n".into());
    pending.expires_at_ms = Some(1);
    state.pending = vec![pending];
    state.inputs.begin("in_0".into(), 0..1);
    state.inputs.record_response(&state.messages);
    state
}

/// Returns the metadata of an answer.
fn info() -> Arc<MessageInfo> {
    let mut response = ModelResponse::new("");
    response.id = "msg_1".into();
    response.model = "some-model".into();
    response.usage = Usage::new(12, 3);
    response.stop_reason = Some(StopReason::PauseTurn);
    Arc::new(MessageInfo::of(&response, Uuid::from_u128(7)))
}

fn records(messages: &Messages) -> Vec<Record> {
    messages
        .as_slice()
        .iter()
        .cloned()
        .map(|message| Record::Message {
            message,
            input_id: None,
        })
        .collect()
}

pub(super) async fn appending(store: &impl SessionStore) -> Result<()> {
    same(
        "a session nobody wrote",
        &store.load("a").await?.is_none(),
        &true,
    )?;
    let lease = store.lease("a").await?;
    let leased = store.load("a").await?.is_none();
    same("a session that is only leased", &leased, &true)?;
    store.append(&lease, Vec::new()).await?;
    let has_session = store.load("a").await?.is_some() || !ids(store).await?.is_empty();
    same("a session after a write of nothing", &has_session, &false)?;
    store.append(&lease, vec![input("in_1", "Hi")]).await?;
    let mut expected = AgentState::new("a");
    expected.messages = Messages::from("Hi");
    same_state("after one", &load(store, "a").await?.state, &expected)?;
    for message in history().as_slice() {
        let mut chunk = Messages::new();
        chunk.push(message.clone());
        expected.messages.push(message.clone());
        store.append(&lease, records(&chunk)).await?;
    }

    store.append(&lease, records(&history())).await?;
    expected.messages.extend(history().to_vec());
    let session = load(store, "a").await?;
    same_state("after all", &session.state, &expected)?;
    same("ids of inputs", &session.input_ids, &vec!["in_1".into()])?;
    same("damage", &session.damage.len(), &0)?;
    drop(lease);
    same_state("released", &load(store, "a").await?.state, &expected)
}

pub(super) async fn saving(store: &impl SessionStore) -> Result<()> {
    let lease = store.lease("a").await?;
    let empty = AgentState::new("a");
    store.save(&lease, &empty).await?;
    same_state("an empty state", &load(store, "a").await?.state, &empty)?;
    let mut state = full("a");
    store.save(&lease, &state).await?;
    same_state("a full state", &load(store, "a").await?.state, &state)?;

    let info_record = Record::MessageInfo { info: info() };
    let answer = Message::ai("More");
    let record = Record::Message {
        message: Arc::new(answer.clone()),
        input_id: None,
    };

    store.append(&lease, vec![record, info_record]).await?;
    state.messages.push(answer);
    let mut aborted_info = MessageInfo::clone(&info());
    aborted_info.aborted = true;
    let info_record = Record::MessageInfo {
        info: Arc::new(aborted_info.clone()),
    };

    store.append(&lease, vec![info_record]).await?;
    state.set_last_info(Arc::new(aborted_info));
    let title: Option<Arc<str>> = Some("Named since".into());
    state.title = title;
    store.append(&lease, vec![Record::about(&state)]).await?;
    same_state("appended", &load(store, "a").await?.state, &state)?;

    state.messages.insert(1, Message::ai("Put in between"));
    state.infos.keep(1);
    state.messages.push(Message::ai("And more"));
    state.title = None;
    state.todos = Arc::new(Vec::new());
    state.files = Arc::new([("b".into(), "two".into()), ("c".into(), "new".into())].into());
    state.compaction = None;
    store.save(&lease, &state).await?;
    same_state("a changed state", &load(store, "a").await?.state, &state)?;

    state.messages = state.messages.as_slice()[..1].iter().cloned().collect();
    state.infos.keep(1);
    store.save(&lease, &state).await?;
    store.save(&lease, &state).await?;
    same_state("a shorter state", &load(store, "a").await?.state, &state)?;
    store.append(&lease, vec![message("Again")]).await?;
    state.messages.push(Message::human("Again"));
    same_state("appended", &load(store, "a").await?.state, &state)?;
    drop(lease);
    let lease = store.lease("a").await?;
    let loaded_state = load(store, "a").await?.state;
    same_state("leased again", &loaded_state, &state)?;
    store.save(&lease, &loaded_state).await?;
    same_state("saved as loaded", &load(store, "a").await?.state, &state)?;

    store.append(&lease, vec![input("in_1", "Named")]).await?;
    state.messages.push(Message::human("Named"));
    store.save(&lease, &state).await?;
    let input_ids = load(store, "a").await?.input_ids;
    same("ids of inputs after a save", &input_ids, &Vec::new())
}

/// Checks that a state with the id of another session, as a hook may make it, is stored under its
/// own.
pub(super) async fn foreign(store: &impl SessionStore) -> Result<()> {
    let lease = store.lease("a").await?;
    store.save(&lease, &full("b")).await?;
    drop(lease);
    let thread_id = load(store, "a").await?.state.thread_id;
    same("the id of a session", &&*thread_id, &"a")?;
    let lease = store.lease("a").await?;
    same("the session of the lease", &&**lease.session_id(), &"a")?;
    store.append(&lease, vec![message("More")]).await?;
    drop(lease);
    drop(store.lease("a").await?);
    let is_absent = store.load("b").await?.is_none();
    same("the other session", &is_absent, &true)
}

/// Checks that blocks of a provider are kept as they arrived, in one line or in several.
pub(super) async fn blocks(store: &impl SessionStore) -> Result<()> {
    let block = |json: &str| -> Result<_> {
        let raw = RawValue::from_string(json.to_owned())?;
        Ok(ProviderBlock::new("acme", raw))
    };

    let thought = block("{\n  \"type\": \"thinking\",\r\n\t\"signature\": \"a\\nb\"\n}")?;
    let opaque = block("{\"type\": \"search\",\n\n\"hits\": [\r1,\n2.50\n]}")?;
    let opaque_block = block("{\"type\":  \"odd\", \"n\": 1.50}")?;
    let parts = vec![
        Part::Thinking(thought),
        Part::Opaque(opaque),
        Part::text("Done."),
    ];
    let assistant_message = Message::Assistant(AssistantMessage::new(parts));
    let alone = Message::Assistant(AssistantMessage::new(vec![
        Part::Opaque(opaque_block),
        Part::text("Done."),
    ]));
    let mut expected = AgentState::new("a");
    expected.messages = Messages::from("Hi").with(assistant_message);
    let lease = store.lease("a").await?;
    store.append(&lease, records(&expected.messages)).await?;
    store.append(&lease, vec![message("next")]).await?;
    expected.messages.push(Message::human("next"));
    drop(lease);
    let lease = store.lease("a").await?;
    let session = load(store, "a").await?;
    same("damage", &session.damage.len(), &0)?;
    let (now, original_state) = (
        serde_json::to_value(&session.state)?,
        serde_json::to_value(&expected)?,
    );
    same("blocks of several lines", &now, &original_state)?;
    let mut state = AgentState::new("a");
    state.messages = Messages::from("Hi").with(alone);
    store.save(&lease, &state).await?;
    drop(lease);
    drop(store.lease("a").await?);
    same_state(
        "a block of one line",
        &load(store, "a").await?.state,
        &state,
    )
}

pub(super) async fn started(store: &impl SessionStore) -> Result<()> {
    let start = |id: &str| Record::ToolStarted { call_id: id.into() };
    let lease = store.lease("a").await?;
    let calls = ["1", "2"].map(|id| ToolCall::new(id, "act", json!({})));
    let history = Messages::from("Act").ai_calling("", calls.clone());
    store.append(&lease, records(&history)).await?;
    store.append(&lease, vec![start("1"), start("2")]).await?;
    let started_ids = load(store, "a").await?.started;
    same("started", &started_ids, &vec!["1".into(), "2".into()])?;
    let results_message = Messages::from(Message::Tool(ToolResult::failed(&calls[0], "no")));
    store.append(&lease, records(&results_message)).await?;
    drop(lease);
    let session = load(store, "a").await?;
    same("one has its result", &session.started, &vec!["2".into()])?;
    let lease = store.lease("a").await?;
    store.save(&lease, &session.state).await?;
    let started_ids = load(store, "a").await?.started;
    same("after a save", &started_ids, &Vec::new())
}

pub(super) async fn ended(store: &impl SessionStore) -> Result<()> {
    let calls = ["1", "2", "3"].map(|id| ToolCall::new(id, "act", json!({})));
    let history = Messages::from("Act").ai_calling("", calls.clone());
    let start = |call: &ToolCall| Record::ToolStarted {
        call_id: call.id.clone(),
    };

    let results = calls
        .each_ref()
        .map(|call| Message::Tool(ToolResult::ok(call, "done")));
    let end = |at: usize| Record::ToolEnded {
        result: Arc::new(results[at].clone()),
    };

    let lease = store.lease("a").await?;
    store.append(&lease, records(&history)).await?;
    store
        .append(&lease, calls.iter().map(start).collect())
        .await?;
    let message = Arc::new(Message::ai("No result of a call."));
    let records_of_none = vec![Record::ToolEnded { result: message }];
    store.append(&lease, records_of_none).await?;
    let ended_count = load(store, "a").await?.ended.len();
    same("a message that is no result", &ended_count, &0)?;
    store.append(&lease, vec![end(2)]).await?;
    store.append(&lease, vec![end(0)]).await?;
    let session = load(store, "a").await?;
    let result_at = |at: usize| Arc::new(results[at].clone());
    same("ended", &session.ended, &vec![result_at(2), result_at(0)])?;
    same("started", &session.started, &vec!["2".into()])?;
    same("the history", &session.state.messages, &history)?;
    let first = Messages::from(results[0].clone());
    store.append(&lease, records(&first)).await?;
    let session = load(store, "a").await?;
    same("in the history", &session.ended, &vec![result_at(2)])?;
    store.save(&lease, &session.state).await?;
    let ended_results = load(store, "a").await?.ended;
    same("after a save", &ended_results, &Vec::new())
}

pub(super) async fn about(store: &impl SessionStore) -> Result<()> {
    let about = |user: Option<&str>, title: Option<&str>, cwd: Option<&str>| Record::About {
        user_id: user.map(Into::into),
        title: title.map(Into::into),
        cwd: cwd.map(Into::into),
        parent: None,
    };

    let lease = store.lease("a").await?;
    let records = vec![about(Some("u"), None, Some("/a")), message("Hi")];
    store.append(&lease, records).await?;
    let mut expected = AgentState::new("a");
    (expected.user_id, expected.cwd) = (Some("u".into()), Some("/a".into()));
    expected.messages = "Hi".into();
    same_state("begun", &load(store, "a").await?.state, &expected)?;
    let titled = about(Some("u"), Some("T"), Some("/a"));
    store.append(&lease, vec![titled]).await?;
    expected.title = Some("T".into());
    same_state("titled", &load(store, "a").await?.state, &expected)?;
    store.append(&lease, vec![about(None, None, None)]).await?;
    (expected.user_id, expected.title, expected.cwd) = (None, None, None);
    same_state("nothing", &load(store, "a").await?.state, &expected)?;
    let both = vec![about(Some("v"), None, None), about(None, None, Some("/c"))];
    store.append(&lease, both).await?;
    expected.cwd = Some("/c".into());
    same_state("twice at once", &load(store, "a").await?.state, &expected)
}

pub(super) async fn other_data(store: &impl SessionStore) -> Result<()> {
    let todos = |texts: &[&str]| Record::Todos {
        todos: Arc::new(texts.iter().map(|text| Todo::new(*text, *text)).collect()),
    };

    let file = |path: &str, content: Option<&str>| Record::File {
        path: path.into(),
        content: content.map(Into::into),
    };

    let lease = store.lease("a").await?;
    let records = vec![message("Hi"), todos(&["1", "2"]), file("x", Some("one"))];
    store.append(&lease, records).await?;
    let records = vec![file("y", Some("")), file("x", Some("two"))];
    store.append(&lease, records).await?;
    let mut expected = AgentState::new("a");
    expected.messages = "Hi".into();
    expected.todos = Arc::new(vec![Todo::new("1", "1"), Todo::new("2", "2")]);
    expected.files = Arc::new([("x".into(), "two".into()), ("y".into(), "".into())].into());
    same_state("written", &load(store, "a").await?.state, &expected)?;
    let records = vec![todos(&[]), file("x", None), file("z", None)];
    store.append(&lease, records).await?;
    expected.todos = Arc::new(Vec::new());
    expected.files = Arc::new([("y".into(), "".into())].into());
    same_state("taken out", &load(store, "a").await?.state, &expected)
}

pub(super) async fn large(store: &impl SessionStore) -> Result<()> {
    let text = "{\"crc\":\"\n\\\u{0}\u{1f980} ".repeat(200_000);
    let lease = store.lease("a").await?;
    let messages: Messages = (0..2_000)
        .map(|number| Message::human(format!("message {number}")))
        .chain([Message::human(text)])
        .collect();
    store.append(&lease, records(&messages)).await?;
    store.append(&lease, vec![message("the last")]).await?;
    drop(lease);
    let stored_messages = load(store, "a").await?.state.messages;
    same("messages", &stored_messages.len(), &(messages.len() + 1))?;
    let is_same = stored_messages
        .iter()
        .zip(messages.iter())
        .all(|(a, b)| a == b);
    same("the same messages", &is_same, &true)?;
    same("the last", &&*stored_messages.last_content(), &"the last")
}

/// Ids that a file system or a database might confuse with each other, or with a special name.
const ODD: [&str; 22] = [
    "a",
    "A",
    "a/b",
    "a%2Fb",
    "a%2fb",
    "a\\b",
    "..",
    ".",
    "...",
    "a.jsonl",
    "a b",
    " a",
    "a ",
    "\u{e4}",
    "a\u{308}",
    "\u{1f980}",
    "con",
    "telegram:1",
    "it's",
    "a\nb",
    "-a",
    "~",
];

pub(super) async fn odd_ids(store: &impl SessionStore) -> Result<()> {
    for id in ODD {
        say(store, id, &[id]).await?;
    }

    for id in ODD {
        same(id, &texts(store, id).await?, &vec![id.to_owned()])?;
    }

    let mut stored_ids = ids(store).await?;
    stored_ids.sort_unstable();
    let mut expected: Vec<String> = ODD.iter().map(|id| (*id).to_owned()).collect();
    expected.sort_unstable();
    same("the list", &stored_ids, &expected)?;
    no_id(store).await?;
    let long_id = "x".repeat(100_000);
    match store.lease(&long_id).await {
        Ok(lease) => {
            store.append(&lease, vec![message("long")]).await?;
            same(
                "a long id",
                &texts(store, &long_id).await?,
                &vec!["long".into()],
            )
        }
        refused => fails("a long id", refused, ErrorKind::InvalidRequest),
    }
}

/// Checks that an empty id is an error.
async fn no_id(store: &impl SessionStore) -> Result<()> {
    let kind = ErrorKind::InvalidRequest;
    fails("no id at all", store.lease("").await, kind)?;
    let session = load(store, "a").await?;
    fails("created", store.create("", session).await, kind)?;
    fails("as a fork", store.fork("a", "").await, kind)?;
    fails("as a part", store.fork_at("a", "", 1).await, kind)?;
    fails("imported", store.import("", b"[]").await, kind)?;
    same("loaded", &store.load("").await?.is_none(), &true)?;
    same("deleted", &store.delete("").await?, &false)?;
    let not_found = ErrorKind::SessionNotFound;
    fails("forked", store.fork("", "of nothing").await, not_found)?;
    fails("cut", store.fork_at("", "of nothing", 0).await, not_found)?;
    fails("exported", store.export("").await, not_found)
}
