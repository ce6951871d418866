//! Server-sent events, against the rules of the WHATWG HTML standard.

use agentcore::ErrorKind;
use agentcore::providers::sse::SseDecoder;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

type Owned = Vec<(String, String)>;

/// Returns all events of a stream that arrives in these chunks.
fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> agentcore::Result<Owned> {
    let mut decoder = SseDecoder::new();
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.feed(chunk.to_vec());
        while let Some(event) = decoder.next_event()? {
            events.push((event.name.to_owned(), event.data.to_owned()));
        }
    }

    if let Some(event) = decoder.finish()? {
        events.push((event.name.to_owned(), event.data.to_owned()));
    }

    Ok(events)
}

/// Decodes the stream at once, split at every offset, and byte by byte. Asserts that the results
/// are equal.
fn decode_all_ways(stream: &[u8]) -> Owned {
    let whole = decode([stream]).expect("a decodable stream");
    for at in 0..=stream.len() {
        let (a, b) = stream.split_at(at);
        assert_eq!(
            decode([a, b]).expect("a decodable stream"),
            whole,
            "cut at {at} of {stream:?}"
        );
    }

    assert_eq!(
        decode(stream.chunks(1)).expect("a decodable stream"),
        whole,
        "bytes of {stream:?}"
    );
    whole
}

fn messages(data: &[&str]) -> Owned {
    data.iter()
        .map(|data| ("message".to_owned(), (*data).to_owned()))
        .collect()
}

#[test]
fn all_line_endings_are_accepted() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = ["event: a", "data: 1", "", "data: 2", "", ""].join(end);
        let expected = vec![
            ("a".to_owned(), "1".to_owned()),
            ("message".to_owned(), "2".to_owned()),
        ];
        assert_eq!(decode_all_ways(stream.as_bytes()), expected, "{end:?}");
    }

    assert_eq!(
        decode_all_ways(b"data: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\n"),
        messages(&["1", "2", "3"])
    );
}

#[test]
fn line_ending_split_between_chunks_is_counted_once() {
    let expected = messages(&["1", "2"]);
    let chunks = [&b"dat"[..], b"a: 1\r\n", b"\ndata: 2\n\n"];
    assert_eq!(decode(chunks).expect("a decodable stream"), expected);
    let chunks = [&b"dat"[..], b"a: 1\r", b"\n\ndata: 2\n\n"];
    assert_eq!(decode(chunks).expect("a decodable stream"), expected);
}

#[test]
fn fields_are_parsed_by_the_standard() {
    let cases: &[(&str, &[&str])] = &[
        ("\u{FEFF}data: bom\n\n", &["bom"]),
        ("data:no space\n\n", &["no space"]),
        ("data:  two spaces\n\n", &[" two spaces"]),
        ("data: a\ndata: b\ndata\ndata: c\n\n", &["a\nb\n\nc"]),
        ("data\n\n", &[""]),
        ("data:\n\n", &[""]),
        (": comment\n\n:\n\ndata: x\n\n", &["x"]),
        ("id: 1\nretry: 5\n\ndata: x\n\n", &["x"]),
        ("database: no\ndata: x\nevents: no\n\n", &["x"]),
        ("event: forgotten\n\ndata: x\n\n", &["x"]),
        ("data: \u{E9}\u{1F600}\n\n", &["\u{E9}\u{1F600}"]),
        ("data: last", &["last"]),
        ("data: last\n", &["last"]),
        ("data: last\r", &["last"]),
        ("data: x\n\n: only a comment", &["x"]),
        ("", &[]),
        ("\n\n\r\r\n", &[]),
        ("\u{FEFF}", &[]),
    ];
    for (stream, expected) in cases {
        assert_eq!(
            decode_all_ways(stream.as_bytes()),
            messages(expected),
            "{stream:?}"
        );
    }
}

#[test]
fn byte_order_mark_is_skipped_at_the_start_only() {
    assert_eq!(
        decode_all_ways("data: 1\n\n\u{FEFF}data: 2\n\ndata: 3\n\n".as_bytes()),
        messages(&["1", "3"])
    );
    // These bytes begin like a byte order mark, but are none.
    let error =
        decode([&b"\xEF"[..], b"\xBB", b"data: x\n\ndata: \xFF\n\n"]).expect_err("an error");
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[test]
fn data_that_is_not_utf8_is_a_protocol_error() {
    for stream in [&b"data: \xC3\n\n"[..], b"data: a\ndata: \xFF\n\n"] {
        for chunks in [stream.chunks(64), stream.chunks(1)] {
            assert_eq!(
                decode(chunks).expect_err("an error").kind(),
                ErrorKind::Protocol
            );
        }
    }
}

#[test]
fn endless_line_is_a_protocol_error_at_the_limit() {
    let mut decoder = SseDecoder::new();
    let chunk = vec![b'x'; 1024 * 1024];
    let error = (0..100).find_map(|fed| {
        decoder.feed(chunk.clone());
        decoder.next_event().err().map(|error| (fed, error.kind()))
    });
    assert_eq!(error, Some((16, ErrorKind::Protocol)));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn splits_never_change_events(
        stream in proptest::collection::vec(
            prop_oneof![
                Just("data: "), Just("data:"), Just("event: e"), Just("\n"), Just("\r"),
                Just("\r\n"), Just("\n\n"), Just(":c"), Just("x"), Just("\u{E9}"), Just("\u{FEFF}"),
            ],
            0..24,
        ),
        cuts in proptest::collection::vec(0_usize..80, 0..5),
    ) {
        let stream = stream.concat();
        let stream = stream.as_bytes();
        let whole = decode([stream]).expect("a decodable stream");
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for cut in cuts {
            chunks.push(&stream[from..cut]);
            from = cut;
        }

        chunks.push(&stream[from..]);
        prop_assert_eq!(decode(chunks).expect("a decodable stream"), whole);
    }
}
