//! The completed router: all routes, and the checks before each of them.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use crate::util::panic::catch_async;

use super::app::App;
use super::error::ApiError;
use super::origin::{add_cors_headers, preflight_reply};
use super::users::Caller;

/// The paths without data of users.
const PUBLIC_PATHS: &[&str] = &["/", "", "/healthz"];

/// Completes the router: fallbacks, the checks before each route, the state.
pub(super) fn finish(router: Router<App>, app: App) -> Router {
    router
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

async fn no_route(uri: Uri) -> ApiError {
    let hint = hint(uri.path()).map(|hint| format!("{hint}; "));
    ApiError::not_found(format!(
        "there is no route {:?}; {}/openapi.json lists the routes",
        uri.path(),
        hint.unwrap_or_default()
    ))
}

/// Returns a hint at the route that was likely meant.
fn hint(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match *parts {
        ["agents", "threads", ref thread_parts @ ..] => Some(format!(
            "a route of a thread names the agent, as in \"/agents/default/threads/{}\"",
            thread_parts.join("/")
        )),
        [
            "agents",
            agent,
            "threads",
            thread,
            "stop" | "cancel" | "abort",
        ] => Some(format!(
            "POST \"/agents/{agent}/threads/{thread}/interrupt\" stops a run"
        )),
        ["agents", agent, "stop" | "cancel" | "abort" | "interrupt"] => Some(format!(
            "POST \"/agents/{agent}/threads/THREAD/interrupt\" stops a run"
        )),
        ["agents", agent, "threads", thread, _] => Some(format!(
            "the routes of \"/agents/{agent}/threads/{thread}\" are events, interrupt, steer, \
             compact, mode, model, fork and title"
        )),
        _ => None,
    }
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let text = format!(
        "{method} is not allowed for {:?}; the header `Allow` lists the methods",
        uri.path()
    );
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, text)
}

/// Checks a request, and contains the panics of its handler.
async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = catch_async(check_and_run(&app, request, next))
        .await
        .unwrap_or_else(|panic| {
            tracing::error!(panic, "a request panicked");
            ApiError::internal().into_response()
        });
    let headers = response.headers_mut();
    let no_sniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, no_sniff);
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

/// Checks the host and the origin of a request, then its user, and runs its handler.
async fn check_and_run(app: &App, request: Request, next: Next) -> Response {
    if *app.is_closing.borrow() {
        return ApiError::closing().into_response();
    }

    let (parts, body) = request.into_parts();
    let origin = match app.origins.check(&parts) {
        Ok(origin) => origin,
        Err(error) => return error.into_response(),
    };

    let Some(origin) = origin else {
        return authenticate_and_run(app, parts, body, next).await;
    };
    let mut response = match preflight_reply(&parts.method, &parts.headers) {
        Some(reply) => reply,
        None => authenticate_and_run(app, parts, body, next).await,
    };
    add_cors_headers(&mut response, origin);
    response
}

/// Determines the user of a request unless its path is public, and runs its handler.
async fn authenticate_and_run(app: &App, mut parts: Parts, body: Body, next: Next) -> Response {
    if !PUBLIC_PATHS.contains(&parts.uri.path()) {
        match app.auth.user(&parts) {
            Ok(user) => parts.extensions.insert(Caller(user)),
            Err(error) => return error.into_response(),
        };
    }
    next.run(Request::from_parts(parts, body)).await
}
