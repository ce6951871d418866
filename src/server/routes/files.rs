//! The files of a user's workspace, through the backend alone.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, EntryKind};
use crate::error::Error;
use crate::util::blocking::blocking;
use crate::util::json_size::escaped_len;
use crate::util::text::quoted;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::error::ApiError;
use super::super::json::UploadBody;
use super::super::large_reply::{MAX_BYTES, ReplySpace, file_list_permit};
use super::super::users::Caller;
use super::path::Path;
use super::query::QueryOf;

/// The agent of requests without `agent_id`.
const DEFAULT_AGENT: &str = "default";

/// The beginning of the content of a file that is not UTF-8.
const BASE64: &str = "base64:";

pub(super) fn routes(api: Api) -> Api {
    let operation = |verb, path, summary| Operation::new(verb, path, "files", summary);
    let list_operation = operation(Verb::Get, "/agents/{id}/files/list", "Lists a folder.");
    let read_operation = operation(
        Verb::Get,
        "/agents/{id}/files/read",
        "Returns a file as text.",
    );
    let download_operation = operation(
        Verb::Get,
        "/agents/files/download",
        "Returns the bytes of a file.",
    );
    let upload_operation = operation(Verb::Post, "/agents/files/upload", "Writes a file.");
    let large = "the file is too large";
    api.route(
        list_operation
            .query::<String>("path", "The folder. The workspace itself by default.")
            .reply::<ListReply>(),
        list,
    )
    .route(
        read_operation
            .query::<String>("path", "The file.")
            .required()
            .reply::<ReadReply>()
            .fails(413, large),
        read,
    )
    .route(
        download_operation
            .query::<String>("path", "The file.")
            .required()
            .query::<String>("agent_id", "The agent. `default` by default.")
            .bytes("application/octet-stream")
            .fails(413, large),
        download,
    )
    .route(
        upload_operation
            .body::<UploadFields>()
            .reply::<UploadReply>()
            .fails(507, "the workspace is full"),
        upload,
    )
}

#[derive(Debug, Deserialize)]
struct Params {
    path: Option<String>,
    agent_id: Option<String>,
}

impl Params {
    fn file(&self) -> Result<&str, ApiError> {
        let path = self.path.as_deref().filter(|path| !path.is_empty());
        path.ok_or_else(|| ApiError::bad_request("path is required"))
    }
}

async fn backend_of(app: &App, caller: &Caller, agent: &str) -> Result<Arc<dyn Backend>, ApiError> {
    let backend = app.instance(agent, caller).await?.backend();
    backend.ok_or_else(|| {
        ApiError::bad_request(format!(
            "the agent {agent:?} has no backend; add one to its configuration"
        ))
    })
}

/// Converts errors of a workspace to errors of a request.
fn of_files(backend: &dyn Backend) -> impl FnOnce(Error) -> ApiError {
    |error| ApiError::of_files(&error, backend.root())
}

#[derive(Debug, Serialize, JsonSchema)]
struct ListReply {
    path: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    name: String,
    /// `file`, `dir`, `symlink` or `other`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The size of a file in bytes.
    size: u64,
}

async fn list(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    QueryOf(params): QueryOf<Params>,
) -> Result<Response, ApiError> {
    let backend = backend_of(&app, &caller, &path.agent).await?;
    let folder = params.path.unwrap_or_default();
    let _permit = file_list_permit(&app, &caller).await?;
    let entries = backend
        .list(&folder)
        .await
        .map_err(of_files(&*backend))?
        .into_iter()
        .map(|entry| Entry {
            name: entry.name,
            kind: match entry.kind {
                EntryKind::File => "file",
                EntryKind::Dir => "dir",
                EntryKind::Symlink => "symlink",
                _ => "other",
            },
            size: entry.size,
        });
    let reply = ListReply {
        path: folder,
        entries: entries.collect(),
    };
    ReplySpace::json_for(&app, &caller, reply).await
}

#[derive(Debug, Serialize, JsonSchema)]
struct ReadReply {
    path: String,
    /// The text; `base64:` and the bytes of a file that is not UTF-8.
    content: String,
}

async fn read(
    State(app): State<App>,
    caller: Caller,
    path: Path,
    QueryOf(params): QueryOf<Params>,
) -> Result<Response, ApiError> {
    let backend = backend_of(&app, &caller, &path.agent).await?;
    let file = params.file()?;
    let space = ReplySpace::acquire(&app, &caller).await?;
    let bytes = backend.read(file).await.map_err(of_files(&*backend))?;
    let content = blocking(move || Ok(content_of(bytes.into()))).await?;
    let content = content.ok_or_else(|| ApiError::too_large(file))?;
    let path = file.to_owned();
    space.json(ReadReply { path, content }).await
}

/// Returns the content of a file as text, or `None` if it takes more than [`MAX_BYTES`] of JSON.
fn content_of(bytes: Vec<u8>) -> Option<String> {
    match String::from_utf8(bytes) {
        Ok(text) => (escaped_len(&text) <= MAX_BYTES).then_some(text),
        Err(error) => {
            let bytes = error.as_bytes();
            let is_short = bytes.len() <= MAX_BYTES / 4 * 3;
            is_short.then(|| format!("{BASE64}{}", STANDARD.encode(bytes)))
        }
    }
}

async fn download(
    State(app): State<App>,
    caller: Caller,
    QueryOf(params): QueryOf<Params>,
) -> Result<Response, ApiError> {
    let agent = params.agent_id.as_deref().unwrap_or(DEFAULT_AGENT);
    let backend = backend_of(&app, &caller, agent).await?;
    let file = params.file()?;
    let space = ReplySpace::acquire(&app, &caller).await?;
    let bytes = backend.read(file).await.map_err(of_files(&*backend))?;
    // Never shown as a page of this server, whatever is in it.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
        (
            header::CONTENT_SECURITY_POLICY,
            "sandbox; default-src 'none'",
        ),
    ];
    Ok((headers, space.body(bytes.into())).into_response())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UploadFields {
    path: String,
    content: String,
    /// `base64` if the content is in base64.
    encoding: Option<String>,
    /// The agent. Defaults to `default`.
    agent_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct UploadReply {
    /// `ok`.
    status: &'static str,
    path: String,
    /// The size in bytes.
    size: usize,
}

async fn upload(
    State(app): State<App>,
    caller: Caller,
    UploadBody(body, permit): UploadBody<UploadFields>,
) -> Result<Json<UploadReply>, ApiError> {
    if body.path.is_empty() {
        return Err(ApiError::bad_request("path is required"));
    }
    let content = match body.encoding.as_deref() {
        None | Some("" | "utf-8") => body.content.into_bytes(),
        Some("base64") => STANDARD.decode(&body.content).map_err(|error| {
            ApiError::bad_request(format!("the content is not base64: {error}"))
        })?,
        Some(other) => {
            let text = format!(
                "unknown encoding {}; use \"base64\" or leave it out",
                quoted(other)
            );
            return Err(ApiError::bad_request(text));
        }
    };
    let agent = body.agent_id.as_deref().unwrap_or(DEFAULT_AGENT);
    let backend = backend_of(&app, &caller, agent).await?;
    permit.count_file(&body.path, &content)?;
    let outcome = backend.write(&body.path, &content).await;
    outcome.map_err(of_files(&*backend))?;
    Ok(Json(UploadReply {
        status: "ok",
        path: body.path,
        size: content.len(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_grows_beyond_the_limit_as_json_has_no_content() {
        let zeros = vec![0_u8; MAX_BYTES / 6];
        assert_eq!(content_of(zeros).unwrap().len(), MAX_BYTES / 6);
        assert_eq!(content_of(vec![0; MAX_BYTES / 6 + 1]), None);
        assert_eq!(content_of(b"\xff".to_vec()).unwrap(), "base64:/w==");
        assert_eq!(content_of(vec![0xff; MAX_BYTES / 4 * 3 + 1]), None);
    }
}
