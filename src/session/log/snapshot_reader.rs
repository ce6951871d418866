//! Reading a snapshot element by element, within a limit of memory.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::message::{Message, Todo};
use crate::model::Compaction;
use crate::session::inputs::{Inputs, drop_oldest_ids};
use crate::session::json::title;
use crate::session::size::SessionSize;
use crate::session::text_cost::{ELEMENT, memory_exceeds};
use crate::session::{AgentState, MessageInfo, PendingCall, StoredSession};

/// The fields of a snapshot, not parsed yet. The session's id is not among them: the log has it.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    messages: &'a RawValue,
    #[serde(borrow)]
    infos: Option<&'a RawValue>,
    #[serde(borrow)]
    todos: Option<&'a RawValue>,
    #[serde(borrow)]
    files: Option<&'a RawValue>,
    #[serde(borrow)]
    pending: Option<&'a RawValue>,
    #[serde(borrow)]
    started: Option<&'a RawValue>,
    #[serde(borrow)]
    ended: Option<&'a RawValue>,
    #[serde(borrow)]
    input_ids: Option<&'a RawValue>,
    #[serde(borrow)]
    inputs: Option<&'a RawValue>,
    #[serde(borrow)]
    compaction: Option<&'a RawValue>,
    #[serde(borrow)]
    user_id: Option<&'a RawValue>,
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    #[serde(borrow)]
    cwd: Option<&'a RawValue>,
    #[serde(borrow)]
    parent: Option<&'a RawValue>,
    #[serde(borrow)]
    first_text: Option<&'a RawValue>,
}

/// Reads the data of a snapshot, and measures the session.
///
/// An element is parsed only if its memory, estimated from its text, fits into the part of
/// `max_bytes` that earlier elements have left. Once parsed, it takes its real size from that part.
///
/// # Errors
///
/// Returns an error if the data is not a snapshot, or if an element takes more memory than is left.
pub(super) fn read(
    data: &RawValue,
    max_bytes: usize,
) -> serde_json::Result<(StoredSession, SessionSize)> {
    let fields = Fields::deserialize(data)?;
    let mut reader = Reader {
        session: StoredSession::default(),
        size: SessionSize::default(),
        max_bytes,
    };
    reader.read_lists(&fields)?;
    reader.read_maps(&fields)?;
    reader.read_values(&fields)?;
    Ok((reader.session, reader.size))
}

struct Reader {
    session: StoredSession,
    size: SessionSize,
    max_bytes: usize,
}

impl Reader {
    /// Parses a value, unless that takes more memory than is left.
    fn parse<'a, T: Deserialize<'a>>(&self, json: &'a RawValue) -> serde_json::Result<T> {
        let room = self.max_bytes.saturating_sub(self.size.total());
        if memory_exceeds(json.get().as_bytes(), ELEMENT, room) {
            return Err(de::Error::custom("the snapshot takes too much memory"));
        }
        T::deserialize(json)
    }

    fn parse_or_default<'a, T>(&self, json: Option<&'a RawValue>) -> serde_json::Result<T>
    where
        T: Deserialize<'a> + Default,
    {
        json.map_or_else(|| Ok(T::default()), |json| self.parse(json))
    }

    fn read_lists(&mut self, fields: &Fields<'_>) -> serde_json::Result<()> {
        for_each(Some(fields.messages), |json| {
            let message: Message = self.parse(json)?;
            self.size.add_message(&message);
            self.session.state.messages.push(Arc::new(message));
            Ok(())
        })?;

        for_each(fields.ended, |json| {
            let result: Message = self.parse(json)?;
            self.size.add_ended(&result);
            self.session.ended.push(Arc::new(result));
            Ok(())
        })?;

        for_each(fields.started, |json| {
            let id: Arc<str> = self.parse(json)?;
            self.size.add_started(&id);
            self.session.started.push(id);
            Ok(())
        })?;

        for_each(fields.todos, |json| {
            let todo: Todo = self.parse(json)?;
            self.size.add_todo(&todo);
            Arc::make_mut(&mut self.session.state.todos).push(todo);
            Ok(())
        })?;

        for_each(fields.pending, |json| {
            let call: PendingCall = self.parse(json)?;
            self.size.add_pending(&call);
            self.session.state.pending.push(call);
            Ok(())
        })
    }

    /// Reads the maps. The metadata of responses is read after the messages, because it is assigned
    /// to them by position.
    fn read_maps(&mut self, fields: &Fields<'_>) -> serde_json::Result<()> {
        for_each_entry(fields.infos, |name, json| {
            let index: Result<usize, _> = name.get().trim_matches('"').parse();
            let index = index.map_err(de::Error::custom)?;
            if index >= self.session.state.messages.len() {
                return Err(de::Error::custom("metadata of a message that is not there"));
            }
            let info: Arc<MessageInfo> = self.parse(json)?;
            self.size.add_info(&info);
            self.session.state.infos.put(index, info);
            Ok(())
        })?;

        for_each_entry(fields.files, |name, json| {
            let path: Arc<str> = self.parse(name)?;
            let content: Arc<str> = self.parse(json)?;
            self.size.add_file(&path, &content);
            Arc::make_mut(&mut self.session.state.files).insert(path, content);
            Ok(())
        })
    }

    /// Reads the single values and the short lists.
    fn read_values(&mut self, fields: &Fields<'_>) -> serde_json::Result<()> {
        let mut inputs: Inputs = self.parse_or_default(fields.inputs)?;
        inputs.drop_oldest();
        self.size.set_inputs(&inputs);
        let mut input_ids: Vec<Arc<str>> = self.parse_or_default(fields.input_ids)?;
        drop_oldest_ids(&mut input_ids);
        self.size.set_input_ids(&input_ids);
        let compaction: Option<Compaction> = self.parse_or_default(fields.compaction)?;
        self.size.set_compaction(compaction.as_ref());
        let state = std::mem::take(&mut self.session.state);
        self.session.state = AgentState {
            user_id: self.parse_or_default(fields.user_id)?,
            title: self.parse_or_default(fields.title)?,
            cwd: self.parse_or_default(fields.cwd)?,
            parent: self.parse_or_default(fields.parent)?,
            compaction,
            inputs,
            ..state
        };
        self.size.set_about(&self.session.state);
        self.session.input_ids = input_ids;
        let first_text: Option<Arc<str>> = self.parse_or_default(fields.first_text)?;
        self.session.first_text = first_text.and_then(|text| title(&text));
        Ok(())
    }
}

/// Calls `add` with each element of a list, if there is one.
fn for_each<'a>(
    list: Option<&'a RawValue>,
    add: impl FnMut(&'a RawValue) -> serde_json::Result<()>,
) -> serde_json::Result<()> {
    list.map_or(Ok(()), |list| list.deserialize_seq(Elements(add)))
}

/// Calls `add` with each entry of a map, if there is one.
fn for_each_entry<'a>(
    map: Option<&'a RawValue>,
    add: impl FnMut(&'a RawValue, &'a RawValue) -> serde_json::Result<()>,
) -> serde_json::Result<()> {
    map.map_or(Ok(()), |map| map.deserialize_map(Entries(add)))
}

struct Elements<F>(F);

impl<'de, F> Visitor<'de> for Elements<F>
where
    F: FnMut(&'de RawValue) -> serde_json::Result<()>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.0)(element).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}

struct Entries<F>(F);

impl<'de, F> Visitor<'de> for Entries<F>
where
    F: FnMut(&'de RawValue, &'de RawValue) -> serde_json::Result<()>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, value)) = map.next_entry()? {
            (self.0)(name, value).map_err(de::Error::custom)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::message::{ToolCall, ToolResult};
    use crate::model::ModelResponse;
    use crate::session::Record;

    fn text(rng: &mut fastrand::Rng) -> String {
        "x\n\"".repeat(rng.usize(..200))
    }

    /// Creates a session with a value in each of its fields.
    fn full_session(rng: &mut fastrand::Rng) -> StoredSession {
        let mut session = StoredSession::new(AgentState::new("a"));
        let state = &mut session.state;
        (state.user_id, state.cwd) = (Some("u".into()), Some(text(rng).into()));
        state.parent = Some(text(rng).into());
        for number in 0..rng.usize(1..30) {
            let call = ToolCall::new(number.to_string(), "t", json!({"a": text(rng)}));
            let mut response = ModelResponse::new("");
            response.model = text(rng).into();
            let info = Arc::new(MessageInfo::of(&response, uuid::Uuid::nil()));
            let mut result = ToolResult::ok(&call, text(rng));
            result.details = Some(json!([text(rng), {"b": number}]));
            let pending = PendingCall::new(text(rng).into(), "a".into(), call.clone(), text(rng));
            state.messages.push(Message::human(text(rng)));
            state.messages.push(Message::ai_calling("", [call]));
            state.set_last_info(info);
            state.messages.push(Message::Tool(result.clone()));
            state.pending.push(pending);
            let todo = Todo::new(number.to_string(), text(rng));
            Arc::make_mut(&mut state.todos).push(todo);
            let path = format!("{number} {}", text(rng));
            Arc::make_mut(&mut state.files).insert(path.into(), text(rng).into());
            session.started.push(number.to_string().into());
            session.ended.push(Arc::new(Message::Tool(result)));
        }

        state.compaction = Some(Compaction::new(text(rng), 1));
        session.apply(Record::Message {
            message: Message::human("Hi").into(),
            input_id: Some(text(rng).into()),
        });
        session
    }

    fn read_within(
        session: &StoredSession,
        max_bytes: usize,
    ) -> serde_json::Result<(StoredSession, SessionSize)> {
        let data = to_raw_value(session).unwrap();
        read(&data, max_bytes)
    }

    #[test]
    fn snapshot_is_read_as_the_session_and_with_its_size() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..20 {
            let mut session = full_session(&mut rng);
            let (read_session, size) = read_within(&session, usize::MAX).unwrap();
            session.state.thread_id = "".into();
            let json = serde_json::to_string(&session).unwrap();
            assert_eq!(serde_json::to_string(&read_session).unwrap(), json);
            assert_eq!(size.total(), SessionSize::of(&session).total());
        }
    }

    #[test]
    fn snapshot_is_refused_over_the_limit_and_read_a_little_below() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..20 {
            let session = full_session(&mut rng);
            let size = SessionSize::of(&session).total();
            assert!(read_within(&session, size / 2).is_err());
            assert!(read_within(&session, size + 64 * 1024).is_ok());
        }
    }

    /// Returns elements of a snapshot, each with `text` in another field.
    fn places(text: &str) -> Vec<(&'static str, Value)> {
        let call = |call: Value| {
            let mut pending = json!({
                "id": "p", "session_id": "a", "question": "?", "args_hash": "",
                "call": {"id": "c", "name": "t", "args": {}},
            });
            for (name, value) in call.as_object().unwrap() {
                match pending["call"].get_mut(name) {
                    Some(field) => *field = value.clone(),
                    None => pending[name] = value.clone(),
                }
            }
            ("pending", pending)
        };
        let part = |part: Value| ("messages", json!({"role": "assistant", "content": [part]}));
        let result = |field: &str, value: Value| {
            let mut result =
                json!({"role": "tool", "content": "", "tool_call_id": "c", "name": "t"});
            result[field] = value;
            ("messages", result)
        };
        let args = json!({"a": text});
        vec![
            ("messages", json!({"role": "user", "content": text})),
            part(json!({"type": "text", "text": text})),
            part(json!({"type": "thinking", "thinking": text})),
            part(json!({"type": "provider", "provider": text, "block": {"type": "x"}})),
            part(json!({"type": "image", "source": {"type": "url", "url": text}})),
            result("tool_call_id", text.into()),
            result("name", text.into()),
            result("display", text.into()),
            result("details", args.clone()),
            (
                "messages",
                json!({"role": "assistant", "content": "", "tool_calls": [{"id": text, "name": "t", "args": {}}]}),
            ),
            (
                "messages",
                json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c", "name": "t", "args": args}]}),
            ),
            ("ended", json!({"role": "tool", "content": text})),
            ("started", text.into()),
            ("todos", json!({"id": text, "title": "", "status": "done"})),
            ("todos", json!({"id": "", "title": text, "status": "done"})),
            ("infos", json!({"id": text, "usage": {}})),
            ("infos", json!({"model": text, "usage": {}})),
            ("infos", json!({"stop_reason": text, "usage": {}})),
            ("files", text.into()),
            ("input_ids", text.into()),
            ("inputs", json!({"id": text})),
            call(json!({"name": text})),
            call(json!({"args": {"a": text}})),
            call(json!({"session_id": text})),
            call(json!({"question": text})),
            call(json!({"args_hash": text})),
            call(json!({"context": [text]})),
        ]
    }

    #[test]
    fn texts_of_parsed_elements_count() {
        const LEN: usize = 10_000;
        const COUNT: usize = 50;
        let mut rng = fastrand::Rng::with_seed(7);
        let text: String = std::iter::repeat_with(|| rng.lowercase())
            .take(LEN)
            .collect();
        for (field, element) in places(&text) {
            let answer = json!({"role": "assistant", "content": ""});
            let mut data = json!({"messages": vec![answer; COUNT]});
            let elements = vec![element.clone(); COUNT];
            data[field] = match field {
                "infos" | "files" => (0..COUNT)
                    .map(|number| number.to_string())
                    .zip(elements)
                    .collect::<Map<_, _>>()
                    .into(),
                _ => elements.into(),
            };
            let data = to_raw_value(&data).unwrap();
            let (_, size) = read(&data, usize::MAX).unwrap();
            assert!(
                size.total() > COUNT * LEN,
                "{field} {:.100}",
                element.to_string()
            );
            assert!(
                read(&data, COUNT * LEN).is_err(),
                "{field} {:.100}",
                element.to_string()
            );
        }
    }

    #[test]
    fn each_field_is_refused_over_the_limit() {
        let text = json!("x".repeat(100_000));
        let objects = json!(vec![json!({"a": 0}); 1_000]);
        let info = json!({"model": text, "usage": {}});
        let call = json!({
            "id": "p", "session_id": "a", "question": "?", "args_hash": "",
            "call": {"id": "c", "name": "t", "args": {"a": objects}},
        });
        let result = json!({"role": "tool", "content": "", "details": objects});
        let message = json!({"role": "user", "content": text});
        for (field, value) in [
            ("messages", json!([message])),
            ("infos", json!({"0": info})),
            (
                "todos",
                json!([{"id": "1", "title": text, "status": "done"}]),
            ),
            ("files", json!({"a": text})),
            ("files", json!({"x".repeat(100_000): ""})),
            ("pending", json!([call])),
            ("started", json!([text])),
            ("ended", json!([result])),
            ("input_ids", json!([text])),
            ("inputs", json!([{"id": text}])),
            ("compaction", json!({"summary": text, "through_message": 0})),
            ("user_id", text.clone()),
            ("title", text.clone()),
            ("cwd", text.clone()),
            ("parent", text.clone()),
            ("first_text", text.clone()),
        ] {
            let mut data = json!({"messages": [{"role": "assistant", "content": ""}]});
            data[field] = value;
            let data = to_raw_value(&data).unwrap();
            assert!(read(&data, 1024 * 1024).is_ok(), "{field}");
            assert!(read(&data, 150_000).is_err(), "{field}");
        }
    }

    #[test]
    fn metadata_of_no_message_is_refused() {
        for (position, is_read) in [("0", true), ("1", false), ("x", false)] {
            let data = json!({
                "messages": [{"role": "assistant", "content": ""}],
                "infos": {position: {"usage": {}}},
            });
            let data = to_raw_value(&data).unwrap();
            assert_eq!(read(&data, usize::MAX).is_ok(), is_read, "{position}");
        }
    }

    #[test]
    fn long_first_text_is_cut_to_a_title() {
        let data = json!({"messages": [], "first_text": "x".repeat(1_000)});
        let (session, _) = read(&to_raw_value(&data).unwrap(), usize::MAX).unwrap();
        assert!(session.first_text.unwrap().len() < 100);
    }
}
