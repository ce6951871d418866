//! `SummarizationHook`: the part of a history that it cuts, the prompt, and the summary.

use std::collections::HashSet;
use std::sync::Arc;

use agentcore::hooks::{SummarizationHook, extract_summary, split_index};
use agentcore::message::EstimateCounter;
use agentcore::model::{Compaction, CompactionRequest, Compactor, ModelProfile};
use agentcore::testing::{FunctionModel, ScriptedModel};
use agentcore::{AgentState, Error, ErrorKind, Hook, Message, Messages, ThreadStore, ToolCall};
use serde_json::json;

use crate::hook_texts::assert_text;

/// Returns a history of `count` short turns.
pub fn turns(count: usize) -> Messages {
    let pairs = (0..count).flat_map(|n| {
        [
            Message::human(format!("question {n}")),
            Message::ai(format!("answer {n}")),
        ]
    });
    pairs.collect()
}

/// Returns a store whose session `s` has `messages`.
pub fn store(messages: Messages) -> ThreadStore {
    let store = ThreadStore::new();
    let mut state = AgentState::new("s");
    state.messages = messages;
    store.save("s", state);
    store
}

#[test]
fn summary_is_extracted_from_its_tags() {
    for (answer, expected) in [
        (
            "<SUMMARY>Content With MIXED Case</SUMMARY>",
            "Content With MIXED Case",
        ),
        ("before <summary>\n  kept \n</summary> after", "kept"),
        ("<Summary>a</sUMMARY><summary>b</summary>", "a"),
        ("<summary>no end", ""),
        ("no tags", ""),
        ("</summary>the wrong way round<summary>", ""),
        ("", ""),
        ("größe <summary>groß</summary> größe", "groß"),
    ] {
        assert_eq!(extract_summary(answer), expected, "{answer:?}");
    }
}

#[test]
fn split_index_keeps_the_newest_messages_that_fit() {
    let history = |lengths: &[usize]| -> Messages {
        let messages = lengths.iter().enumerate().map(|(at, len)| {
            let text = "x".repeat(*len);
            if at % 2 == 0 {
                Message::human(text)
            } else {
                Message::ai(text)
            }
        });

        messages.collect()
    };

    let split = |messages: &Messages, most| split_index(messages, most, &EstimateCounter);
    assert_eq!(split(&history(&[400, 400, 400, 400]), 250), 2);
    assert_eq!(split(&history(&[4000, 4000, 400]), 150), 2);
    assert_eq!(split(&history(&[40, 40]), 10_000), 0);
    assert_eq!(split(&history(&[4000]), 10), 0, "the last one is kept");
    assert_eq!(split(&Messages::new(), 10), 0);

    let call = ToolCall::new("c", "read", json!({}));
    let paired = Messages::new()
        .human("x".repeat(4000))
        .ai_calling("", [call])
        .tool("c", "read", "x".repeat(400))
        .human("x".repeat(40));
    assert_eq!(split(&paired, 200), 1, "the call stays with its result");
}

#[test]
fn summarization_is_due_above_the_threshold() {
    let due = |hook: &SummarizationHook, tokens, profile: &ModelProfile| {
        hook.should_compact(&turns(5), tokens, profile)
    };

    let hook = SummarizationHook::new();
    let unknown = ModelProfile::default();
    assert!(!due(&hook, 108_800, &unknown));
    assert!(due(&hook, 108_801, &unknown));
    let large = unknown.with_context_window(1_000_000);
    assert!(!due(&hook, 850_000, &large) && due(&hook, 850_001, &large));
    let own = hook.clone().with_context_window(1_000);
    assert!(!due(&own, 850, &large) && due(&own, 851, &large));
    let half = own.with_threshold(0.5);
    assert!(due(&half, 501, &large));

    // The context window is not the length of an answer.
    let profile = unknown.with_max_output_tokens(8_192);
    assert!(!due(&hook, 7_000, &profile));
    assert_eq!(hook.phases().to_string(), "wrap_model_call");
}

#[tokio::test]
async fn summarization_keeps_a_tenth_of_messages_and_at_least_two() {
    for (pairs, kept) in [(1, 2), (5, 2), (15, 3), (49, 9)] {
        let summarizer = ScriptedModel::new().say("All of it.");
        let hook = SummarizationHook::new().with_model(summarizer);
        let messages = turns(pairs).human("now");
        let request = CompactionRequest::new(messages.clone(), FunctionModel::text(|_| "".into()));
        let compaction = hook.compact(request).await.unwrap().unwrap();
        assert_eq!(
            messages.len() - compaction.through_message,
            kept,
            "{pairs} pairs"
        );
    }

    let hook = SummarizationHook::new().with_model(ScriptedModel::new());
    for short in [
        Messages::new(),
        turns(1),
        Messages::new().human("x".repeat(600_000)),
    ] {
        let request = CompactionRequest::new(short, FunctionModel::text(|_| "".into()));
        assert_eq!(hook.compact(request).await.unwrap(), None);
    }
}

#[tokio::test]
async fn summary_prompts_match_the_recorded_texts() {
    let calls = [
        ToolCall::new(
            "a",
            "write_file",
            json!({"path": "notes.md", "content": "n".repeat(5_000)}),
        ),
        ToolCall::new("b", "read_file", json!({"path": "plan.md"})),
    ];
    let messages = Messages::new()
        .system("You are never summarized.")
        .human("Write the notes, please.")
        .ai_calling("I will.", calls)
        .tool(
            "a",
            "write_file",
            "File written: notes.md (5000 bytes, 1 lines)",
        )
        .with(Message::Tool(agentcore::ToolResult::failed(
            &ToolCall::new("b", "read_file", json!({})),
            "plan.md: no such file",
        )))
        .ai("The notes are written; there is no plan.")
        .human("Then make one.")
        .ai("Done.");
    let summarizer = ScriptedModel::new()
        .expect(|request| {
            let prompt = request.messages.last_content();
            assert!(prompt.contains(&"n".repeat(2_000)) && !prompt.contains(&"n".repeat(2_001)));
            assert_text(
                "summarization_prompt.txt",
                &prompt.replace(&"n".repeat(2_000), "n*2000"),
            );
        })
        .say("<summary>Notes written.</summary>");
    let hook = SummarizationHook::new().with_model(summarizer.clone());
    let model = FunctionModel::text(|_| "".into());
    let request = CompactionRequest::new(messages.clone(), model.clone());
    let first = hook.compact(request).await.unwrap().unwrap();
    summarizer.assert_finished();
    assert_eq!(first, Compaction::new("Notes written.", 6));

    // The second prompt has the first summary as the previous one, not as a part of the
    // conversation.
    let longer = messages.human("Thanks.").ai("You are welcome.");
    let summarizer = ScriptedModel::new()
        .expect(|request| {
            let prompt = request.messages.last_content();
            assert_text("summarization_prompt_again.txt", &prompt);
        })
        .say("<summary>Notes and plan.</summary>");
    let hook = SummarizationHook::new().with_model(summarizer.clone());
    let mut request = CompactionRequest::new(longer, model);
    request.current = Some(first);
    let second = hook.compact(request).await.unwrap().unwrap();
    summarizer.assert_finished();
    assert_eq!(second, Compaction::new("Notes and plan.", 8));
}

#[tokio::test]
async fn summary_is_cut_to_the_word_limit_of_the_window() {
    let many = "word ".repeat(5_000);
    for (window, words) in [(128_000, 2_000), (4_096, 409)] {
        let hook = SummarizationHook::new()
            .with_model(ScriptedModel::new().say(many.as_str()))
            .with_context_window(window);
        let request = CompactionRequest::new(turns(5), FunctionModel::text(|_| "".into()));
        let compaction = hook.compact(request).await.unwrap().unwrap();
        assert_eq!(compaction.summary.split_whitespace().count(), words);
    }
}

#[tokio::test]
async fn summarization_stops_before_calls_without_a_result() {
    let call = |id: &str| ToolCall::new(id, "deploy", json!({}));
    let mut messages = turns(3)
        .ai_calling("", [call("a"), call("b")])
        .tool("a", "deploy", "ok");
    messages.extend(turns(10).to_vec());
    let hook = SummarizationHook::new().with_model(ScriptedModel::new().say("Small talk."));
    let request = CompactionRequest::new(messages, FunctionModel::text(|_| "".into()));
    let compaction = hook.compact(request).await.unwrap().unwrap();
    assert_eq!(compaction.through_message, 6, "b waits for its approval");
}

#[tokio::test]
async fn long_history_is_summarized_in_pieces_without_loss() {
    let seen = Arc::<std::sync::Mutex<Vec<String>>>::default();
    let window = 4_000;
    let summarizer = FunctionModel::new({
        let seen = seen.clone();
        move |request| {
            let tokens = request.count_tokens(&EstimateCounter);
            let prompt = request.messages.last_content().into_owned();

            // The summarizer's server counts twice as many tokens as the estimate.
            if tokens * 2 + u64::from(request.max_output_tokens.unwrap()) > window {
                return vec![Err(Error::new(ErrorKind::ContextTooLong, "too long"))];
            }

            let mut seen = seen.lock().unwrap();
            seen.push(prompt);
            let text = format!("<summary>up to {}</summary>", seen.len());
            vec![Ok(agentcore::ModelEvent::Text(text))]
        }
    })
    .with_profile(ModelProfile::default().with_context_window(window));
    let facts: Vec<_> = (0..200).map(|n| format!("fact-{n}-end")).collect();
    let mut messages = Messages::new();
    for (n, fact) in facts.iter().enumerate() {
        let filler = "lorem ipsum ".repeat(n * 3);
        messages = messages.human(format!("{fact} {filler}")).ai("Noted.");
    }

    // A message that alone is longer than the summarizer's window.
    let long = (0..3_000)
        .map(|n| format!("row-{n}-end "))
        .collect::<String>();
    messages = messages.human(long).ai("So long!").human("Now?").ai("Yes.");
    let hook = SummarizationHook::new().with_model(summarizer);
    let model = FunctionModel::text(|_| "".into());
    let mut request = CompactionRequest::new(messages, model);
    request.current = Some(Compaction::new("up to 0", 0));
    let compaction = hook.with_keep(0.0).compact(request).await.unwrap().unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(compaction.summary, format!("up to {}", seen.len()));
    assert!(seen.len() > 10);
    for (n, prompt) in seen.iter().enumerate() {
        let before = format!("<previous_summary>\nup to {n}\n</previous_summary>");
        assert!(prompt.contains(&before), "piece {n}: {prompt}");
    }

    let words: HashSet<&str> = seen
        .iter()
        .flat_map(|text| text.split_whitespace())
        .collect();
    for fact in facts
        .into_iter()
        .chain((0..3_000).map(|n| format!("row-{n}-end")))
    {
        assert!(words.contains(&*fact), "{fact} was lost");
    }
}
