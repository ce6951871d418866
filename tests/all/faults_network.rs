//! What every provider makes of a network and a server that misbehave.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use agentcore::model::{ModelEvent, ModelResponse};
use agentcore::providers::{Anthropic, Ollama, OpenAi};
use agentcore::testing::fault_server::Framing;
use agentcore::testing::{FaultServer, Reply};
use agentcore::{Error, ErrorKind, Model, ModelRequest, Result};
use futures::StreamExt;

const KEY: &str = "sk-test-0123456789abcdef";

/// Long enough for a busy machine, and never waited for.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Api {
    Anthropic,
    OpenAi,
    Ollama,
}

use Api::{Anthropic as A, Ollama as L, OpenAi as O};

const ALL: [Api; 3] = [A, O, L];

impl Api {
    fn model(self, url: &str, idle: Duration) -> Box<dyn Model> {
        match self {
            A => Box::new(Anthropic::new("m", KEY).base_url(url).idle_timeout(idle)),
            O => Box::new(OpenAi::compatible(url, "m").key(KEY).idle_timeout(idle)),
            L => Box::new(Ollama::new("m").base_url(url).key(KEY).idle_timeout(idle)),
        }
    }

    fn text(self, text: &str) -> Reply {
        match self {
            A => Reply::anthropic_text(text),
            O => Reply::openai_text(text),
            L => Reply::ollama_text(text),
        }
    }

    /// Server-sent events, or JSON lines.
    fn is_sse(self) -> bool {
        self != L
    }

    fn request(self) -> ModelRequest {
        ModelRequest::new("hello")
    }
}

async fn ask(api: Api, server: &FaultServer) -> Result<ModelResponse> {
    api.model(&server.url(), PATIENCE).call(api.request()).await
}

/// What `reply` makes of a call, and what was shown before.
async fn outcome(api: Api, reply: Reply) -> (Vec<ModelEvent>, Option<Error>) {
    let server = FaultServer::start().await.unwrap();
    server.reply(reply);
    outcome_at(api, &server.url(), PATIENCE).await
}

async fn outcome_at(api: Api, url: &str, idle: Duration) -> (Vec<ModelEvent>, Option<Error>) {
    let mut shown = Vec::new();
    let mut stream = match api.model(url, idle).stream(api.request()).await {
        Ok(stream) => stream,
        Err(error) => return (shown, Some(error)),
    };
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => shown.push(event),
            Err(error) => {
                assert!(
                    stream.next().await.is_none(),
                    "{api:?}: something after an error"
                );
                return (shown, Some(error));
            }
        }
    }
    (shown, None)
}

async fn error(api: Api, reply: Reply) -> Error {
    let (_, error) = outcome(api, reply).await;
    let error = error.unwrap_or_else(|| panic!("{api:?}: no error"));
    assert_no_key(&error);
    error
}

fn assert_no_key(error: &Error) {
    let mut all = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        all.push_str(&format!("{cause} {cause:?}"));
        source = cause.source();
    }
    assert!(!all.contains("0123456789abcdef"), "{all}");
}

fn text(events: &[ModelEvent]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn stopped(events: &[ModelEvent]) -> bool {
    events
        .iter()
        .any(|event| matches!(event, ModelEvent::Stop { .. }))
}

#[tokio::test]
async fn n01_a_refused_connection_and_a_reset_before_bytes_are_connect() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        let gone = server.url();
        server.reply(Reply::raw().reset());
        server.reply(Reply::raw().close());
        for _ in 0..2 {
            let error = ask(api, &server).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Connect, "{api:?} {error}");
            assert!(error.is_retryable());
        }
        drop(server);
        let (_, refused) = outcome_at(api, &gone, PATIENCE).await;
        assert_eq!(refused.unwrap().kind(), ErrorKind::Connect, "{api:?}");
    }
}

#[tokio::test]
async fn n04_to_n08_and_n10_to_n12_a_status_is_told_by_kind_id_and_words() {
    let html = "<html><head><title>Sorry</title></head><body>no JSON here</body></html>";
    let body = |kind: &str, message: &str| {
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message} {KEY}"}}}}"#)
    };
    let cases = [
        (
            400,
            body("invalid_request_error", "bad"),
            ErrorKind::InvalidRequest,
            false,
        ),
        (
            422,
            body("invalid_request_error", "bad"),
            ErrorKind::InvalidRequest,
            false,
        ),
        (
            400,
            body(
                "invalid_request_error",
                "prompt is too long: 2 tokens > 1 maximum",
            ),
            ErrorKind::ContextTooLong,
            false,
        ),
        (
            400,
            body("context_length_exceeded", "too much"),
            ErrorKind::ContextTooLong,
            false,
        ),
        (
            401,
            body("authentication_error", "bad key"),
            ErrorKind::Auth,
            false,
        ),
        (
            403,
            body("permission_error", "no"),
            ErrorKind::PermissionDenied,
            false,
        ),
        (
            404,
            body("not_found_error", "no such model"),
            ErrorKind::NotFound,
            false,
        ),
        (413, html.to_owned(), ErrorKind::RequestTooLarge, false),
        (
            429,
            body("rate_limit_error", "slow"),
            ErrorKind::RateLimited,
            true,
        ),
        (
            429,
            body("insufficient_quota", "pay"),
            ErrorKind::QuotaExhausted,
            false,
        ),
        (408, String::new(), ErrorKind::Timeout, true),
        (409, body("conflict", "later"), ErrorKind::Conflict, true),
        (500, html.to_owned(), ErrorKind::Server, true),
        (502, html.to_owned(), ErrorKind::Server, true),
        (503, html.to_owned(), ErrorKind::Overloaded, true),
        (504, String::new(), ErrorKind::Server, true),
        (
            529,
            body("overloaded_error", "busy"),
            ErrorKind::Overloaded,
            true,
        ),
    ];
    for api in ALL {
        for (status, body, kind, retryable) in &cases {
            let reply = Reply::json(*status, body.clone()).header("x-request-id", "req_7");
            let error = error(api, reply).await;
            assert_eq!(error.kind(), *kind, "{api:?} {status} {error}");
            assert_eq!(error.is_retryable(), *retryable, "{api:?} {status} {error}");
            assert_eq!(error.status(), Some(*status));
            assert_eq!(error.request_id(), Some("req_7"));
            assert!(!error.text().contains("<body>"), "{error}");
        }
    }
}

#[tokio::test]
async fn n09_and_n13_the_servers_wish_is_carried() {
    for api in ALL {
        let busy = || Reply::json(429, r#"{"error":{"message":"slow"}}"#);
        let seconds = error(api, busy().header("retry-after", "7")).await;
        assert_eq!(
            seconds.retry_after(),
            Some(Duration::from_secs(7)),
            "{api:?}"
        );
        let both = busy()
            .header("retry-after", "7")
            .header("retry-after-ms", "250");
        let millis = error(api, both).await;
        assert_eq!(millis.retry_after(), Some(Duration::from_millis(250)));
        let future = "Fri, 31 Dec 9999 23:59:59 GMT";
        let dated = error(api, busy().header("retry-after", future)).await;
        assert!(dated.retry_after().unwrap() > Duration::from_secs(86_400));
        let past = "Thu, 01 Jan 1970 00:00:01 GMT";
        let dated = error(api, busy().header("retry-after", past)).await;
        assert_eq!(dated.retry_after(), Some(Duration::ZERO));
        let odd = error(api, busy().header("retry-after", "soon")).await;
        assert_eq!(odd.retry_after(), None);
        let never = error(
            api,
            Reply::json(503, "{}").header("x-should-retry", "false"),
        )
        .await;
        assert!(!never.is_retryable(), "{api:?}");
    }
}

#[tokio::test]
async fn n14_an_error_in_the_stream_comes_behind_the_text_before_it() {
    for api in ALL {
        let whole = api.text("some words here");
        let cut = whole.body_len() / 2;
        let frame = match api {
            A => format!(
                "\n\nevent: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"overloaded_error\",\"message\":\"{KEY}\"}}}}\n\n"
            ),
            O => format!(
                "\n\ndata: {{\"error\":{{\"type\":\"overloaded_error\",\"message\":\"{KEY}\"}}}}\n\n"
            ),
            L => format!("\n{{\"error\":\"the runner stopped {KEY}\"}}\n"),
        };
        let reply = keep_frames(api, cut).send(frame);
        let (shown, error) = outcome(api, reply).await;
        let error = error.unwrap();
        assert_no_key(&error);
        assert!(text(&shown).starts_with("some "), "{api:?} {shown:?}");
        assert!(!stopped(&shown));
        let kind = if api.is_sse() {
            ErrorKind::Overloaded
        } else {
            ErrorKind::Server
        };
        assert_eq!(error.kind(), kind, "{api:?} {error}");
        assert!(error.is_retryable());
    }
}

/// The frames of the usual answer that lie wholly in its first `len` bytes.
fn keep_frames(api: Api, len: usize) -> Reply {
    let whole = api.text("some words here");
    let mut kept = whole.clone().truncate(0);
    let mut sum = 0;
    for action in frames(&whole) {
        sum += action.len();
        if sum > len {
            break;
        }
        kept = kept.send(action);
    }
    kept
}

fn frames(reply: &Reply) -> Vec<bytes::Bytes> {
    let sends = reply.actions().iter().filter_map(|action| match action {
        agentcore::testing::fault_server::Action::Send(bytes) => Some(bytes.clone()),
        _ => None,
    });
    sends.collect()
}

#[tokio::test]
async fn n15_an_end_before_the_last_event_is_truncation_however_it_comes() {
    for api in ALL {
        let half = || keep_frames(api, api.text("some words here").body_len() / 2);
        let endings = [
            half(),
            half().close(),
            half().reset(),
            half().framing(Framing::UntilClose),
            api.text("some words here")
                .framing(Framing::ContentLength)
                .truncate(90)
                .close(),
            Reply::new(200),
        ];
        for reply in endings {
            let label = format!("{api:?} {reply:?}");
            let (shown, error) = outcome(api, reply).await;
            let error = error.unwrap_or_else(|| panic!("{label}"));
            assert_eq!(error.kind(), ErrorKind::StreamTruncated, "{label}: {error}");
            assert!(error.is_retryable());
            assert!(!stopped(&shown), "{label}");
        }
    }
}

#[tokio::test]
async fn n16_the_last_event_ends_the_answer_on_an_open_socket() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(api.text("all of it").stall());
        // Without an end of its own the answer would take the idle timeout: a minute.
        let answer = tokio::time::timeout(PATIENCE / 4, ask(api, &server)).await;
        assert_eq!(answer.unwrap().unwrap().text(), "all of it", "{api:?}");
        server.all_closed().await;
    }
}

#[tokio::test]
async fn n17_silence_is_a_timeout_and_any_byte_is_no_silence() {
    let idle = Duration::from_millis(400);
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

        // In all longer than the idle timeout, with a byte well within each.
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
            let kept = frames(&keep_frames(api, half)).len();
            frames(&api.text("some words here")).split_off(kept)
        };
        server.reply(rest.into_iter().fold(slow, Reply::send));
        let (shown, error) = outcome_at(api, &server.url(), idle).await;
        assert!(error.is_none(), "{api:?} {error:?}");
        assert_eq!(text(&shown), "some words here");
    }
}

#[tokio::test]
async fn n19_garbage_and_web_pages_are_protocol_errors_with_a_short_excerpt() {
    for api in ALL {
        let page = format!("<html><body>{KEY} {}</body></html>", "x".repeat(1_000));
        let replies = [
            Reply::new(200)
                .header("content-type", "text/html")
                .send(page.clone()),
            Reply::new(200)
                .header("content-type", "text/event-stream")
                .send(page.clone() + "\n"),
            Reply::new(200).garbage(2_000, 1).send("\n\n"),
            keep_frames(api, 200).send("\n\ndata: {garbage\n\n{garbage}\n"),
        ];
        for reply in replies {
            let label = format!("{api:?} {:?}", reply.actions().last());
            let error = error(api, reply).await;
            assert_eq!(error.kind(), ErrorKind::Protocol, "{label} {error}");
            assert!(!error.is_retryable());
            assert!(error.text().chars().count() < 320, "{label} {error}");
        }
        // Many seeds: never a panic, never a success.
        for seed in 2..40 {
            let (shown, error) = outcome(api, Reply::new(200).garbage(500, seed)).await;
            assert!(error.is_some() && !stopped(&shown), "{api:?} seed {seed}");
        }
    }
}

#[tokio::test]
async fn n20_characters_cut_at_every_byte_come_out_whole() {
    let words = "Grüße 世界 🦀 é";
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        let whole = api.text(words);
        let first = frames(&whole)
            .iter()
            .position(|frame| frame.iter().any(|b| *b > 127));
        let start: usize = frames(&whole)[..first.unwrap()]
            .iter()
            .map(|f| f.len())
            .sum();
        for at in start..(start + 300).min(whole.body_len()) {
            server.reply(whole.clone().split_at([at]));
            assert_eq!(
                ask(api, &server).await.unwrap().text(),
                words,
                "{api:?} cut at {at}"
            );
        }
        for framing in [
            Framing::Chunked,
            Framing::ContentLength,
            Framing::UntilClose,
        ] {
            server.reply(whole.clone().every(1).framing(framing));
            assert_eq!(
                ask(api, &server).await.unwrap().text(),
                words,
                "{api:?} {framing:?}"
            );
        }
    }
}

#[tokio::test]
async fn n21_every_spelling_of_an_event_stream_is_read() {
    for api in [A, O] {
        let server = FaultServer::start().await.unwrap();
        let body: Vec<u8> = frames(&api.text("some words")).concat();
        let body = String::from_utf8(body).unwrap();
        let spellings = [
            body.replace('\n', "\r\n"),
            body.replace('\n', "\r"),
            format!("\u{feff}{body}"),
            body.replace(": ", ":"),
            body.replace("data: {", "data: {\ndata: "),
            body.replace("data: ", "id: 1\nretry: 5\n: comment\nunknown\ndata: "),
            body.trim_end().to_owned(),
        ];
        for spelling in spellings {
            server.reply(Reply::sse([&*spelling]).every(7));
            assert_eq!(
                ask(api, &server).await.unwrap().text(),
                "some words",
                "{spelling:?}"
            );
        }
    }
}

#[tokio::test]
async fn n22_a_line_without_end_is_refused_at_the_limit() {
    for api in ALL {
        let piece = bytes::Bytes::from(vec![b'x'; 1 << 20]);
        let mut reply = keep_frames(api, 200);
        reply = reply.send(if api.is_sse() { "data: " } else { " " });
        for _ in 0..40 {
            reply = reply.send(piece.clone());
        }
        let error = error(api, reply.stall()).await;
        assert_eq!(error.kind(), ErrorKind::Protocol, "{api:?} {error}");
        assert!(error.text().contains("line too long"), "{error}");
    }
}

#[tokio::test]
async fn n23_unknown_events_and_fields_are_passed_over() {
    for api in ALL {
        let unknown = match api {
            A => "event: future\ndata: {\"type\":\"future\",\"x\":[1]}\n\n",
            O => {
                "data: {\"id\":\"1\",\"object\":\"future\",\"choices\":[{\"index\":0,\"delta\":{\"future\":{}}}]}\n\n"
            }
            L => "{\"model\":\"m\",\"future\":{\"x\":[1]},\"done\":false}\n",
        };
        let all = frames(&api.text("some words"));
        let mut reply = api.text("").truncate(0);
        for (at, frame) in all.iter().enumerate() {
            let frame = String::from_utf8(frame.to_vec()).unwrap();
            reply = reply.send(frame.replacen('{', "{\"future\":{\"a\":[null]},", 1));
            if at + 1 < all.len() {
                reply = reply.send(unknown);
            }
        }
        let (shown, error) = outcome(api, reply).await;
        assert!(error.is_none(), "{api:?} {error:?}");
        assert_eq!(text(&shown), "some words", "{api:?}");
    }
}

#[tokio::test]
async fn n24_nothing_behind_the_end_is_part_of_the_answer() {
    for api in ALL {
        let whole = api.text("some words");
        let again = frames(&whole).into_iter().fold(whole.clone(), Reply::send);
        let (shown, error) = outcome(api, again).await;
        assert!(error.is_none(), "{api:?} {error:?}");
        assert_eq!(text(&shown), "some words", "{api:?}");
        assert!(matches!(shown.last(), Some(ModelEvent::Stop { .. })));
    }
    let all = frames(&A.text("some words"));
    // A delta before the message began.
    let early = Reply::sse(["", ""]).truncate(0).send(all[2].clone());
    let early = all.iter().cloned().fold(early, Reply::send);
    assert_eq!(error(A, early).await.kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn n25_compressed_bodies_are_neither_asked_for_nor_unpacked() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        let bomb = Reply::new(200)
            .header("content-encoding", "gzip")
            .send(&b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"[..])
            .garbage(4_000, 3)
            .send("\n\n");
        server.reply(bomb);
        let error = ask(api, &server).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{api:?} {error}");
        assert_eq!(server.requests()[0].header("accept-encoding"), None);
    }
}

#[tokio::test]
async fn n26_a_redirect_is_not_followed() {
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
async fn n27_a_connection_the_server_closed_meanwhile_is_replaced() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        let model = api.model(&server.url(), PATIENCE);
        server.reply(api.text("one"));
        assert_eq!(model.call(api.request()).await.unwrap().text(), "one");
        // The kept connection dies under the next request.
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
async fn a_dropped_stream_closes_its_connection() {
    for api in ALL {
        let server = FaultServer::start().await.unwrap();
        server.reply(keep_frames(api, 300).stall());
        let model = api.model(&server.url(), PATIENCE);
        let mut stream = model.stream(api.request()).await.unwrap();
        stream.next().await.unwrap().unwrap();
        drop(stream);
        server.all_closed().await;

        server.reply(Reply::raw().stall());
        let waiting = tokio::spawn(async move { model.call(api.request()).await.is_ok() });
        server.received(2).await;
        waiting.abort();
        server.all_closed().await;
    }
}
