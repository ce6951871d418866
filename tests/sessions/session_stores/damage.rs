//! Damaged logs: all readable records are kept, and lost ones are reported.

use agentcore::model::Compaction;
use agentcore::session::{Damage, DamageKind};
use agentcore::testing::{FunctionModel, StrictModel};
use agentcore::{ErrorKind, Message, Messages, ToolCall};
use serde_json::json;

use super::places::{Held, Place, for_each_place, let_go, said};
use crate::kit::{agent, warnings, watch};

for_each_place!(
    log_cut_anywhere_keeps_complete_writes,
    flipped_bit_loses_only_its_record,
    junk_between_records_loses_no_record,
    missing_and_repeated_lines_are_reported,
    log_of_a_newer_version_is_left_unchanged,
    unknown_kinds_and_fields_are_skipped,
    session_with_random_damage_can_be_continued,
    load_of_a_damaged_log_does_not_change_it,
    unreadable_session_is_reported_as_damaged,
    run_on_a_damaged_session_warns_once_and_continues,
    damage_is_reported_by_the_run_after_a_change_of_the_title,
    damage_of_the_first_write_after_a_report_is_reported,
    truncated_messages_stay_removed_after_a_lost_message,
    lost_truncation_record_is_inferred,
    compaction_that_covers_a_lost_message_is_dropped,
    compaction_is_dropped_with_the_messages_it_covers,
    damaged_session_never_returns_the_answer_to_another_input,
);

/// Creates a log of three writes with one, two and one messages. Returns the store, the bytes of
/// the log and the end of each line.
async fn three_writes<P: Place>() -> (Held<P>, Vec<u8>, Vec<usize>) {
    let held = Held::<P>::new();
    for texts in [&["one"][..], &["two", "three"], &["four"]] {
        held.say("a", texts).await;
    }
    let bytes = held.store.log("a");
    let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n');
    let ends: Vec<_> = ends.map(|at| at + 1).collect();
    assert_eq!(ends.len(), 4);
    (held, bytes, ends)
}

/// Opens a damaged log. Returns the damage and the messages that it reports, and checks that the
/// session continues without further reports.
async fn healed<P: Place>(held: &mut Held<P>, bytes: &[u8]) -> (Vec<Damage>, Vec<String>) {
    held.store.put("a", bytes);
    held.store.forget_aside("a");
    let session = {
        let _lease = held.store.lease("a").await.unwrap();
        held.store.load("a").await.unwrap().unwrap_or_default()
    };

    let texts = session.state.messages.iter();
    let mut texts: Vec<_> = texts.map(|message| message.text().into_owned()).collect();
    held.reopen();
    held.say("a", &["next"]).await;
    let again = held.store.load("a").await.unwrap().unwrap();
    assert!(again.damage.is_empty(), "reported once: {:?}", again.damage);
    texts.push("next".into());
    assert_eq!(held.texts("a").await, texts);
    texts.pop();
    (session.damage, texts)
}

/// Returns the offsets below `len` to damage: every [`Place::STEP`]th one, and those near the ends
/// of lines.
fn offsets<P: Place>(len: usize, ends: &[usize]) -> impl Iterator<Item = usize> {
    (0..len).filter(move |offset| {
        offset.is_multiple_of(P::STEP) || ends.iter().any(|end| end.abs_diff(*offset) <= 2)
    })
}

async fn log_cut_anywhere_keeps_complete_writes<P: Place>() {
    let (mut held, bytes, ends) = three_writes::<P>().await;
    let writes = [(0, 0), (ends[0], 1), (ends[2], 3), (ends[3], 4)];
    let all = ["one", "two", "three", "four"];
    for cut in offsets::<P>(bytes.len() + 1, &ends) {
        let (damage, texts) = healed(&mut held, &bytes[..cut]).await;

        // A record is complete without the end of its line.
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
        assert!(torn.to_string().contains(P::ASIDE), "{torn}");
        assert_eq!(
            held.store.aside("a"),
            [(end as u64, bytes[end..cut].to_vec())]
        );
    }
}

async fn flipped_bit_loses_only_its_record<P: Place>() {
    let (mut held, bytes, ends) = three_writes::<P>().await;
    let all = ["one", "two", "three", "four"];
    for at in offsets::<P>(bytes.len(), &ends) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let line = ends.partition_point(|end| *end <= at);
        let start = if line == 0 { 0 } else { ends[line - 1] };
        let (damage, texts) = healed(&mut held, &flipped).await;
        if at + 1 == ends[line] {
            // Without the end of a line, two records share a line; the last record needs none.
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
            held.store.aside("a")[0].1,
            flipped[start..ends[line]],
            "flipped at {at}"
        );
    }
}

async fn junk_between_records_loses_no_record<P: Place>() {
    let (mut held, bytes, ends) = three_writes::<P>().await;
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
            let (damage, texts) = healed(&mut held, &damaged).await;
            let text = String::from_utf8_lossy(&junk[..junk.len().min(40)]);
            assert_eq!(texts, all, "{text:?}");
            assert_eq!(damage.len(), 1, "{text:?}: {damage:?}");
        }
    }

    // Lines without ends, and line ends that an editor has changed.
    let glued: Vec<u8> = bytes.iter().copied().filter(|b| *b != b'\n').collect();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let spaced = text.replace('\n', "\n\n \n");
    let windows = text.replace('\n', "\r\n");
    for harmless in [&glued[..], spaced.as_bytes(), windows.as_bytes()] {
        let (damage, texts) = healed(&mut held, harmless).await;
        assert_eq!((&texts[..], damage.len()), (&all.map(String::from)[..], 0));
    }
}

async fn missing_and_repeated_lines_are_reported<P: Place>() {
    let (mut held, bytes, ends) = three_writes::<P>().await;
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
        let (damage, found) = healed(&mut held, &lines(numbers)).await;
        assert_eq!(found, texts, "{numbers:?}");
        let actual: Vec<_> = damage.iter().map(|damage| damage.kind).collect();
        assert_eq!(actual, kinds, "{numbers:?}");
    }
}

async fn log_of_a_newer_version_is_left_unchanged<P: Place>() {
    let (held, bytes, ends) = three_writes::<P>().await;

    // A record of a later version, with a valid checksum.
    let line = |version: u64| {
        let body = format!("\"v\":{version},\"seq\":5,\"what\":\"nobody knows\"}}");
        let crc = crc32fast::hash(body.as_bytes());
        format!("{{\"crc\":\"{crc:08x}\",{body}\n").into_bytes()
    };

    held.store
        .put("b", &[&bytes[..], &line(99_999_999_999)].concat());
    let error = held.store.lease("b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionTooNew, "{error}");
    held.store.put("b", b"");

    let newer = line(2);
    for content in [
        [&bytes[..], &newer].concat(),
        [&newer, &bytes[..]].concat(),
        [&bytes[..ends[1]], b"torn", &newer, b"more"].concat(),
    ] {
        held.store.put("a", &content);
        for error in [
            held.store.load("a").await.unwrap_err(),
            held.store.lease("a").await.unwrap_err(),
            held.store.fork("a", "b").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::VersionTooNew);
            assert!(error.text().contains("version 2"), "{error}");
        }
        assert_eq!(
            held.store.prune(std::time::Duration::ZERO).await.unwrap(),
            0
        );
        assert_eq!(held.store.log("a"), content);
        assert!(held.store.aside("a").is_empty());
    }

    held.say("c", &["Hi"]).await;
    let list = held.store.list().await.unwrap();
    assert_eq!(list.len(), 2, "other sessions are listed");
    let problem = list.iter().find_map(|info| info.problem.as_deref());
    assert!(problem.unwrap().contains("newer program"), "{problem:?}");

    // A flipped bit must not make the record one of a newer version.
    let mut flipped = bytes.clone();
    let at = bytes
        .windows(5)
        .position(|part| part == b"\"v\":1")
        .unwrap()
        + 4;
    flipped[at] = b'9';
    held.store.put("a", &flipped);
    drop(held.store.lease("a").await.unwrap());
}

async fn unknown_kinds_and_fields_are_skipped<P: Place>() {
    let (mut held, bytes, _) = three_writes::<P>().await;
    let body = br#""v":1,"seq":5,"token":3,"at":1,"kind":"mood","data":{"a":[1]},"new":true,"info":{"messages":4,"created":1,"colour":"red"}}"#;
    let crc = crc32fast::hash(body);
    let line = [format!("{{\"crc\":\"{crc:08x}\",").as_bytes(), body, b"\n"].concat();
    let (damage, texts) = healed(&mut held, &[&bytes[..], &line].concat()).await;
    assert!(damage.is_empty(), "{damage:?}");
    assert_eq!(texts.len(), 4);
    let after = held.store.log("a");
    assert!(
        after.starts_with(&[&bytes[..], &line].concat()),
        "the record is kept"
    );
}

async fn session_with_random_damage_can_be_continued<P: Place>() {
    let (mut held, bytes, _) = three_writes::<P>().await;
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..120 {
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

        let (_, texts) = healed(&mut held, &damaged).await;
        let known = ["one", "two", "three", "four"];
        let mut order = texts
            .iter()
            .map(|text| known.iter().position(|k| k == text));
        assert!(order.clone().all(|at| at.is_some()), "{round}: {texts:?}");
        let sorted: Vec<_> = order.by_ref().collect();
        assert!(sorted.is_sorted(), "{round}: {texts:?}");
    }
}

async fn load_of_a_damaged_log_does_not_change_it<P: Place>() {
    let (held, bytes, ends) = three_writes::<P>().await;
    let torn = &bytes[..ends[1]];
    held.store.put("a", torn);
    let session = held.store.load("a").await.unwrap().unwrap();
    assert_eq!(session.state.messages.len(), 1);
    assert!(session.damage.is_empty(), "the write may be in progress");
    assert_eq!(held.store.log("a"), torn);
    let mut flipped = bytes.clone();
    flipped[40] ^= 1;
    held.store.put("a", &flipped);
    for _ in 0..2 {
        let session = held.store.load("a").await.unwrap().unwrap();
        assert_eq!(
            (session.damage.len(), &session.damage[0].kept_in),
            (1, &None)
        );
    }

    assert_eq!(held.store.log("a"), flipped);
    assert!(held.store.aside("a").is_empty());
}

async fn unreadable_session_is_reported_as_damaged<P: Place>() {
    let held = Held::<P>::new();
    held.store.put("a", b"all of it is gone\n");
    let list = held.store.list().await.unwrap();
    assert!(list[0].problem.is_some());
    let lease = held.store.lease("a").await.unwrap();
    let session = held.store.load("a").await.unwrap().unwrap();
    assert_eq!((session.state.messages.len(), session.damage.len()), (0, 1));
    held.store.append(&lease, vec![said("new")]).await.unwrap();
    assert_eq!(held.texts("a").await, ["new"]);
}

/// Returns the log of `a`, in which the records with these texts or of these kinds are damaged.
fn spoiled<P: Place>(store: &P, texts: &[&str]) -> Vec<u8> {
    let log = String::from_utf8(store.log("a")).unwrap();
    let lines = log.split_inclusive('\n').map(|line| {
        let is_lost = texts.iter().any(|text| {
            let (said, kind) = (
                format!("\"content\":\"{text}\""),
                format!("\"kind\":\"{text}\""),
            );
            line.contains(&said) || line.contains(&kind)
        });

        if is_lost {
            line.replace("data", "dada")
        } else {
            line.to_owned()
        }
    });

    lines.collect::<String>().into_bytes()
}

async fn save_first<P: Place>(held: &Held<P>, count: usize) {
    let lease = held.store.lease("a").await.unwrap();
    let mut state = held.store.load("a").await.unwrap().unwrap().state;
    let messages = state.messages.as_slice()[..count].iter().cloned();
    state.messages = messages.collect();
    held.store.save(&lease, &state).await.unwrap();
    let_go(lease);
}

async fn damage_of_the_first_write_after_a_report_is_reported<P: Place>() {
    let (mut held, mut bytes, ends) = three_writes::<P>().await;
    bytes[ends[0] + 40] ^= 1;
    held.store.put("a", &bytes);
    for text in ["five", "six"] {
        held.say("a", &[text]).await;
    }
    let damaged = spoiled(&held.store, &["five"]);
    let (damage, texts) = healed(&mut held, &damaged).await;
    assert_eq!(texts, ["one", "three", "four", "six"]);
    assert_eq!(damage.len(), 1, "{damage:?}");
}

async fn truncated_messages_stay_removed_after_a_lost_message<P: Place>() {
    for (lost, expected) in [
        (&["one"][..], &["two", "three", "five", "six"][..]),
        (&["two"], &["one", "three", "five", "six"]),
        (&["one", "three"], &["two", "five", "six"]),
        (&["three"], &["one", "two", "five", "six"]),
        (&["two", "three", "four"], &["one", "five", "six"]),
        (&["two", "five"], &["one", "three", "six"]),
        (&["four"], &["one", "two", "three", "five", "six"]),
        (&["keep"], &["one", "two", "three", "five", "six"]),
        (&["three", "four", "keep"], &["one", "two", "five", "six"]),
    ] {
        let mut held = Held::<P>::new();
        for texts in [&["one"][..], &["two", "three"], &["four"]] {
            held.say("a", texts).await;
        }
        save_first(&held, 3).await;
        held.say("a", &["five"]).await;
        held.say("a", &["six"]).await;
        let damaged = spoiled(&held.store, lost);
        let (damage, texts) = healed(&mut held, &damaged).await;
        assert_eq!(texts, expected, "{lost:?}");
        assert!(!damage.is_empty());
        // Counts in later writes refer to the messages that are left.
        save_first(&held, 1).await;
        held.reopen();
        assert_eq!(held.texts("a").await, expected[..1], "{lost:?}");
    }
}

async fn lost_truncation_record_is_inferred<P: Place>() {
    let mut held = Held::<P>::new();
    held.say("a", &["one", "two", "three", "four"]).await;
    save_first(&held, 2).await;
    held.say("a", &["five"]).await;
    let damaged = spoiled(&held.store, &["keep"]);
    let (damage, texts) = healed(&mut held, &damaged).await;
    assert_eq!(
        (&texts[..], damage.len()),
        (&["one", "two", "five"].map(String::from)[..], 1)
    );
}

/// A lost record may be the one that removes the compaction, or the compaction itself.
async fn compaction_is_dropped_with_the_messages_it_covers<P: Place>() {
    for lost in ["keep", "compaction"] {
        let mut held = Held::<P>::new();
        held.say("a", &["one", "two", "three"]).await;
        let lease = held.store.lease("a").await.unwrap();
        let mut state = held.store.load("a").await.unwrap().unwrap().state;
        state.compaction = Some(Compaction::new("They met.", 2));
        held.store.save(&lease, &state).await.unwrap();
        state.compaction = None;
        state.messages = Messages::from("one").human("four").human("five");
        held.store.save(&lease, &state).await.unwrap();
        let_go(lease);
        let log = String::from_utf8(held.store.log("a")).unwrap();
        let kind = format!("\"kind\":\"{lost}\"");
        let at = log.rfind(&kind).unwrap();
        let damaged = [
            &log[..at],
            &kind.replace("kind", "kink"),
            &log[at + kind.len()..],
        ]
        .concat();
        let (damage, texts) = healed(&mut held, damaged.as_bytes()).await;
        assert_eq!(texts, ["one", "four", "five"], "{lost}");
        assert!(!damage.is_empty());
        let state = held.store.load("a").await.unwrap().unwrap().state;
        assert_eq!(state.compaction, None, "{lost}");
    }
}

async fn compaction_that_covers_a_lost_message_is_dropped<P: Place>() {
    for (lost, is_kept) in [
        ("one", false),
        ("two", false),
        ("three", true),
        ("four", true),
    ] {
        let mut held = Held::<P>::new();
        held.say("a", &["one", "two", "three", "four"]).await;
        let lease = held.store.lease("a").await.unwrap();
        let mut state = held.store.load("a").await.unwrap().unwrap().state;
        state.compaction = Some(Compaction::new("They met.", 2));
        held.store.save(&lease, &state).await.unwrap();
        let_go(lease);
        let damaged = spoiled(&held.store, &[lost]);
        let (_, texts) = healed(&mut held, &damaged).await;
        assert_eq!(texts.len(), 3);
        let state = held.store.load("a").await.unwrap().unwrap().state;
        assert_eq!(state.compaction.is_some(), is_kept, "{lost}");
    }
}

async fn damaged_session_never_returns_the_answer_to_another_input<P: Place>() {
    let model = || {
        StrictModel::new(FunctionModel::text(|request| {
            let last = request.messages.last().unwrap();
            format!("answer to {}", last.text())
        }))
    };

    let build = |store: P| agent(model()).store(store).build().unwrap();
    for lost in [
        &["1", "answer to 1"][..],
        &["2"],
        &["answer to 1", "answer to 2"],
    ] {
        let mut held = Held::<P>::new();
        let first = build(held.store.clone());
        for input in ["1", "2", "3"] {
            let session = first.session("a").input_id(format!("in_{input}"));
            session.run(input).await.unwrap();
        }
        let_go(held.store.lease("a").await.unwrap());
        let damaged = spoiled(&held.store, lost);
        assert_ne!(damaged, held.store.log("a"));
        held.store.put("a", &damaged);
        held.reopen();
        let second = build(held.store.clone());
        for input in ["1", "2", "3"] {
            let session = second.session("a").input_id(format!("in_{input}"));
            match session.run(input).await {
                Ok(output) => assert_eq!(output.text, format!("answer to {input}"), "{lost:?}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
        }
    }
}

async fn run_on_a_damaged_session_warns_once_and_continues<P: Place>() {
    let held = Held::<P>::new();
    let model = || StrictModel::new(FunctionModel::text(|_| "Hello.".into()));
    let build = |store: P| agent(model()).store(store).build().unwrap();
    let first = build(held.store.clone());
    first.session("a").run("Hi").await.unwrap();
    let lease = held.store.lease("a").await.unwrap();
    let call = ToolCall::new("call_1", "act", json!({}));
    let mut state = held.store.load("a").await.unwrap().unwrap().state;
    state.messages.push(Message::human("Act"));
    state.messages.push(Message::ai_calling("", [call]));
    state.messages.push(Message::tool("call_1", "act", "done"));
    held.store.save(&lease, &state).await.unwrap();
    let_go(lease);

    // The lost message is the answer with the call.
    let text = String::from_utf8(held.store.log("a")).unwrap();
    let text = text.replace("\"tool_calls\"", "\"tool_cails\"");
    held.store.put("a", text.as_bytes());
    let (messages, output) = watch(first.session("a").run("And now?")).await;
    output.unwrap().messages.validate_for_model().unwrap();
    let warnings = warnings(&messages);
    assert!(
        warnings[0].contains("stored session is damaged"),
        "{warnings:?}"
    );
    assert!(warnings[0].contains(P::ASIDE), "{warnings:?}");
    let (messages, _) = watch(first.session("a").run("And now?")).await;
    assert!(
        crate::kit::warnings(&messages).is_empty(),
        "the damage is reported once"
    );
}

async fn damage_is_reported_by_the_run_after_a_change_of_the_title<P: Place>() {
    let (mut held, mut bytes, ends) = three_writes::<P>().await;
    bytes[ends[0] + 40] ^= 1;
    held.store.put("a", &bytes);
    let model = || FunctionModel::text(|_| "Hello.".into());
    for title in ["First", "Second"] {
        let first = agent(model()).store(held.store.clone()).build().unwrap();
        first.session("a").set_title(title).await.unwrap();
        drop(first);
        held.reopen();
    }
    let stored = held.store.load("a").await.unwrap().unwrap();
    assert_eq!(stored.state.title.as_deref(), Some("Second"));
    assert_eq!((stored.state.messages.len(), stored.damage.len()), (3, 1));

    for count in [1, 0] {
        let second = agent(model()).store(held.store.clone()).build().unwrap();
        let (messages, output) = watch(second.session("a").run("And now?")).await;
        output.unwrap();
        let mut warnings = warnings(&messages);
        warnings.retain(|text| text.contains("stored session is damaged"));
        assert_eq!(warnings.len(), count, "{warnings:?}");
        assert!(
            warnings.iter().all(|text| text.contains(P::ASIDE)),
            "{warnings:?}"
        );
    }
    assert_eq!(held.store.aside("a").len(), 1);
}
