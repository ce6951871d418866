//! Tools that clients register.

use agentcore::net::AddressPolicy;
use agentcore::server::Server;
use agentcore::testing::{FaultServer, Reply as Scripted};
use agentcore::{FuncTool, ToolContext};
use serde_json::json;

use crate::agents::{caller, echo, input};
use crate::http::TestServer;

fn registration(name: &str, url: &str) -> serde_json::Value {
    json!({"name": name, "description": "Looks up", "parameters": {"type": "object"},
        "callback_url": url})
}

#[tokio::test]
async fn registered_tool_is_called_and_deregistered() {
    let peer = FaultServer::start().await.unwrap();
    peer.reply(Scripted::new(200).send(r#"{"result": "order 7"}"#));
    let address: std::net::SocketAddr = peer.url().trim_start_matches("http://").parse().unwrap();
    let server = Server::new()
        .agent("default", caller("lookup", json!({"id": 7})))
        .callbacks(AddressPolicy::new().allow_address(address));
    let server = TestServer::start(server).await;
    let mut events = server.get("/agents/events").open().await;

    let body = registration("lookup", &peer.url());
    let reply = server
        .post("/agents/tools/register", body)
        .send()
        .await
        .ok(200);
    assert_eq!(reply, json!({"status": "registered", "name": "lookup"}));
    assert_eq!(events.event().await.unwrap().data, "tools_changed");
    let reply = server
        .post("/agents/invoke", input("Go"))
        .send()
        .await
        .ok(200);
    assert_eq!(reply["response"], "Done: order 7");

    let path = "/agents/tools/deregister/lookup";
    let reply = server.request("DELETE", path).send().await.ok(200);
    assert_eq!(reply, json!({"status": "deregistered", "name": "lookup"}));
    let reply = server.request("DELETE", path).send().await;
    assert_eq!(reply.error(404), "tool \"lookup\" not found");
}

#[tokio::test]
async fn secrets_in_the_address_of_a_users_tool_are_redacted_only_in_its_texts() {
    let peer = FaultServer::start().await.unwrap();
    peer.reply(
        Scripted::new(200)
            .send(r#"{"result": "the\u0020following, dGhlIGZvbGxvd2luZw==, %70in4"}"#),
    );
    let address: std::net::SocketAddr = peer.url().trim_start_matches("http://").parse().unwrap();
    let server = Server::new()
        .agent("default", caller("lookup", json!({"id": 7})))
        .agent("echo", echo())
        .callbacks(AddressPolicy::new().allow_address(address));
    let server = TestServer::start(server).await;
    let url = format!("{}/?key=the%20following&token=pin4", peer.url());
    let body = registration("lookup", &url);
    server
        .post("/agents/tools/register", body)
        .send()
        .await
        .ok(200);

    let text = "the following";
    let reply = server
        .post("/agents/echo/invoke", input(text))
        .send()
        .await
        .ok(200);
    assert!(
        reply["response"].as_str().unwrap().contains(text),
        "{reply}"
    );
    let error = agentcore::Error::from(text).to_string();
    assert_eq!(error, text);
    let reply = server
        .post("/agents/invoke", input("Go"))
        .send()
        .await
        .ok(200);
    assert_eq!(
        reply["response"],
        "Done: [redacted], [redacted], [redacted]"
    );

    let parameters = "key=1&".repeat(17);
    let body = registration("lookup", &format!("{}/?{parameters}", peer.url()));
    let reply = server.post("/agents/tools/register", body).send().await;
    let error = reply.error(400);
    assert!(
        error.contains("more than 16 passwords and query parameters"),
        "{error}"
    );
}

#[tokio::test]
async fn registration_that_is_incomplete_or_invalid_is_a_400() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    for (body, text) in [
        (json!({}), "name is required"),
        (json!({"name": "x"}), "callback_url is required"),
        (registration("x y", "https://tools.example.com"), "x y"),
        (
            json!({"name": "x", "callback_url": "https://tools.example.com", "parameters": 7}),
            "x",
        ),
        (
            registration("x", "ftp://tools.example.com"),
            "http or https",
        ),
    ] {
        let error = server
            .post("/agents/tools/register", body.clone())
            .send()
            .await
            .error(400);
        assert!(error.contains(text), "{body}: {error}");
    }
}

#[tokio::test]
async fn callback_inside_the_network_is_refused() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    for url in [
        "http://127.0.0.1:9100",
        "http://169.254.169.254/latest",
        "http://[::1]/",
        "http://2130706433/",
        "http://[::ffff:10.0.0.1]/",
        "http://localhost/",
        "http://example.com:8080/",
    ] {
        let reply = server
            .post("/agents/tools/register", registration("x", url))
            .send()
            .await;
        assert!(
            reply.error(400).contains("refused"),
            "{url}: {}",
            reply.text()
        );
    }
}

#[tokio::test]
async fn name_of_a_tool_of_the_program_is_a_409() {
    let tool = FuncTool::new(
        "lookup",
        "Looks",
        json!({"type": "object"}),
        |_: ToolContext, _| async { "" },
    );
    let server = Server::new().agent("default", echo()).tool(tool);
    let server = TestServer::start(server).await;
    let body = registration("lookup", "https://tools.example.com");
    server
        .post("/agents/tools/register", body)
        .send()
        .await
        .error(409);
    server
        .request("DELETE", "/agents/tools/deregister/lookup")
        .send()
        .await
        .error(404);
}

#[tokio::test]
async fn registration_that_is_too_large_is_a_400() {
    let server = TestServer::start(Server::new().agent("default", echo())).await;
    let mut body = registration("x", "https://tools.example.com");
    body["description"] = "d".repeat(40_000).into();
    let url = format!("https://tools.example.com/{}", "u".repeat(2_048));
    for (body, text) in [
        (body, "limit is 32768"),
        (registration("x", &url), "2048 bytes"),
    ] {
        let reply = server.post("/agents/tools/register", body).send().await;
        assert!(reply.error(400).contains(text), "{}", reply.text());
    }
}
