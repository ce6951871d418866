//! Servers that are killed and restarted, and servers that stay down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentcore::session::ServerOptions;
use agentcore::testing::{FunctionModel, StrictModel};
use agentcore::{AgentBuilder, ErrorKind, FuncTool, ModelEvent, ToolCall};
use serde_json::json;

use super::own::{Own, Startable};
use crate::kit::any_object;
use crate::session_stores::places::said;

macro_rules! for_each_own {
    ($($test:ident),* $(,)?) => {
        #[cfg(feature = "postgres")]
        mod real_postgres {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<agentcore::session::PostgresStore>().await;
            })*
        }

        #[cfg(feature = "redis")]
        mod real_redis {
            $(#[tokio::test]
            async fn $test() {
                super::$test::<agentcore::session::RedisStore>().await;
            })*
        }
    };
}

for_each_own!(
    run_continues_when_its_server_is_killed_and_restarted,
    unreachable_server_is_an_error_and_loses_no_write,
);

const TURNS: usize = 6;

/// A model that calls `act` `TURNS` times, then answers.
fn model() -> StrictModel<FunctionModel> {
    StrictModel::new(FunctionModel::new(|request| {
        let call_count = request.messages.len() / 2;
        if call_count == TURNS {
            return vec![Ok(ModelEvent::Text("Done.".into()))];
        }

        let id = format!("call_{call_count}");
        vec![Ok(ModelEvent::ToolCall(ToolCall::new(
            id,
            "act",
            json!({}),
        )))]
    }))
}

async fn run_continues_when_its_server_is_killed_and_restarted<K: Startable>() {
    let Some(server) = Own::start::<K>() else {
        return;
    };

    let url = K::url_at(server.port());
    let patient = ServerOptions::default().max_retry_time(Duration::from_secs(120));
    let store = K::open(&url, patient.clone()).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let (calls, killed) = (count.clone(), server.clone());
    let act = FuncTool::new("act", "Acts", any_object(), move |_cx, _args| {
        let number = calls.fetch_add(1, Ordering::SeqCst);
        if number % 2 == 1 {
            killed.kill();
            let server = killed.clone();
            std::thread::spawn(move || server.restart());
        }

        async move { format!("did {number}") }
    });

    let agent = AgentBuilder::new(model())
        .tool(act)
        .store(store)
        .build()
        .unwrap();
    let output = agent.session("s").run("Go").await.unwrap();
    assert_eq!(output.text, "Done.");
    assert_eq!(count.load(Ordering::SeqCst), TURNS);
    let other = K::open(&url, patient).unwrap();
    let stored = other.load("s").await.unwrap().unwrap();
    assert!(stored.damage.is_empty(), "{:?}", stored.damage);
    assert_eq!(stored.state.messages, output.messages);
    assert_eq!(
        stored.state.messages.len(),
        2 * TURNS + 2,
        "no message is repeated"
    );

    // The lease is released in the background.
    while let Err(error) = other.lease("s").await {
        assert_eq!(error.kind(), ErrorKind::SessionBusy, "{error}");
    }
}

async fn unreachable_server_is_an_error_and_loses_no_write<K: Startable>() {
    let Some(server) = Own::start::<K>() else {
        return;
    };

    let url = K::url_at(server.port());
    let patient = ServerOptions::default().max_retry_time(Duration::from_secs(120));
    let other = K::open(&url, patient).unwrap();
    let lease = other.lease("s").await.unwrap();
    other.append(&lease, vec![said("one")]).await.unwrap();
    drop(lease);
    let hasty = ServerOptions::default().max_retry_time(Duration::from_millis(300));
    let store = K::open(&url, hasty).unwrap();
    let lease = loop {
        // The lease is released in the background.
        match store.lease("s").await {
            Ok(lease) => break lease,
            Err(error) => assert_eq!(error.kind(), ErrorKind::SessionBusy, "{error}"),
        }
    };

    server.kill();
    let mut expected = vec!["one"];
    for _ in 0..2 {
        let error = loop {
            match store.append(&lease, vec![said("two")]).await {
                Err(error) => break error,
                // A process of the killed server was still alive.
                Ok(()) => expected.push("two"),
            }
        };

        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        assert!(error.is_retryable());
        let text = error.text();
        assert!(
            text.contains(&format!("127.0.0.1:{}", server.port())),
            "{text}"
        );
        assert!(text.contains("run the session again"), "{text}");
    }

    server.restart();
    let patience = Instant::now();

    // Writes fail while the server starts. None of the failed writes is stored.
    while let Err(error) = store.append(&lease, vec![said("three")]).await {
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        assert!(patience.elapsed() < Duration::from_secs(60));
    }

    drop(lease);
    let session = other.load("s").await.unwrap().unwrap();
    let texts: Vec<_> = session.state.messages.iter().map(|m| m.text()).collect();
    expected.push("three");
    assert_eq!(texts, expected);
}
