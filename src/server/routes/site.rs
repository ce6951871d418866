//! The page, the health check and the description of the routes.

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::api::{Api, Operation, Verb};
use super::super::app::App;
use super::super::page;

pub(super) fn routes(api: Api) -> Api {
    let health_operation = Operation::new(
        Verb::Get,
        "/healthz",
        "site",
        "Reports that requests are served; 503 in a shutdown.",
    );
    let page_operation = Operation::new(Verb::Get, "/", "site", "The page.");
    let document_operation =
        Operation::new(Verb::Get, "/openapi.json", "site", "This description.");
    api.route(health_operation.reply::<Health>().public(), health)
        .route(page_operation.bytes("text/html").public(), show_page)
        .route(document_operation.bytes("application/json"), document)
}

#[derive(Debug, Serialize, JsonSchema)]
struct Health {
    /// `ok`.
    status: &'static str,
}

async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

async fn show_page() -> Response {
    page::respond()
}

async fn document(State(app): State<App>) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, app.openapi.to_string()).into_response()
}
