//! Faults within the body of a response.

use super::*;
use crate::kit::effort::cuts;

#[tokio::test]
async fn n14_error_in_the_stream_follows_the_earlier_text() {
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
            G => format!(
                "\n\ndata: {{\"error\":{{\"code\":503,\"status\":\"UNAVAILABLE\",\"message\":\"{KEY}\"}}}}\n\n"
            ),
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

#[tokio::test]
async fn n15_any_end_before_the_last_event_is_stream_truncated() {
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

        // No seed leads to a panic or to a success.
        for seed in 2..40 {
            let (shown, error) = outcome(api, Reply::new(200).garbage(500, seed)).await;
            assert!(error.is_some() && !stopped(&shown), "{api:?} seed {seed}");
        }
    }
}

#[tokio::test]
async fn n20_characters_split_at_any_byte_decode() {
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
        let cuts = cuts(&frames(&whole).concat()).into_iter();
        for at in cuts.filter(|at| (start..start + 300).contains(at)) {
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
async fn n21_all_forms_of_an_event_stream_decode() {
    for api in [A, O, G] {
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
async fn n22_endless_line_is_a_protocol_error_at_the_limit() {
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
async fn n23_unknown_events_and_fields_are_ignored() {
    for api in ALL {
        let unknown = match api {
            A => "event: future\ndata: {\"type\":\"future\",\"x\":[1]}\n\n",
            O => {
                "data: {\"id\":\"1\",\"object\":\"future\",\"choices\":[{\"index\":0,\"delta\":{\"future\":{}}}]}\n\n"
            }
            L => "{\"model\":\"m\",\"future\":{\"x\":[1]},\"done\":false}\n",
            G => "data: {\"future\":{\"x\":[1]},\"candidates\":[{\"future\":1}]}\n\n",
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
async fn n24_events_after_the_end_are_ignored() {
    // Gemini is left out: its stream ends with the body, without an event.
    for api in [A, O, L] {
        let whole = api.text("some words");
        let again = frames(&whole).into_iter().fold(whole.clone(), Reply::send);
        let (shown, error) = outcome(api, again).await;
        assert!(error.is_none(), "{api:?} {error:?}");
        assert_eq!(text(&shown), "some words", "{api:?}");
        assert!(matches!(shown.last(), Some(ModelEvent::Stop { .. })));
    }

    let all = frames(&A.text("some words"));

    // A delta that precedes the start of the message is an error.
    let early = Reply::sse(["", ""]).truncate(0).send(all[2].clone());
    let early = all.iter().cloned().fold(early, Reply::send);
    assert_eq!(error(A, early).await.kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn n25_compressed_bodies_are_not_requested_and_are_protocol_errors() {
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
