//! The files of a workspace.

use std::time::Duration;

use agentcore::config::{AgentConfig, BackendCfg};
use agentcore::registry::Registry;
use agentcore::server::{RunLimits, Server, ServerLimits};
use agentcore::testing::ScriptedModel;
use serde_json::json;
use tokio::time::timeout;

use crate::agents::echo;
use crate::http::TestServer;

async fn server(folder: &std::path::Path) -> TestServer {
    server_with(folder, ServerLimits::default()).await
}

async fn server_with(folder: &std::path::Path, limits: ServerLimits) -> TestServer {
    let registry = Registry::new().models(|_| Ok(ScriptedModel::new()));
    let config =
        AgentConfig::new("any-model").with_backend(BackendCfg::local(folder.display().to_string()));
    let server = Server::with_registry(registry)
        .agent("default", config)
        .agent("echo", echo())
        .limits(limits);
    TestServer::start(server).await
}

#[tokio::test]
async fn uploaded_file_is_listed_read_and_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let body = json!({"path": "notes/a.txt", "content": "Hellö"});
    let reply = server
        .post("/agents/files/upload", body)
        .send()
        .await
        .ok(200);
    assert_eq!(
        reply,
        json!({"status": "ok", "path": "notes/a.txt", "size": 6})
    );

    let list = server
        .get("/agents/default/files/list?path=notes")
        .send()
        .await
        .ok(200);
    assert_eq!(list["path"], "notes");
    assert_eq!(
        list["entries"],
        json!([{"name": "a.txt", "type": "file", "size": 6}])
    );
    let root = server
        .get("/agents/default/files/list")
        .send()
        .await
        .ok(200);
    assert_eq!(root["entries"][0]["type"], "dir");
    let read = server
        .get("/agents/default/files/read?path=notes/a.txt")
        .send()
        .await
        .ok(200);
    assert_eq!(read["content"], "Hellö");
    let bytes = server
        .get("/agents/files/download?path=notes/a.txt&agent_id=default")
        .send()
        .await;
    assert_eq!((bytes.status, bytes.text().as_str()), (200, "Hellö"));
    assert_eq!(bytes.header("content-disposition"), Some("attachment"));
}

#[tokio::test]
async fn file_that_is_not_text_is_read_in_base64() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let body = json!({"path": "a.bin", "content": "/v8A", "encoding": "base64"});
    assert_eq!(
        server
            .post("/agents/files/upload", body)
            .send()
            .await
            .ok(200)["size"],
        3
    );
    let read = server
        .get("/agents/default/files/read?path=a.bin")
        .send()
        .await
        .ok(200);
    assert_eq!(read["content"], "base64:/v8A");
    let bytes = server.get("/agents/files/download?path=a.bin").send().await;
    assert_eq!(bytes.body, [0xfe, 0xff, 0]);
    let body = json!({"path": "a.bin", "content": "?", "encoding": "base64"});
    server
        .post("/agents/files/upload", body)
        .send()
        .await
        .error(400);
}

#[tokio::test]
async fn path_outside_of_the_workspace_is_a_403_and_a_missing_one_a_404() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    let server = server(folder.path()).await;
    for path in ["../secret.txt", "/etc/passwd", "../other/a"] {
        for route in ["default/files/read", "default/files/list", "files/download"] {
            let reply = server
                .get(&format!("/agents/{route}?path={path}"))
                .send()
                .await;
            reply.error(403);
        }
        let body = json!({"path": path, "content": "x"});
        server
            .post("/agents/files/upload", body)
            .send()
            .await
            .error(403);
    }
    for route in ["default/files/read", "default/files/list", "files/download"] {
        server
            .get(&format!("/agents/{route}?path=none"))
            .send()
            .await
            .error(404);
    }
    let text = std::fs::read_to_string(folder.path().join("secret.txt")).unwrap();
    assert_eq!(text, "secret");
}

#[cfg(unix)]
#[tokio::test]
async fn link_to_itself_is_an_error_of_the_request() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("loop", folder.path().join("loop")).unwrap();
    let server = server(folder.path()).await;
    for route in ["default/files/read", "default/files/list", "files/download"] {
        for path in ["loop", "loop/a.txt"] {
            let path = format!("/agents/{route}?path={path}");
            let reply = server.get(&path).send().await;
            assert!(
                (400..500).contains(&reply.status),
                "{path}: {}",
                reply.status
            );
        }
    }
}

#[tokio::test]
async fn request_without_a_path_or_a_backend_is_a_400() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    for path in ["/agents/default/files/read", "/agents/files/download?path="] {
        assert_eq!(server.get(path).send().await.error(400), "path is required");
    }
    let body = json!({"path": "", "content": "x"});
    server
        .post("/agents/files/upload", body)
        .send()
        .await
        .error(400);
    let reply = server.get("/agents/echo/files/list").send().await;
    assert!(reply.error(400).contains("no backend"));
    server
        .get("/agents/none/files/list")
        .send()
        .await
        .error(404);
    server
        .get("/agents/default/files/read?path=.")
        .send()
        .await
        .error(400);
}

#[tokio::test]
async fn upload_over_its_limit_is_a_413() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let body = json!({"path": "a.txt", "content": "x".repeat(2 * 1024 * 1024)});
    server
        .post("/agents/files/upload", body)
        .send()
        .await
        .ok(200);
    let request = server.post("/agents/files/upload", json!({}));
    let request = request.body(vec![b' '; 32 * 1024 * 1024 + 1]);
    assert!(request.send().await.error(413).contains("33554432 bytes"));
}

#[tokio::test]
async fn errors_of_files_leave_out_the_place_of_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let root = folder.path().to_str().unwrap();
    let outside = server.get("/agents/default/files/read?path=../b.txt");
    let outside = outside.send().await.error(403);
    assert_eq!(outside, r#"path "../b.txt" is outside workspace"#);
    for path in ["read?path=none.txt", "list?path=none", "read?path=."] {
        let reply = server.get(&format!("/agents/default/files/{path}"));
        let reply = reply.send().await;
        assert!(reply.status >= 400, "{path}");
        assert!(!reply.text().contains(root), "{}", reply.text());
    }
}

#[tokio::test]
async fn uploads_over_the_bytes_of_a_day_are_a_429_and_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let limits = ServerLimits::default().with_upload_bytes_per_day(2 * 4_096 + 15);
    let server = server_with(folder.path(), limits).await;
    let upload = |path: &str, content: &str| {
        let body = json!({"path": path, "content": content});
        server.post("/agents/files/upload", body).send()
    };
    upload("a.txt", "1234").await.ok(200);
    let reply = upload("b.txt", "12").await;
    assert!(reply.error(429).contains("4105 bytes"));
    let wait = reply.header("retry-after").unwrap().parse::<u64>().unwrap();
    assert!((1..=24 * 60 * 60).contains(&wait), "{wait}");
    let list = server.get("/agents/default/files/list").send().await;
    let a_file = json!([{"name": "a.txt", "type": "file", "size": 4}]);
    assert_eq!(list.ok(200)["entries"], a_file);
    upload("a.txt", "5").await.ok(200);
    upload("a", "").await.error(429);
}

#[tokio::test]
async fn long_list_waits_for_the_space_of_other_replies_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let runs = RunLimits::default().with_reader_bytes_per_user(1024 * 1024);
    let server = server_with(folder.path(), ServerLimits::default().with_runs(runs)).await;
    let body = json!({"path": "large", "content": "x".repeat(24 * 1024 * 1024)});
    let upload = server.post("/agents/files/upload", body);
    upload.send().await.ok(200);
    // Finds the workspace of the user.
    let mut workspace = folder.path().to_owned();
    while !workspace.join("large").exists() {
        let mut folders = std::fs::read_dir(&workspace).unwrap();
        workspace = folders.next().unwrap().unwrap().path();
    }
    for number in 0..1_500 {
        std::fs::write(workspace.join(format!("{number:060}")), "").unwrap();
    }
    // The socket buffer cannot hold the reply, so the reply occupies the whole space.
    let unread = server.get("/agents/files/download?path=large").open().await;
    assert_eq!(unread.status, 200);
    let list = || server.get("/agents/default/files/list").send();
    let mut lists: Vec<_> = (0..3).map(|_| Box::pin(list())).collect();
    for list in &mut lists {
        let reply = timeout(Duration::from_secs(1), list).await;
        assert!(reply.is_err(), "{reply:?}");
    }
    drop(unread);
    for list in lists {
        list.await.ok(200);
    }
}
