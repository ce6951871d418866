//! Unusual messages: the way they are read, and the errors for those that cannot be read.

use agentcore::message::ToolResultView;
use agentcore::{Message, Messages, Part, Role, ToolCall, ToolResult};
use serde_json::json;

#[test]
fn parse_error_names_the_message_and_the_json_fault() {
    for (json, expected) in [
        (r#"{"role":"","content":"x"}"#, r#"unknown role """#),
        (r#"{"role":"User","content":"x"}"#, r#"unknown role "User""#),
        (
            r#"{"role":"developer","content":"x"}"#,
            r#"unknown role "developer""#,
        ),
        (
            r#"{"role":"użytkownik","content":"x"}"#,
            r#"unknown role "użytkownik""#,
        ),
        (r#"{"content":"x"}"#, "missing field `role`"),
        ("null", "invalid type: null, expected a message"),
        ("7", "invalid type: integer `7`, expected a message"),
        (
            r#"{"role":"user","content":["a"]}"#,
            r#"content[0]: invalid type: string "a", expected a part with a type"#,
        ),
        (
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"text":"b"}]}"#,
            "content[1]: missing field `type`",
        ),
        (
            r#"{"role":"assistant","content":"","tool_calls":["f"]}"#,
            r#"invalid type: string "f", expected a tool call"#,
        ),
    ] {
        let list = format!(r#"[{{"role":"user","content":"first"}},{json}]"#);
        let error = Messages::from_json(list).unwrap_err();
        assert_eq!(error.to_string(), format!("message[1]: {expected}"));
    }
}

#[test]
fn call_arguments_are_read_from_args_or_arguments() {
    let json = r#"{"role":"assistant","content":"","tool_calls":[
        {"id":"a","name":"f","arguments":{"x":1}},{"id":"b","name":"f","args":{"y":[2]}},
        {"id":"c","name":"f","arguments":"{\"z\": 3}"},
        {"id":"d","name":"f","args":{"v":4},"arguments":{"w":5}},
        {"id":"e","name":"f","arguments":null}]}"#;
    let message: Message = serde_json::from_str(json).unwrap();
    let args: Vec<_> = message.tool_calls().map(|call| &*call.args).collect();
    let expected = [
        &json!({"x": 1}),
        &json!({"y": [2]}),
        &json!({"z": 3}),
        &json!({"v": 4}),
        &json!({}),
    ];
    assert_eq!(args, expected);
    let written = serde_json::to_value(&message).unwrap();
    assert_eq!(written["tool_calls"][0]["args"], json!({"x": 1}));
}

#[test]
fn calls_in_user_and_system_messages_do_not_count_as_content() {
    for role in ["user", "system"] {
        let json = format!(
            r#"[{{"role":"{role}","content":"","tool_calls":[{{"id":"a","name":"f","args":{{}}}}]}}]"#
        );
        let history = Messages::from_json(json).unwrap();
        let error = history.validate().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("message[0]: {role} message has empty content")
        );
        assert!(history.validate_user_input().is_err());
        assert!(history.validate_for_model().is_err());
    }
}

#[test]
fn validation_finds_each_violation_at_any_index() {
    let call = |id: &str, name: &str| ToolCall::new(id, name, json!({}));
    for (bad, expected) in [
        (Message::human(""), ": user message has empty content"),
        (Message::system(""), ": system message has empty content"),
        (
            Message::ai(""),
            ": assistant message has no content and no tool calls",
        ),
        (
            Message::tool("", "f", "x"),
            ": tool message missing tool_call_id",
        ),
        (Message::tool("c", "", "x"), ": tool message missing name"),
        (
            Message::ai_calling("", [call("a", "f"), call("b", "f"), call("", "f")]),
            ".tool_calls[2]: missing ID",
        ),
        (
            Message::ai_calling("x", [call("a", "f"), call("b", "")]),
            ".tool_calls[1]: missing name",
        ),
        (
            Message::ai([
                Part::ToolCall(call("", "")),
                Part::text("between"),
                Part::ToolCall(call("a", "f")),
            ]),
            ".tool_calls[0]: missing ID",
        ),
    ] {
        for index in [0, 1, 7, 120] {
            let mut history: Messages = (0..index)
                .map(|number| match number % 2 {
                    0 => Message::human("ü"),
                    _ => Message::ai("\u{1f600}"),
                })
                .collect();
            history.push(bad.clone());

            // The error is about the first violation only.
            history.push(Message::human(""));
            let error = history.validate().unwrap_err();
            assert_eq!(error.to_string(), format!("message[{index}]{expected}"));
            assert_eq!(error.index(), Some(index));
        }
    }
}

#[test]
fn role_parses_from_four_lower_case_words_only() {
    for (word, role, is_input) in [
        ("system", Role::System, true),
        ("user", Role::User, true),
        ("assistant", Role::Assistant, false),
        ("tool", Role::Tool, false),
    ] {
        assert_eq!(word.parse::<Role>().unwrap(), role);
        assert_eq!((role.to_string(), role.as_str()), (word.to_owned(), word));
        assert_eq!(role.is_user_input(), is_input);
    }

    for word in ["", "User", " user", "function", "hacker", "użytkownik"] {
        let error = word.parse::<Role>().unwrap_err();
        assert_eq!(error.to_string(), format!("unknown role {word:?}"));
    }
}

#[test]
fn failed_result_starts_with_one_error_prefix() {
    let call = ToolCall::new("a", "f", json!({}));
    for (text, expected, error) in [
        ("no file", "Error: no file", "no file"),
        ("Error: no file", "Error: no file", "no file"),
        ("Error: Error: no file", "Error: no file", "no file"),
        ("Error:no file", "Error: no file", "no file"),
        ("error: no file", "Error: error: no file", "error: no file"),
        ("Errors: 3", "Error: Errors: 3", "Errors: 3"),
    ] {
        let result = ToolResult::failed(&call, text);
        assert!(result.is_error);
        assert_eq!(result.content.text(), expected);
        assert_eq!(
            (result.error().as_deref(), &*result.output()),
            (Some(error), "")
        );
    }
}

#[test]
fn result_view_of_a_failure_always_has_an_error() {
    let call = ToolCall::new("a", "f", json!({}));
    let mut silent = ToolResult::ok(&call, "");
    silent.is_error = true;
    for failed in [ToolResult::failed(&call, ""), silent] {
        let json = serde_json::to_value(failed.view()).unwrap();
        assert!(!json["error"].as_str().unwrap().is_empty(), "{json}");
        let view: ToolResultView = serde_json::from_value(json).unwrap();
        assert!(ToolResult::from(view).is_error);
    }

    let view: ToolResultView =
        serde_json::from_str(r#"{"tool_call_id":"a","name":"f","output":"4","error":null}"#)
            .unwrap();
    let result = ToolResult::from(view);
    assert_eq!((result.is_error, &*result.output()), (false, "4"));
}

#[test]
fn last_content_of_empty_history_is_empty() {
    let none = Messages::new();
    assert!(none.last().is_none() && none.is_empty() && none.to_vec().is_empty());
    assert_eq!((&*none.last_content(), none.estimate_tokens()), ("", 0));
    let only_calls = Messages::new().ai_calling("", [ToolCall::new("a", "f", json!({}))]);
    assert_eq!((&*only_calls.last_content(), only_calls.len()), ("", 1));
}

#[test]
fn deep_and_odd_arguments_round_trip_in_both_forms() {
    let mut deep = json!("leaf");
    for _ in 0..60 {
        deep = json!({"in": [deep, null]});
    }

    let args = json!({"": "", "ü\n\"": "\u{0}\u{1f600}", "max": u64::MAX, "min": i64::MIN,
        "float": 0.1, "deep": deep});
    let call = ToolCall::new("id \"1\"", "f", args);
    let plain = Messages::from("q").ai_calling("text", [call.clone(), call.clone()]);
    let parts = Messages::from("q").with(Message::ai([
        Part::ToolCall(call.clone()),
        Part::text("between"),
        Part::ToolCall(call),
    ]));
    for history in [plain, parts] {
        let json = serde_json::to_string(&history).unwrap();
        assert_eq!(Messages::from_json(&json).unwrap(), history);
        let value = serde_json::to_value(&history).unwrap();
        assert_eq!(serde_json::from_value::<Messages>(value).unwrap(), history);
    }
}

#[test]
fn state_with_null_messages_has_no_messages() {
    for json in [
        r#"{"thread_id":"th_1"}"#,
        r#"{"thread_id":"th_1","messages":null}"#,
        r#"{"thread_id":"th_1","messages":[]}"#,
    ] {
        let state: agentcore::AgentState = serde_json::from_str(json).unwrap();
        assert!(state.messages.is_empty());
        let written = serde_json::to_string(&state).unwrap();
        assert_eq!(written, r#"{"thread_id":"th_1","messages":[]}"#);
    }
}
