//! Golden files: the bytes of recorded runs in each format. `UPDATE_STREAMS=1` writes them.

use std::fs;
use std::path::PathBuf;

use agentcore::server::StreamFormat;

use super::formats::{FORMATS, bytes, encode};
use super::story::recordings;
use super::{ag_ui_rules, ai_sdk_rules};

fn path(name: &str, format: StreamFormat) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join(format!("tests/data/server/{name}.{format}.txt"))
}

#[tokio::test(start_paused = true)]
async fn recorded_runs_have_the_recorded_bytes() {
    for recording in recordings().await {
        for format in FORMATS {
            let path = path(recording.name, format);
            let text = String::from_utf8(bytes(&encode(&recording, format))).unwrap();
            if std::env::var_os("UPDATE_STREAMS").is_some() {
                fs::write(&path, &text).unwrap();
            }
            let golden = fs::read_to_string(&path).unwrap();
            let differing = golden
                .lines()
                .zip(text.lines())
                .enumerate()
                .find(|(_, (a, b))| a != b);
            assert_eq!(differing, None, "{}", path.display());
            assert!(golden == text, "{}: the lengths differ", path.display());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_runs_follow_the_rules_of_their_clients() {
    for recording in recordings().await {
        let events = encode(&recording, StreamFormat::AgUi);
        ag_ui_rules::check(&events, true).unwrap_or_else(|e| panic!("{}: {e}", recording.name));
        let events = encode(&recording, StreamFormat::AiSdk);
        let pending_calls = recording
            .before
            .pending
            .iter()
            .map(|call| call.call.id.to_string());
        ai_sdk_rules::check(&events, pending_calls, true)
            .unwrap_or_else(|e| panic!("{}: {e}", recording.name));
    }
}

#[tokio::test(start_paused = true)]
async fn runs_without_partial_messages_have_whole_answers() {
    for mut recording in recordings().await {
        recording
            .messages
            .retain(|message| !matches!(message, agentcore::SdkMessage::Partial(_)));
        let events = encode(&recording, StreamFormat::AgUi);
        ag_ui_rules::check(&events, true).unwrap_or_else(|e| panic!("{}: {e}", recording.name));
        let events = encode(&recording, StreamFormat::AiSdk);
        let pending_calls = recording
            .before
            .pending
            .iter()
            .map(|call| call.call.id.to_string());
        ai_sdk_rules::check(&events, pending_calls, true)
            .unwrap_or_else(|e| panic!("{}: {e}", recording.name));
        if recording.name == "story" {
            let text = String::from_utf8(bytes(&events)).unwrap();
            assert!(
                text.contains("I read both.") && text.contains("Two files."),
                "{text}"
            );
        }
    }
}
