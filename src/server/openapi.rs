//! The description of the routes: an OpenAPI 3.1 document, made from their types.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::api::{Operation, ReplyBody};
use super::error::ErrorReply;

/// The errors of every route.
const COMMON_ERRORS: &[(u16, &str)] = &[
    (400, "the request is invalid"),
    (403, "the host, the origin or the user is not allowed"),
    (500, "the server failed"),
    (503, "the server is shutting down"),
];

/// The errors of every route with a token.
const TOKEN_ERRORS: &[(u16, &str)] = &[
    (401, "the token is missing or wrong"),
    (
        404,
        "there is no such object, or it belongs to another user",
    ),
    (
        429,
        "too many runs, streams, uploads or unread replies; `Retry-After` has the seconds to wait",
    ),
];

/// The errors of every route with a body.
const BODY_ERRORS: &[(u16, &str)] = &[
    (408, "the body did not arrive in time"),
    (413, "the body is too large"),
    (415, "the body is not application/json"),
];

/// The type of streams.
const EVENT_STREAM: &str = "text/event-stream";

/// The type of streams in the format `ndjson`.
const JSON_LINES: &str = "application/x-ndjson";

/// Returns the document.
pub(super) fn document(operations: &[Operation]) -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let error_schema = generator.subschema_for::<ErrorReply>();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let item = paths.entry(operation.path).or_insert_with(|| json!({}));
        item[operation.verb.as_str()] = describe(operation, &mut generator, &json!(error_schema));
    }
    // Schemas that are written by hand refer to the schema of `ToolCall`.
    generator.subschema_for::<super::routes::schemas::ToolCall>();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "agentcore",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Agents over HTTP. Every error is {\"error\": text}.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    })
}

fn describe(operation: &Operation, generator: &mut SchemaGenerator, error: &Value) -> Value {
    let mut description = json!({
        "operationId": operation_id(operation),
        "summary": operation.summary,
        "tags": [operation.group],
        "parameters": parameters(operation, generator),
        "responses": responses(operation, generator, error),
    });
    if let Some(body) = operation.body {
        description["requestBody"] = json!({
            "required": operation.is_body_required,
            "content": {"application/json": {"schema": body(generator)}},
        });
    }
    if operation.is_public {
        description["security"] = json!([]);
    }
    if operation.is_admin {
        description["description"] = "For admins.".into();
    }
    description
}

/// Returns the name of an operation: its method and path in words.
fn operation_id(operation: &Operation) -> String {
    let mut id = operation.verb.as_str().to_owned();
    for part in operation.path.split('/') {
        id.push('_');
        id.extend(
            part.chars()
                .filter(|c| !matches!(c, '{' | '}'))
                .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }),
        );
    }
    id
}

fn parameters(operation: &Operation, generator: &mut SchemaGenerator) -> Vec<Value> {
    let path_parts = operation.path.split('/');
    let in_path = path_parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path
        .map(|name| {
            let text = match name {
                "id" => "The id of the agent.",
                "thread" => "The id of the thread.",
                _ => "The name or the id.",
            };
            json!({
                "name": name,
                "in": "path",
                "required": true,
                "description": text,
                "schema": {"type": "string"},
            })
        })
        .collect();
    parameters.extend(operation.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": parameter.place,
            "required": parameter.is_required,
            "description": parameter.text,
            "schema": (parameter.schema)(generator),
        })
    }));
    parameters
}

/// Returns the schema of each event of a stream.
fn event_schema() -> Value {
    json!({
        "type": "object",
        "description": "One event. The body is a sequence of them.",
        "properties": {
            "id": {"type": "string", "description": "For `Last-Event-ID`."},
            "event": {"type": "string", "description": "The name; none is `message`."},
            "data": {"type": "string", "description": "The message, in most formats as JSON."},
        },
        "required": ["data"],
    })
}

/// Returns the description of a successful response.
fn success(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let content = match operation.reply {
        ReplyBody::Empty => json!({}),
        ReplyBody::Json(schema) => json!({"application/json": {"schema": schema(generator)}}),
        ReplyBody::Stream => json!({
            EVENT_STREAM: {"schema": event_schema()},
            JSON_LINES: {"schema": {"type": "string"}},
        }),
        ReplyBody::JsonOrStream(schema) => json!({
            "application/json": {"schema": schema(generator)},
            EVENT_STREAM: {"schema": event_schema()},
            JSON_LINES: {"schema": {"type": "string"}},
        }),
        ReplyBody::Bytes(EVENT_STREAM) => json!({EVENT_STREAM: {"schema": event_schema()}}),
        ReplyBody::Bytes(content_type) => json!({content_type: {"schema": {"type": "string"}}}),
    };
    let mut success = json!({"description": "Success."});
    if !matches!(operation.reply, ReplyBody::Empty) {
        success["content"] = content;
    }
    if matches!(
        operation.reply,
        ReplyBody::Stream | ReplyBody::JsonOrStream(_)
    ) {
        let header = json!({
            "description": "On a stream: the id of the thread.",
            "schema": {"type": "string"},
        });
        success["headers"] = json!({ "x-thread-id": header });
    }
    success
}

fn responses(operation: &Operation, generator: &mut SchemaGenerator, error: &Value) -> Value {
    let mut responses = Map::new();
    let success = success(operation, generator);
    responses.insert(operation.status.to_string(), success);
    if operation.path.ends_with("{thread}/events") {
        let text = json!({"description": "There is no run, and no log of one."});
        responses.insert("204".to_owned(), text);
    }

    let of_token: &[(u16, &str)] = if operation.is_public {
        &[]
    } else {
        TOKEN_ERRORS
    };
    let of_body: &[(u16, &str)] = match operation.body {
        Some(_) => BODY_ERRORS,
        None => &[],
    };
    let errors = COMMON_ERRORS.iter().chain(of_token).chain(of_body);
    let errors = errors.chain(&operation.errors);
    for (status, cause) in errors {
        let response = json!({
            "description": cause,
            "content": {"application/json": {"schema": error}},
        });
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}
