//! Connections that fail, stall, redirect or stay open.

use agentcore::{AgentBuilder, ExitReason};
use futures::future::join_all;

use super::*;

#[tokio::test]
async fn n01_refused_connection_and_early_reset_are_connect_errors() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(Reply::raw().reset());
        server.reply(Reply::raw().close());
        for _ in 0..2 {
            let error = ask(api, &server).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Connect, "{api:?} {error}");
            assert!(error.is_retryable());
        }

        // No process listens on port 1, which the system never assigns by itself.
        let (_, refused) = outcome_at(api, "http://127.0.0.1:1", PATIENCE).await;
        assert_eq!(refused.unwrap().kind(), ErrorKind::Connect, "{api:?}");
    }
}

/// A connection that another runtime has used is not in the pool of this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_is_sent_once_in_a_runtime_without_a_pooled_connection() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(api.text("first"));
        server.reply(Reply::raw().reset());
        let model = api.model(&server.url(), PATIENCE);
        model.call(api.request()).await.unwrap();

        let call = tokio::task::spawn_blocking(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(model.call(api.request()))
        });
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Connect, "{api:?} {error}");
        assert_eq!(server.requests().len(), 2, "{api:?}");
    }
}

#[tokio::test]
async fn n16_last_event_ends_the_answer_on_an_open_socket() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(api.text("all of it").stall());
        // The answer ends by itself: its end is not that of the idle timeout.
        let model = api.model(&server.url(), 10 * PATIENCE);
        let answer = tokio::time::timeout(PATIENCE, model.call(api.request())).await;
        assert_eq!(answer.unwrap().unwrap().text(), "all of it", "{api:?}");
        server.all_closed().await;
    }
}

/// Uses a paused clock: bytes over loopback arrive at once, so that time advances only when both
/// sides wait.
#[tokio::test(start_paused = true)]
async fn n17_silence_is_a_timeout_and_any_byte_resets_it() {
    let idle = Duration::from_secs(300);
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        let half = api.text("some words here").body_len() / 2;
        server.reply(keep_frames(api, half).stall());
        server.reply(Reply::raw().stall());
        for shown_before in [true, false] {
            let (shown, error) = outcome_at(api, &server.url(), idle).await;
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::Timeout, "{api:?} {error}");
            assert!(error.is_retryable());
            assert_eq!(!text(&shown).is_empty(), shown_before, "{api:?}");
        }

        server.all_closed().await;

        // The pauses add up to more than the idle timeout, but each is much shorter.
        let filler = if api.is_sse() {
            ": still here\n\n"
        } else {
            "\n"
        };

        let mut slow = keep_frames(api, half);
        for _ in 0..6 {
            slow = slow.pause(idle / 4).send(filler);
        }

        let rest: Vec<_> = {
            let frame_count = frames(&keep_frames(api, half)).len();
            frames(&api.text("some words here")).split_off(frame_count)
        };

        server.reply(rest.into_iter().fold(slow, Reply::send));
        let (shown, error) = outcome_at(api, &server.url(), idle).await;
        assert!(error.is_none(), "{api:?} {error:?}");
        assert_eq!(text(&shown), "some words here");
    }
}

/// Bytes that keep arriving reset the idle timeout for ever, so the duration of the run is the
/// limit. Uses a paused clock.
#[tokio::test(start_paused = true)]
async fn n18_slow_trickle_ends_at_max_duration() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        let filler = if api.is_sse() { ":" } else { " " };
        let half = api.text("some words here").body_len() / 2;
        let trickle = (0..1000).fold(keep_frames(api, half), |reply, _| {
            reply.pause(Duration::from_secs(10)).send(filler)
        });

        server.reply(trickle);
        let model = api.model(&server.url(), PATIENCE);
        let limit = Duration::from_secs(600);
        let agent = AgentBuilder::new(model)
            .max_duration(limit)
            .build()
            .unwrap();
        let start = tokio::time::Instant::now();
        let output = agent.run("hello").await.unwrap();
        assert_eq!(output.end, ExitReason::MaxDuration, "{api:?}");
        assert!(output.text.starts_with("some"), "{api:?} {output:?}");
        let took = start.elapsed();
        assert!(took >= limit && took < limit + PATIENCE, "{took:?}");
        server.all_closed().await;
    }
}

#[tokio::test]
async fn n26_redirect_is_not_followed() {
    for api in ALL {
        let (server, other) = (
            FaultServer::start().await.unwrap(),
            FaultServer::start().await.unwrap(),
        );
        for status in [301, 302, 303, 307, 308] {
            server.reply(Reply::json(status, "").header("location", other.url() + "/steal"));
            let error = ask(api, &server).await.unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Protocol,
                "{api:?} {status} {error}"
            );
            assert!(!error.is_retryable());
        }

        assert!(
            other.requests().is_empty() && other.connections() == 0,
            "{api:?}"
        );
    }
}

#[tokio::test]
async fn n27_pooled_connection_closed_by_the_server_is_replaced() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        let model = api.model(&server.url(), PATIENCE);
        server.reply(api.text("one"));
        assert_eq!(model.call(api.request()).await.unwrap().text(), "one");

        // The pooled connection closes during the next request.
        server.reply(Reply::raw().close());
        server.reply(api.text("two"));
        assert_eq!(
            model.call(api.request()).await.unwrap().text(),
            "two",
            "{api:?}"
        );
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn n27_each_of_several_connections_closed_by_the_server_is_replaced() {
    for api in ALL {
        for call_count in [1, 3] {
            check_closed_connections(api, call_count).await;
        }
    }
}

/// Checks that each of several concurrent calls is answered, although the server closes the three
/// connections in the pool during the next requests.
async fn check_closed_connections(api: Api, call_count: usize) {
    let server = FaultServer::start().await.unwrap();
    server.fallback(api.text("an answer in several pieces"));
    let model = api.model(&server.url(), PATIENCE);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(model.stream(api.request()).await.unwrap());
    }
    for stream in streams {
        let events: Vec<_> = stream.collect().await;
        assert!(events.iter().all(Result::is_ok), "{api:?}");
    }
    assert_eq!(server.connections(), 3, "{api:?}");
    // Tasks of the client return the connections to the pool.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }

    server.respond(move |request| match request.connection {
        0..3 => Reply::raw().close(),
        _ => api.text("two"),
    });
    let calls = (0..call_count).map(|_| model.call(api.request()));
    for answer in join_all(calls).await {
        assert_eq!(answer.unwrap().text(), "two", "{api:?}");
    }
    let requests = server.requests();
    let broken = requests.iter().filter(|request| request.connection < 3);
    assert_eq!(broken.count(), 3 + call_count, "{api:?}");
}

#[tokio::test]
async fn dropped_stream_closes_its_connection() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(keep_frames(api, 300).stall());
        let model = api.model(&server.url(), PATIENCE);
        let mut stream = model.stream(api.request()).await.unwrap();
        stream.next().await.unwrap().unwrap();
        drop(stream);
        server.all_closed().await;

        server.reply(Reply::raw().stall());
        let call = tokio::spawn(async move { model.call(api.request()).await.is_ok() });
        server.received(2).await;
        call.abort();
        server.all_closed().await;
    }
}
