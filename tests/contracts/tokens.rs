//! Token counts.

use agentcore::message::{Annotations, Citation, EstimateCounter, Media, TokenCounter};
use agentcore::{Message, Messages, Part, ToolCall};
use serde_json::json;

#[test]
fn estimate_rounds_down_each_message_and_counts_raw_arguments_only() {
    let raw = r#"{"expr":"2+2"}"#;
    let built = ToolCall::new("call_1", "calculate", json!({"expr": "2+2"}));
    let chain = |text: &str, call: ToolCall| {
        Messages::new()
            .system("You are helpful.")
            .human("What is 2+2?")
            .ai_calling(text, [call])
            .tool("call_1", "calculate", "4")
            .ai("2+2 = 4")
    };

    assert_eq!(chain("", built.clone()).estimate_tokens(), 8);
    assert_eq!(chain("Let me calculate.", built).estimate_tokens(), 12);
    let streamed = ToolCall::from_raw("call_1", "calculate", raw);
    assert_eq!(chain("", streamed).estimate_tokens(), 8 + 3);
    let two = [
        ToolCall::from_raw("a", "f", "{\"\":12}"),
        ToolCall::from_raw("b", "f", "{\"\":345}"),
    ];
    assert_eq!(Messages::new().ai_calling("", two).estimate_tokens(), 1 + 2);
    assert_eq!(Messages::new().estimate_tokens(), 0);
}

#[test]
fn estimate_counter_counts_every_part_kind() {
    let count = |part: Part| EstimateCounter.count_message(&Message::ai(part));
    assert_eq!(count(Part::text("x".repeat(100))), 29);
    assert_eq!(count(Part::text("日本語")), 4 + 3);
    assert_eq!(count(Part::text("größe")), 4 + 2);
    let built = ToolCall::new("c", "grep", json!({"pattern": "fn main"}));
    let length = built.args.to_string().len() as u64;
    assert_eq!(count(Part::ToolCall(built)), 4 + 1 + length.div_ceil(4));
    let raw = ToolCall::from_raw("c", "grep", "{ \"pattern\" :  \"fn main\" }");
    assert_eq!(count(Part::ToolCall(raw)), 4 + 1 + 7);
    let small = count(Part::Image(Media::base64("image/png", "AA==")));
    let large = count(Part::Image(Media::base64("image/png", "A".repeat(1 << 20))));
    assert_eq!(small, large);
    assert!(small > 1_000);
}

#[test]
fn document_is_counted_by_type_and_size() {
    let count = |media: Media| EstimateCounter.count_part(&Part::Document(media));
    let pdf = |bytes: usize| count(Media::bytes("application/pdf", &vec![b'x'; bytes]));
    assert_eq!(pdf(0), 3_000);
    assert_eq!(pdf(90_000), 3_000);
    assert_eq!(pdf(450_000), 15_000);
    assert_eq!(pdf(30_000_000), 300_000);
    assert_eq!(count(Media::url("https://example.com/a.pdf")), 3_000);

    let text = |kind: &str, bytes: &[u8]| count(Media::bytes(kind, bytes));
    assert_eq!(text("text/plain", b"eight ch"), 2);
    assert_eq!(text("text/markdown", &[b'x'; 40_000]), 10_000);
    assert_eq!(text("text/plain", b""), 0);

    // Bytes that are no text are counted by their number for any media type.
    assert_eq!(text("text/plain", &[0xff; 90_000]), 3_000);
    assert_eq!(count(Media::base64("text/plain", "not base64")), 3_000);
}

#[test]
fn recordings_and_uploaded_files_are_counted() {
    let count = |part: Part| EstimateCounter.count_part(&part);
    let recording = |bytes: usize| Part::Audio(Media::bytes("audio/wav", &vec![0; bytes]));
    assert_eq!(count(recording(0)), 3_000);
    assert_eq!(count(recording(450_000)), 15_000);
    assert_eq!(count(recording(30_000_000)), 300_000);
    assert_eq!(count(Part::Audio(Media::file("gemini", "files/a"))), 3_000);
    assert_eq!(
        count(Part::Document(Media::file("openai", "file-1"))),
        3_000
    );
    assert_eq!(count(Part::Image(Media::file("openai", "file-1"))), 1_600);
    assert_eq!(
        count(Part::Annotations(Annotations::new([Citation::new("u")]))),
        0
    );
}

#[test]
fn token_counter_requires_only_count_text() {
    struct Words;
    impl TokenCounter for Words {
        fn count_text(&self, text: &str) -> u64 {
            text.split_whitespace().count() as u64
        }
    }
    let history = Messages::from("one two three").ai("four");
    let counter: &dyn TokenCounter = &Words;
    assert_eq!(counter.count_messages(&history), 4 + 3 + 4 + 1);
}

#[cfg(feature = "tokens")]
#[test]
fn bpe_counters_return_exact_counts() {
    use agentcore::message::BpeCounter;

    let text = "The quick brown fox jumps over the lazy dog.";
    assert_eq!(BpeCounter::o200k().count_text(text), 10);
    assert_eq!(BpeCounter::cl100k().count_text(text), 10);
    assert_eq!(BpeCounter::o200k().count_text(""), 0);
}

#[cfg(feature = "tokens")]
#[test]
fn bpe_counter_samples_long_texts() {
    use agentcore::message::BpeCounter;

    let counter = BpeCounter::o200k();
    let sentence = "The quick brown fox jumps over the lazy dog. 日本語 größer\n";
    let per_sentence = counter.count_text(sentence);
    for count in [4_000, 40_000, 400_000] {
        let tokens = counter.count_text(&sentence.repeat(count));
        let exact = per_sentence * count as u64;
        assert!(tokens.abs_diff(exact) < exact / 50, "{tokens} of {exact}");
    }

    // The tokens of the beginning do not represent those of the rest.
    let mixed = format!("{}{}", "a".repeat(1 << 20), "日本語。\n".repeat(1 << 17));
    let parts = ["a".repeat(1 << 18), "日本語。\n".repeat(1 << 14)];
    let exact = 4 * counter.count_text(&parts[0]) + 8 * counter.count_text(&parts[1]);
    let tokens = counter.count_text(&mixed);
    assert!(tokens.abs_diff(exact) < exact / 8, "{tokens} of {exact}");
}
