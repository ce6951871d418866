//! Damaged session files: nothing that can be read is lost, and what cannot is told.

use std::fs;

use agentcore::session::JsonlStore;
use agentcore::state::{Damage, DamageKind};
use agentcore::testing::{FunctionModel, StrictModel};
use agentcore::{ErrorKind, Message, SessionStore, ToolCall};
use serde_json::{Value, json};

use super::files::{Files, said};
use crate::kit::{agent, warnings, watch};

/// A file with three writes of one, two and one messages, its bytes, and where each line ends.
async fn three_writes() -> (Files, Vec<u8>, Vec<usize>) {
    let files = Files::new();
    for texts in [&["one"][..], &["two", "three"], &["four"]] {
        files.say("a", texts).await;
    }
    let bytes = fs::read(files.path("a.jsonl")).unwrap();
    let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n');
    let ends: Vec<_> = ends.map(|at| at + 1).collect();
    assert_eq!(ends.len(), 4);
    (files, bytes, ends)
}

/// What a lease reports, after which nothing is reported any more and the session goes on.
async fn healed(files: &mut Files, bytes: &[u8]) -> (Vec<Damage>, Vec<String>) {
    let path = files.path("a.jsonl");
    fs::write(&path, bytes).unwrap();
    let _ = fs::remove_file(files.path("a.damaged"));
    let found = {
        let _lease = files.store.lease("a").await.unwrap();
        files.store.load("a").await.unwrap().unwrap_or_default()
    };
    let texts = found.state.messages.iter();
    let mut texts: Vec<_> = texts.map(|message| message.text().into_owned()).collect();
    files.reopen();
    files.say("a", &["next"]).await;
    let again = files.store.load("a").await.unwrap().unwrap();
    assert!(again.damage.is_empty(), "reported once: {:?}", again.damage);
    texts.push("next".into());
    assert_eq!(files.texts("a").await, texts);
    texts.pop();
    (found.damage, texts)
}

/// The bytes that the sidecar keeps, by their offset.
fn kept(files: &Files) -> Vec<(u64, Vec<u8>)> {
    use base64::Engine;
    let text = fs::read_to_string(files.path("a.damaged")).unwrap_or_default();
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let bytes = match (line["text"].as_str(), line["base64"].as_str()) {
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, Some(base64)) => base64::engine::general_purpose::STANDARD
                .decode(base64)
                .unwrap(),
            other => panic!("{other:?}"),
        };
        (line["offset"].as_u64().unwrap(), bytes)
    });
    lines.collect()
}

#[tokio::test]
async fn a_file_cut_anywhere_has_its_whole_writes() {
    let (mut files, bytes, ends) = three_writes().await;
    let writes = [(0, 0), (ends[0], 1), (ends[2], 3), (ends[3], 4)];
    let all = ["one", "two", "three", "four"];
    for cut in 0..=bytes.len() {
        let (damage, texts) = healed(&mut files, &bytes[..cut]).await;
        // A record is whole without its line's end.
        let (end, count) = *writes
            .iter()
            .rfind(|(end, _)| *end <= cut || (*end == cut + 1 && *end > 1))
            .unwrap();
        assert_eq!(texts, all[..count], "cut at {cut}");
        if cut <= end {
            assert!(damage.is_empty(), "cut at {cut}: {damage:?}");
            continue;
        }
        let [torn] = &damage[..] else {
            panic!("cut at {cut}: {damage:?}");
        };
        assert_eq!(torn.kind, DamageKind::TornTail);
        assert_eq!((torn.offset, torn.len), (end as u64, (cut - end) as u64));
        assert!(torn.to_string().contains("a.damaged"), "{torn}");
        assert_eq!(kept(&files), [(end as u64, bytes[end..cut].to_vec())]);
    }
}

#[tokio::test]
async fn a_flipped_bit_costs_the_record_it_is_in() {
    let (mut files, bytes, ends) = three_writes().await;
    let all = ["one", "two", "three", "four"];
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let line = ends.partition_point(|end| *end <= at);
        let start = if line == 0 { 0 } else { ends[line - 1] };
        let (damage, texts) = healed(&mut files, &flipped).await;
        if at + 1 == ends[line] {
            // The end of a line: both records are there, glued, or the last has none.
            assert!(texts.len() >= 3, "{at}: {texts:?}");
            continue;
        }
        let expected: Vec<_> = (0..4).filter(|n| *n != line).map(|n| all[n]).collect();
        assert_eq!(texts, expected, "flipped at {at}");
        let [corrupt] = &damage[..] else {
            panic!("flipped at {at}: {damage:?}");
        };
        assert_eq!(corrupt.kind, DamageKind::Corrupt, "flipped at {at}");
        assert_eq!(corrupt.offset, start as u64);
        assert_eq!(
            kept(&files)[0].1,
            flipped[start..ends[line]],
            "flipped at {at}"
        );
    }
}

#[tokio::test]
async fn what_stands_around_records_costs_none() {
    let (mut files, bytes, ends) = three_writes().await;
    let all = ["one", "two", "three", "four"];
    let (head, rest) = bytes.split_at(ends[1]);
    let half = &bytes[..ends[0] / 2];
    let nul = vec![0; 5_000];
    for junk in [&nul[..], half, b"garbage\n", b"\xff\xfe", b"{}\n[]\nnull\n"] {
        for damaged in [
            [head, junk, rest].concat(),
            [junk, head, rest].concat(),
            [head, rest, junk].concat(),
            [&bytes[..ends[1] - 1], junk, rest].concat(),
        ] {
            let (damage, texts) = healed(&mut files, &damaged).await;
            let shown = String::from_utf8_lossy(&junk[..junk.len().min(40)]);
            assert_eq!(texts, all, "{shown:?}");
            assert_eq!(damage.len(), 1, "{shown:?}: {damage:?}");
        }
    }
    // Lines that lost their ends, and ends that an editor changed.
    let glued: Vec<u8> = bytes.iter().copied().filter(|b| *b != b'\n').collect();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let spaced = text.replace('\n', "\n\n \n");
    let windows = text.replace('\n', "\r\n");
    for harmless in [&glued[..], spaced.as_bytes(), windows.as_bytes()] {
        let (damage, texts) = healed(&mut files, harmless).await;
        assert_eq!((&texts[..], damage.len()), (&all.map(String::from)[..], 0));
    }
}

#[tokio::test]
async fn lines_that_are_missing_or_repeated_are_told() {
    let (mut files, bytes, ends) = three_writes().await;
    let line = |number: usize| match number {
        0 => &bytes[..ends[0]],
        number => &bytes[ends[number - 1]..ends[number]],
    };
    let lines = |numbers: &[usize]| {
        let lines: Vec<_> = numbers.iter().map(|number| line(*number)).collect();
        lines.concat()
    };
    for (numbers, kinds, texts) in [
        (
            &[0, 1, 3][..],
            &[DamageKind::Missing][..],
            &["one", "two", "four"][..],
        ),
        (
            &[1, 2, 3],
            &[DamageKind::Missing],
            &["two", "three", "four"],
        ),
        (
            &[0, 1, 2, 0, 1, 2, 3],
            &[DamageKind::Stale],
            &["one", "two", "three", "four"],
        ),
        (
            &[0, 1, 2, 3, 3],
            &[DamageKind::Stale],
            &["one", "two", "three", "four"],
        ),
        (
            &[0, 3, 1, 2],
            &[DamageKind::Missing, DamageKind::Stale],
            &["one", "four"],
        ),
    ] {
        let (damage, found) = healed(&mut files, &lines(numbers)).await;
        assert_eq!(found, texts, "{numbers:?}");
        let found: Vec<_> = damage.iter().map(|damage| damage.kind).collect();
        assert_eq!(found, kinds, "{numbers:?}");
    }
}

#[tokio::test]
async fn a_newer_version_is_left_as_it_is() {
    let (files, bytes, ends) = three_writes().await;
    // As a later version would write it: with a right checksum.
    let body = br#""v":2,"seq":5,"what":"nobody knows"}"#;
    let crc = crc32fast::hash(body);
    let newer = [format!("{{\"crc\":\"{crc:08x}\",").as_bytes(), body, b"\n"].concat();
    for content in [
        [&bytes[..], &newer].concat(),
        [&newer, &bytes[..]].concat(),
        [&bytes[..ends[1]], b"torn", &newer, b"more"].concat(),
    ] {
        let path = files.path("a.jsonl");
        fs::write(&path, &content).unwrap();
        for error in [
            files.store.load("a").await.unwrap_err(),
            files.store.lease("a").await.unwrap_err(),
            files.store.fork("a", "b").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::VersionTooNew);
            assert!(error.text().contains("version 2"), "{error}");
        }
        assert_eq!(
            files.store.prune(std::time::Duration::ZERO).await.unwrap(),
            0
        );
        assert_eq!(fs::read(&path).unwrap(), content);
        assert!(!files.path("a.damaged").exists());
    }
    files.say("c", &["Hi"]).await;
    let list = files.store.list().await.unwrap();
    assert_eq!(list.len(), 2, "the others are listed all the same");
    let problem = list.iter().find_map(|info| info.problem.as_deref());
    assert!(problem.unwrap().contains("newer program"), "{problem:?}");
    // A flipped bit makes no newer version of it.
    let mut flipped = bytes.clone();
    let at = bytes
        .windows(5)
        .position(|part| part == b"\"v\":1")
        .unwrap()
        + 4;
    flipped[at] = b'9';
    fs::write(files.path("a.jsonl"), flipped).unwrap();
    drop(files.store.lease("a").await.unwrap());
}

#[tokio::test]
async fn unknown_kinds_and_fields_are_passed_over() {
    let (mut files, bytes, _) = three_writes().await;
    let body = br#""v":1,"seq":5,"token":3,"at":1,"kind":"mood","data":{"a":[1]},"new":true,"info":{"messages":4,"created":1,"colour":"red"}}"#;
    let crc = crc32fast::hash(body);
    let line = [format!("{{\"crc\":\"{crc:08x}\",").as_bytes(), body, b"\n"].concat();
    let (damage, texts) = healed(&mut files, &[&bytes[..], &line].concat()).await;
    assert!(damage.is_empty(), "{damage:?}");
    assert_eq!(texts.len(), 4);
    let after = fs::read(files.path("a.jsonl")).unwrap();
    assert!(after.starts_with(&[&bytes[..], &line].concat()), "and kept");
}

#[tokio::test]
async fn random_damage_never_stops_a_session() {
    let (mut files, bytes, _) = three_writes().await;
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..damaged.len());
            let until = (at + random.usize(..200)).min(damaged.len());
            match random.u8(..5) {
                0 => damaged.truncate(at.max(1)),
                1 => drop(damaged.drain(at..until)),
                2 => damaged[at..until].fill(0),
                3 => {
                    let part = damaged[at..until].to_vec();
                    let to = random.usize(..=damaged.len());
                    damaged.splice(to..to, part);
                }
                _ => damaged[at] = random.u8(..),
            }
            if damaged.is_empty() {
                damaged.push(0);
            }
        }
        let (_, texts) = healed(&mut files, &damaged).await;
        let known = ["one", "two", "three", "four"];
        let mut order = texts
            .iter()
            .map(|text| known.iter().position(|k| k == text));
        assert!(order.clone().all(|at| at.is_some()), "{round}: {texts:?}");
        let sorted: Vec<_> = order.by_ref().collect();
        assert!(sorted.is_sorted(), "{round}: {texts:?}");
    }
}

#[tokio::test]
async fn a_reader_changes_nothing_and_waits_for_the_writer() {
    let (files, bytes, ends) = three_writes().await;
    let path = files.path("a.jsonl");
    let torn = &bytes[..ends[1]];
    fs::write(&path, torn).unwrap();
    let found = files.store.load("a").await.unwrap().unwrap();
    assert_eq!(found.state.messages.len(), 1);
    assert!(found.damage.is_empty(), "the write may be under way");
    assert_eq!(fs::read(&path).unwrap(), torn);
    let mut flipped = bytes.clone();
    flipped[40] ^= 1;
    fs::write(&path, &flipped).unwrap();
    for _ in 0..2 {
        let found = files.store.load("a").await.unwrap().unwrap();
        assert_eq!((found.damage.len(), &found.damage[0].kept_in), (1, &None));
    }
    assert_eq!(fs::read(&path).unwrap(), flipped);
    assert!(!files.path("a.damaged").exists());
}

#[tokio::test]
async fn a_session_of_which_nothing_can_be_read_is_not_silently_new() {
    let files = Files::new();
    fs::write(files.path("a.jsonl"), "all of it is gone\n").unwrap();
    let list = files.store.list().await.unwrap();
    assert!(list[0].problem.is_some());
    let lease = files.store.lease("a").await.unwrap();
    let found = files.store.load("a").await.unwrap().unwrap();
    assert_eq!((found.state.messages.len(), found.damage.len()), (0, 1));
    files.store.append(&lease, vec![said("new")]).await.unwrap();
    assert_eq!(files.texts("a").await, ["new"]);
}

#[tokio::test]
async fn a_run_warns_of_damage_and_goes_on() {
    let files = Files::new();
    let model = || StrictModel::new(FunctionModel::text(|_| "Hello.".into()));
    let build = |store: JsonlStore| agent(model()).store(store).build().unwrap();
    let first = build(files.store.clone());
    first.session("a").run("Hi").await.unwrap();
    let lease = files.store.lease("a").await.unwrap();
    let call = ToolCall::new("call_1", "act", json!({}));
    let mut state = files.store.load("a").await.unwrap().unwrap().state;
    state.messages.push(Message::human("Act"));
    state.messages.push(Message::ai_calling("", [call]));
    state.messages.push(Message::tool("call_1", "act", "done"));
    files.store.save(&lease, &state).await.unwrap();
    drop(lease);
    // The answer with the call is what is lost.
    let text = fs::read_to_string(files.path("a.jsonl")).unwrap();
    fs::write(
        files.path("a.jsonl"),
        text.replace("\"tool_calls\"", "\"tool_cails\""),
    )
    .unwrap();
    let (messages, output) = watch(first.session("a").run("And now?")).await;
    output.unwrap().messages.validate_for_model().unwrap();
    let warnings = warnings(&messages);
    assert!(
        warnings[0].contains("stored session is damaged"),
        "{warnings:?}"
    );
    assert!(warnings[0].contains("a.damaged"), "{warnings:?}");
    let (messages, _) = watch(first.session("a").run("And now?")).await;
    assert!(crate::kit::warnings(&messages).is_empty(), "said once");
}
