//! The schemas of types that are written as JSON elsewhere.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

macro_rules! schemas {
    ($($(#[doc = $doc:literal])* $name:ident = $schema:tt;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub(in super::super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

schemas! {
    /// A message of a conversation.
    Message = {
        "type": "object",
        "required": ["role", "content"],
        "properties": {
            "role": {"type": "string", "enum": ["system", "user", "assistant", "tool"]},
            "content": {
                "description": "A text, or a list of parts.",
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]
            },
            "tool_calls": {"type": "array", "items": {"type": "object"}},
            "tool_call_id": {"type": "string"},
            "name": {"type": "string"}
        }
    };
    /// A message of the user.
    InputMessage = {
        "type": "object",
        "required": ["role", "content"],
        "properties": {
            "role": {"type": "string", "enum": ["user", "system"]},
            "content": {
                "description": "A text, or a list of parts such as {\"type\": \"text\", \"text\": ..}.",
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "array", "items": {"type": "object"}, "minItems": 1}
                ]
            }
        }
    };
    /// A call of a tool.
    ToolCall = {
        "type": "object",
        "required": ["id", "name", "args"],
        "properties": {
            "id": {"type": "string"},
            "name": {"type": "string"},
            "args": {"description": "An object, if the call is valid."}
        }
    };
    /// A task of the task list.
    Todo = {
        "type": "object",
        "required": ["id", "title", "status"],
        "properties": {
            "id": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "string", "enum": ["pending", "in_progress", "done"]}
        }
    };
    /// The format of a stream.
    StreamFormatName = {
        "type": "string",
        "enum": ["events", "sdk", "ndjson", "ag-ui", "ai-sdk"]
    };
    /// The tokens of a run.
    Usage = {
        "type": "object",
        "properties": {
            "input_tokens": {"type": "integer", "minimum": 0},
            "output_tokens": {"type": "integer", "minimum": 0},
            "cache_read_input_tokens": {"type": "integer", "minimum": 0},
            "cache_creation_input_tokens": {"type": "integer", "minimum": 0}
        }
    };
    /// A pending call, which waits for a decision.
    PendingCall = {
        "type": "object",
        "required": ["id", "call", "question", "args_hash"],
        "properties": {
            "id": {"type": "string"},
            "session_id": {"type": "string"},
            "agent": {"type": "string", "description": "The name of the agent that has asked."},
            "agent_id": {"type": "string", "description": "The id of the agent that has asked."},
            "call": {"$ref": "#/components/schemas/ToolCall"},
            "question": {"type": "string"},
            "expects_text": {"type": "boolean"},
            "args_hash": {"type": "string"},
            "expires_at_ms": {"type": "integer", "minimum": 0},
            "waits_since_us": {
                "type": "integer",
                "minimum": 0,
                "description": "The time since which it waits, in microseconds since the Unix epoch."
            }
        }
    };
    /// A hook and the phases it takes part in.
    HookInfo = {
        "type": "object",
        "required": ["name", "description", "phases", "tools"],
        "properties": {
            "name": {"type": "string"},
            "description": {"type": "string"},
            "phases": {"type": "array", "items": {"type": "string"}},
            "tools": {"type": "array", "items": {"type": "string"}}
        }
    };
}
