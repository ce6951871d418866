//! The router inside an application.

use agentcore::server::{Server, User};
use axum::Router;
use axum::routing::get;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::agents::{echo, input};
use crate::http::{Request, TOKEN};

async fn serve(app: Router) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

#[tokio::test]
async fn nested_router_has_its_page_routes_and_errors_below_its_path() {
    let agents = Server::new().agent("default", echo()).token(TOKEN);
    let app = Router::new()
        .route("/", get(|| async { "home" }))
        .nest("/ai", agents.router().unwrap());
    let address = serve(app).await;
    let request = |method: &str, path: &str| Request::to(address, method, path);
    assert_eq!(request("GET", "/").send().await.text(), "home");
    let page = request("GET", "/ai").without("authorization").send().await;
    assert!(
        page.header("content-type")
            .unwrap()
            .starts_with("text/html")
    );
    let reply = request("POST", "/ai/agents/invoke")
        .json(input("Hi"))
        .send()
        .await;
    assert_eq!(reply.ok(200)["response"], "You said: Hi");
    request("GET", "/ai/agents/").send().await.ok(200);
    request("GET", "/ai/agents/")
        .without("authorization")
        .send()
        .await
        .error(401);
    request("GET", "/ai/nothing").send().await.error(404);
    request("PUT", "/ai/agents/invoke").send().await.error(405);
}

#[tokio::test]
async fn user_in_the_extensions_is_the_caller() {
    let agents = Server::new().agent("default", echo()).users(|parts| {
        let user = parts.extensions.get::<User>().cloned();
        user.ok_or_else(|| "log in first".into())
    });
    let layer = axum::Extension(User::new("ann"));
    let app = Router::new()
        .nest("/ai", agents.router().unwrap())
        .layer(layer);
    let address = serve(app).await;
    let request = Request::to(address, "POST", "/ai/agents/invoke").json(input("Hi"));
    let reply: Value = request.send().await.ok(200);
    assert_eq!(reply["response"], "You said: Hi");
}
