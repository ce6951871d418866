//! The page, the health check and the description of the routes.

use std::collections::BTreeSet;

use agentcore::server::{Server, StreamFormat};
use serde_json::Value;

use crate::agents::echo;
use crate::http::TestServer;

async fn server() -> TestServer {
    TestServer::start(Server::new().agent("default", echo())).await
}

#[tokio::test]
async fn health_needs_no_token() {
    let server = server().await;
    let reply = server.get("/healthz").without("authorization").send().await;
    assert_eq!(reply.text(), r#"{"status":"ok"}"#);
}

#[tokio::test]
async fn page_has_a_policy_with_a_nonce_of_its_own() {
    let server = server().await;
    let mut policies = BTreeSet::new();
    for _ in 0..2 {
        let reply = server.get("/").without("authorization").send().await;
        assert_eq!(reply.status, 200);
        assert!(
            reply
                .header("content-type")
                .unwrap()
                .starts_with("text/html")
        );
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        let policy = reply.header("content-security-policy").unwrap().to_owned();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'nonce-"),
            "{policy}"
        );
        assert!(reply.body.len() <= 80 * 1024, "{}", reply.body.len());
        assert!(!reply.text().contains("__NONCE__"));
        policies.insert(policy);
    }
    assert_eq!(policies.len(), 2);
}

#[tokio::test]
async fn unknown_route_is_a_404_and_a_wrong_method_a_405_with_allow() {
    let server = server().await;
    server.get("/nothing").send().await.error(404);
    server
        .get("/agents/default/nothing")
        .send()
        .await
        .error(404);
    for (path, route) in [
        (
            "/agents/threads/s1/interrupt",
            "/agents/default/threads/s1/interrupt",
        ),
        (
            "/agents/a/threads/s1/stop",
            "/agents/a/threads/s1/interrupt",
        ),
        ("/agents/a/interrupt", "/agents/a/threads/THREAD/interrupt"),
        ("/agents/a/threads/s1/rename", "fork and title"),
    ] {
        let error = server.request("POST", path).send().await.error(404);
        assert!(error.contains(route), "{error}");
    }
    let reply = server.request("PUT", "/agents/").send().await;
    reply.error(405);
    let allow = reply.header("allow").unwrap();
    let methods: BTreeSet<_> = allow.split(',').map(str::trim).collect();
    assert!(
        methods.contains("GET") && methods.contains("POST"),
        "{allow}"
    );
    let reply = server.get("/agents/invoke").send().await;
    reply.error(405);
    assert_eq!(reply.header("allow"), Some("POST"));
}

#[tokio::test]
async fn description_has_every_route_and_no_open_reference() {
    let server = server().await;
    let document = server.get("/openapi.json").send().await.ok(200);
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    let mut ids = BTreeSet::new();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} is repeated");
            assert!(operation["responses"].is_object(), "{path} {method}");
            let parameters = operation["parameters"].as_array().unwrap();
            for name in path.split('/').filter_map(|part| part.strip_prefix('{')) {
                let name = name.trim_end_matches('}');
                assert!(
                    parameters.iter().any(|one| one["name"] == name),
                    "{path} {name}"
                );
            }
        }
    }
    for path in [
        "/agents/{id}/stream",
        "/agents/hitl/{name}",
        "/agents/files/upload",
        "/healthz",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    references(&document, &document);
}

#[tokio::test]
async fn description_has_the_formats_of_streams_and_the_errors_of_public_routes() {
    let server = server().await;
    let document = server.get("/openapi.json").send().await.ok(200);
    let stream = &document["paths"]["/agents/{id}/stream"]["post"];
    let content = stream["responses"]["200"]["content"].as_object().unwrap();
    for kind in ["text/event-stream", "application/x-ndjson"] {
        assert!(content.contains_key(kind), "{content:?}");
    }
    let parameters = stream["parameters"].as_array().unwrap();
    let format = parameters.iter().find(|one| one["name"] == "format");
    let format = resolved(&format.unwrap()["schema"], &document);
    let names = format["enum"].as_array().unwrap();
    let names: Vec<_> = names.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names, ["events", "sdk", "ndjson", "ag-ui", "ai-sdk"]);
    for name in names {
        name.parse::<StreamFormat>().unwrap();
    }

    let body = &stream["requestBody"]["content"]["application/json"]["schema"];
    let body = resolved(body, &document);
    let bodies = body["anyOf"].as_array().unwrap().iter();
    let keys = bodies.map(|body| {
        let properties = &resolved(body, &document)["properties"];
        let keys = properties.as_object().unwrap().keys();
        keys.map(String::as_str).collect::<BTreeSet<_>>()
    });
    let keys: Vec<_> = keys.collect();
    for (keys, key) in keys.iter().zip(["input_id", "threadId", "trigger"]) {
        assert!(keys.contains(key), "{keys:?}");
    }
    assert_eq!(keys.len(), 3);

    for path in ["/", "/healthz"] {
        let responses = &document["paths"][path]["get"]["responses"];
        let responses = responses.as_object().unwrap();
        let has = |status: &str| responses.contains_key(status);
        assert!(has("400") && has("403") && !has("401"), "{path}");
    }
}

/// Returns the schema, or the one that it refers to.
fn resolved<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str);
    let pointer = target.map(|target| target.strip_prefix('#').unwrap());
    pointer.map_or(schema, |pointer| document.pointer(pointer).unwrap())
}

/// Checks that each reference leads to a schema.
fn references(value: &Value, document: &Value) {
    match value {
        Value::Object(map) => {
            if let Some(target) = map.get("$ref").and_then(Value::as_str) {
                let pointer = target.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{target}");
            }
            map.values().for_each(|value| references(value, document));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, document)),
        _ => {}
    }
}
