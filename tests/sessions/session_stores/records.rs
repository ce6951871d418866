//! Records: their JSON, the session that they make, and the difference between two states.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentcore::message::{ProviderBlock, Todo, ToolResult};
use agentcore::model::{Compaction, ModelResponse};
use agentcore::session::{MessageInfo, Record, SessionInfo, StoredSession};
use agentcore::{
    AgentState, Message, Messages, Part, Result, SessionStore, ThreadStore, ToolCall, Uuid,
    async_trait,
};
use serde_json::json;
use serde_json::value::RawValue;

use crate::kit::spied_store::{Spied, Spy};

fn info(number: u128) -> Arc<MessageInfo> {
    let response = ModelResponse::new("");
    Arc::new(MessageInfo::of(&response, Uuid::from_u128(number)))
}

/// A message with JSON of a provider, which is stored byte for byte.
fn raw_message() -> Message {
    let raw = RawValue::from_string(r#"{"n": 2.50,"a":[1 ,2]}"#.into()).unwrap();
    let block = ProviderBlock::new("anthropic", raw);
    Message::ai(vec![Part::Thinking(block)])
}

fn one_of_each() -> Vec<Record> {
    let call = ToolCall::new("c", "look", json!({"a": [1, null]}));
    let pending = json!({
        "id": "ask", "session_id": "s", "call": call, "question": "?", "args_hash": "0",
    });

    let inputs = json!({"kind": "inputs", "data": {"keep": 1, "then": [
        {"id": "in_2", "from": 4, "until": 5, "answer": 7}, {"id": "in_3", "until": 0},
    ]}});
    vec![
        Record::Message {
            message: raw_message().into(),
            input_id: Some("in_1".into()),
        },
        Record::MessageInfo { info: info(7) },
        Record::Truncated { messages: 3 },
        Record::ToolStarted {
            call_id: "c".into(),
        },
        Record::ToolEnded {
            result: Message::Tool(ToolResult::ok(&call, "seen")).into(),
        },
        Record::ToolsSettled,
        Record::Input { id: "in_2".into() },
        serde_json::from_str(&inputs.to_string()).unwrap(),
        Record::About {
            user_id: Some("u".into()),
            title: None,
            cwd: Some("/a".into()),
            parent: Some("p".into()),
        },
        Record::Todos {
            todos: Arc::new(vec![Todo::new("1", "first")]),
        },
        Record::File {
            path: "a".into(),
            content: None,
        },
        Record::Compaction {
            compaction: Some(Compaction::new("They met.", 2)),
        },
        Record::Compaction { compaction: None },
        Record::Pending {
            calls: vec![serde_json::from_value(pending).unwrap()],
        },
    ]
}

#[test]
fn records_deserialize_with_keys_in_any_order() {
    for record in one_of_each() {
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&json).unwrap();
        let turned = serde_json::to_string(&fields).unwrap();
        assert!(turned.starts_with(r#"{"data":"#), "{turned}");
        assert_eq!(serde_json::from_str::<Record>(&turned).unwrap(), record);
    }
}

#[test]
fn record_of_an_unknown_kind_changes_nothing() {
    for json in [
        r#"{"kind":"mood","data":{"a":1}}"#,
        r#"{"data":[2],"later":true,"kind":"mood"}"#,
    ] {
        let record = serde_json::from_str::<Record>(json).unwrap();
        assert_eq!(record, Record::Unknown);
        let mut session = StoredSession::new(AgentState::new("s"));
        session.apply(record);
        assert_eq!(text(&session.state), text(&AgentState::new("s")));
    }

    for json in [
        r#"{"kind":"keep"}"#,
        r#"{"data":1}"#,
        r#"{"kind":"keep","data":"x"}"#,
    ] {
        assert!(serde_json::from_str::<Record>(json).is_err(), "{json}");
    }
}

#[test]
fn session_read_from_json_continues_like_the_original() {
    let mut records = one_of_each();
    let message = Message::human("the title").into();
    records.insert(
        0,
        Record::Message {
            message,
            input_id: None,
        },
    );
    records.push(Record::Truncated { messages: 0 });
    let copy = |session: &StoredSession| -> StoredSession {
        serde_json::from_str(&serde_json::to_string(session).unwrap()).unwrap()
    };
    let json = |session: &StoredSession| serde_json::to_string(session).unwrap();
    let title = |session: &StoredSession| SessionInfo::of(session).title;
    for count in 0..=records.len() {
        let mut session = StoredSession::new(AgentState::new("s"));
        let (before, after) = records.split_at(count);
        before
            .iter()
            .for_each(|record| session.apply(record.clone()));
        let mut read = copy(&session);
        assert_eq!(json(&read), json(&session), "after {count}");
        assert_eq!(title(&read), title(&session), "after {count}");
        after.iter().for_each(|record| {
            session.apply(record.clone());
            read.apply(record.clone());
        });
        assert_eq!(json(&read), json(&session), "after {count}");
        assert_eq!(title(&read).as_deref(), title(&session).as_deref());
    }

    let error = serde_json::from_str::<StoredSession>("{}").unwrap_err();
    assert!(error.to_string().contains("messages"), "{error}");
}

fn text(state: &AgentState) -> String {
    serde_json::to_string(state).unwrap()
}

/// Returns another state of the session, which shares some parts with the former one.
fn changed(before: &AgentState, random: &mut fastrand::Rng) -> AgentState {
    let mut state = before.clone();
    let number = random.u64(..);
    match random.u8(..8) {
        0 => state.messages.push(Message::human(number.to_string())),
        1 => state.messages.push(Message::ai(number.to_string())),
        2 => {
            let len = random.usize(..=state.messages.len());
            let messages: Messages = state.messages.iter().take(len).cloned().collect();
            state.messages = messages;
        }
        3 => state.todos = Arc::new(vec![Todo::new("1", number.to_string())]),
        4 => {
            let files = Arc::make_mut(&mut state.files);
            let path = random.u8(..3).to_string();
            if random.bool() {
                drop(files.insert(path.into(), number.to_string().into()));
            } else {
                drop(files.remove(&*path));
            }
        }
        5 => state.title = random.bool().then(|| number.to_string().into()),
        6 => {
            let through = random.usize(..=state.messages.len());
            state.compaction = random
                .bool()
                .then(|| Compaction::new(number.to_string(), through));
        }
        _ => state.messages.insert(0, Message::human(number.to_string())),
    }

    state
}

#[test]
fn applied_difference_gives_the_target_state() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut session = StoredSession::new(AgentState::new("s"));
    for number in 0..500 {
        if random.u8(..4) == 0 {
            let input_id = random.bool().then(|| format!("in_{number}").into());
            let message = Message::human(number.to_string()).into();
            session.apply(Record::Message { message, input_id });
            let call_id = number.to_string().into();
            session.apply(Record::ToolStarted { call_id });
        }

        let state = changed(&session.state, &mut random);
        for record in session.difference(&state) {
            session.apply(record);
        }

        assert_eq!(text(&session.state), text(&state), "step {number}");
        assert!(session.started.is_empty() && session.input_ids.is_empty());
        assert!(session.difference(&state).is_empty());

        let mut copy = StoredSession::new(AgentState::new("s"));
        for record in session.records() {
            copy.apply(record);
        }

        assert_eq!(text(&copy.state), text(&session.state), "step {number}");
    }
}

#[test]
fn records_of_a_session_rebuild_it() {
    let mut session = StoredSession::new(AgentState::new("s"));
    assert_eq!(
        session.records().len(),
        1,
        "an empty session has one record"
    );
    for record in one_of_each() {
        if !matches!(record, Record::ToolsSettled | Record::Inputs { .. }) {
            session.apply(record);
        }
    }

    session.apply(Record::ToolStarted {
        call_id: "later".into(),
    });

    let mut copy = StoredSession::new(AgentState::new("s"));
    for record in session.records() {
        copy.apply(record);
    }

    assert_eq!(text(&copy.state), text(&session.state));
    assert_eq!(copy.started, session.started);
    assert_eq!(copy.ended, session.ended);
    assert_eq!(copy.input_ids, session.input_ids);
}

#[test]
fn truncation_removes_later_input_ids() {
    let mut session = StoredSession::new(AgentState::new("s"));
    for id in ["a", "b"] {
        session.apply(Record::Message {
            message: Message::human(id).into(),
            input_id: Some(id.into()),
        });
    }
    session.apply(Record::Truncated { messages: 1 });
    assert_eq!(session.input_ids, [Arc::<str>::from("a")]);
    assert!(!text(&session.state).contains(r#""id":"b""#));
    assert!(text(&session.state).contains(r#""id":"a""#));
}

/// Counts the calls of `append` and `save`, for a store with the provided `create`.
#[derive(Clone, Default)]
struct Writes(Arc<AtomicUsize>);

#[async_trait]
impl Spy for Writes {
    async fn append(&self, _: &[Record]) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn save(&self, _: &AgentState) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test]
async fn provided_create_writes_once_and_keeps_input_ids_and_open_calls() {
    let writes = Writes::default();
    let store = Spied(ThreadStore::new(), writes.clone());
    let mut session = StoredSession::new(AgentState::new("other"));
    session.state.messages = "Hi".into();
    session.started = vec!["call_1".into()];
    session.input_ids = vec!["in_1".into()];
    store.create("a", session).await.unwrap();
    assert_eq!(writes.0.load(Ordering::Relaxed), 1);
    let stored = store.load("a").await.unwrap().unwrap();
    assert_eq!(stored.state.messages, Messages::from("Hi"));
    assert_eq!(stored.started, [Arc::<str>::from("call_1")]);
    assert_eq!(stored.input_ids, [Arc::<str>::from("in_1")]);
}
