//! The tools `read_memory`, `write_long_term_memory` and `append_daily_note`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::BoxError;
use crate::prompt::{MemoryContext, MemoryStore, MemoryVersion};
use crate::tool::{Access, FuncTool, SideEffect, ToolContext};
use crate::util::json_size::escaped_len;

/// The room for the note about a cut in a result, in bytes.
const CUT_NOTE_ROOM: usize = 128;

/// Returns the tools with which the model reads and writes its memory: `read_memory`,
/// `write_long_term_memory` and `append_daily_note`.
///
/// `write_long_term_memory` fails if the long-term memory has changed since the run read it, with
/// `read_memory` or for its system prompt, or if the run has read only its beginning, because it
/// was too long or because the limit of results cut the result.
///
/// ```
/// use agentcore::backend::MemoryBackend;
/// use agentcore::prompt::MemoryStore;
/// use agentcore::testing::ScriptedModel;
/// use agentcore::{AgentBuilder, tools};
/// use serde_json::json;
///
/// # async fn example() -> agentcore::Result<()> {
/// let memory = MemoryStore::new(MemoryBackend::new());
/// let note = json!({"content": "- The user's name is Ann."});
/// let model = ScriptedModel::new().call("write_long_term_memory", note).say("Hello Ann.");
/// let agent = AgentBuilder::new(model).tools(tools::memory(&memory)).build()?;
/// agent.run("I am Ann").await?;
/// assert_eq!(memory.memory_context().await?, "## Long-term Memory\n\n- The user's name is Ann.");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub fn memory(store: &MemoryStore) -> [FuncTool; 3] {
    [
        read(store.clone()),
        write(store.clone()),
        append(store.clone()),
    ]
}

fn read(store: MemoryStore) -> FuncTool {
    let access_store = store.clone();
    let parameters = json!({"type": "object", "properties": {}});
    let description = "Returns the long-term memory and the notes of the last three days.";
    let run = move |cx: ToolContext, _args: Value| {
        let store = store.clone();
        async move {
            let context = store.read_context().await;
            let version = shown_version(&cx, &context);
            if let Some(error) = context.errors.into_iter().next() {
                return Err(BoxError::from(error));
            }
            if let Some(version) = version {
                cx.with_state(|state| state.values.insert(version));
            }
            Ok(if context.text.is_empty() {
                "The memory is empty.".to_owned()
            } else {
                context.text
            })
        }
    };
    FuncTool::new("read_memory", description, parameters, run)
        .side_effect(SideEffect::ReadOnly)
        .accesses(move |_args| {
            access_store
                .context_files()
                .into_iter()
                .map(|path| Access::Read(path.into()))
                .collect()
        })
}

/// Returns the version that the run has read with this result, which may be cut to the limit of the
/// call. A cut because the memory for results is nearly full comes later and is not seen here.
fn shown_version(cx: &ToolContext, context: &MemoryContext) -> Option<MemoryVersion> {
    let version = context.version?;
    let max_bytes = cx.max_result_bytes();
    let long_term = &context.text[..context.long_term_len];
    // A cut keeps the start of a result.
    let is_cut = escaped_len(&context.text) > max_bytes
        && escaped_len(long_term).saturating_add(CUT_NOTE_ROOM) > max_bytes;
    let is_known = cx
        .value::<MemoryVersion>()
        .is_some_and(|known| *known == version);
    let is_whole = matches!(version, MemoryVersion::Whole(_));
    Some(if is_whole && is_cut && !is_known {
        MemoryVersion::Cut
    } else {
        version
    })
}

fn write(store: MemoryStore) -> FuncTool {
    let file = store.long_term_file();
    let run = move |cx: ToolContext, args: Value| {
        let store = store.clone();
        async move {
            let version = cx.value::<MemoryVersion>().map(|version| *version);
            let version = store.replace_long_term(content(&args), version).await?;
            cx.with_state(|state| state.values.insert(version));
            Ok::<_, BoxError>("The long-term memory is written.")
        }
    };
    let description = "Replaces the long-term memory. Give all of it: read it first.";
    FuncTool::new("write_long_term_memory", description, parameters(), run)
        .exclusive()
        .accesses(move |_args| vec![Access::Write(file.into())])
}

fn append(store: MemoryStore) -> FuncTool {
    let today_store = Arc::new(store.clone());
    let run = move |_cx, args: Value| {
        let store = store.clone();
        async move {
            store.append_today(content(&args)).await?;
            Ok::<_, BoxError>("The note is added to those of today.")
        }
    };
    let description = "Adds a note to those of today.";
    FuncTool::new("append_daily_note", description, parameters(), run)
        .exclusive()
        .accesses(move |_args| {
            let today = today_store
                .today_file()
                .ok()
                .map(|path| Access::Write(path.into()));
            today.into_iter().collect()
        })
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "content": {"type": "string", "minLength": 1, "description": "The text, in Markdown"}
        },
        "required": ["content"]
    })
}

fn content(args: &Value) -> &str {
    args["content"].as_str().unwrap_or_default()
}
