//! The JSON of decisions about pending calls, and of the reasons that rules give.

use agentcore::permission::{PermissionConfig, PermissionRules};
use agentcore::session::PendingCall;
use agentcore::{Answer, Decision};
use serde_json::{Value, from_str, json, to_string};

fn pending() -> PendingCall {
    let call = json!({"id": "c1", "name": "act", "args": {"n": 1}});
    serde_json::from_value(json!({
        "id": "pending_1",
        "session_id": "s",
        "call": call,
        "question": "sure?",
        "args_hash": "00f1",
    }))
    .unwrap()
}

#[test]
fn decisions_are_written_and_read_as_these_bytes() {
    let call = pending();
    let args = json!({"n": 2, "deep": {"list": [1.5, null]}});
    for (decision, text) in [
        (
            Decision::allow(&call),
            r#"{"decision":"allow","id":"pending_1","args_hash":"00f1"}"#,
        ),
        (
            Decision::allow_for_session(&call),
            r#"{"decision":"allow_for_session","id":"pending_1","args_hash":"00f1"}"#,
        ),
        (
            Decision::edit(&call, args),
            r#"{"decision":"edit","id":"pending_1","args_hash":"00f1","args":{"deep":{"list":[1.5,null]},"n":2}}"#,
        ),
        (
            Decision::deny(&call, "not \"that\""),
            r#"{"decision":"deny","id":"pending_1","message":"not \"that\""}"#,
        ),
    ] {
        assert_eq!(to_string(&decision).unwrap(), text);
        assert_eq!(from_str::<Decision>(text).unwrap(), decision);
        let value: Value = from_str(text).unwrap();
        assert_eq!(serde_json::from_value::<Decision>(value).unwrap(), decision);
        let list = to_string(&[&decision]).unwrap();
        let decisions: agentcore::agent::Decisions = from_str(&list).unwrap();
        assert_eq!(to_string(&decisions).unwrap(), list);
    }
}

#[test]
fn decision_is_read_with_its_fields_in_any_order() {
    let text = r#"{"args":{"n":2},"args_hash":"00f1","id":"pending_1","decision":"edit"}"#;
    let decision = Decision::edit(&pending(), json!({"n": 2}));
    assert_eq!(from_str::<Decision>(text).unwrap(), decision);
}

#[test]
fn decision_with_unknown_or_missing_fields_is_refused() {
    for (text, words) in [
        (
            r#"{"decision":"allow","id":"a","args_hash":"b","x":1}"#,
            "unknown field `x`",
        ),
        (
            r#"{"decision":"allow","id":"a","args_hash":"b","args":{}}"#,
            "unknown field `args`",
        ),
        (
            r#"{"decision":"deny","id":"a","message":"b","args":{}}"#,
            "unknown field `args`",
        ),
        (
            r#"{"decision":"allow","id":"a"}"#,
            "missing field `args_hash`",
        ),
        (
            r#"{"decision":"edit","id":"a","args_hash":"b"}"#,
            "missing field `args`",
        ),
        (r#"{"decision":"deny","id":"a"}"#, "missing field `message`"),
        (
            r#"{"decision":"allow","args_hash":"b"}"#,
            "missing field `id`",
        ),
        (r#"{"id":"a","args_hash":"b"}"#, "missing field `decision`"),
        (
            r#"{"decision":"unanswered","id":"a"}"#,
            "unknown variant `unanswered`",
        ),
        (r#"{"decision":"Allow","id":"a"}"#, "unknown variant"),
    ] {
        let error = from_str::<Decision>(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn denial_may_have_the_hash_of_the_arguments() {
    let text = r#"{"decision":"deny","id":"pending_1","args_hash":"00f1","message":"no"}"#;
    let mut decision = Decision::deny(&pending(), "no");
    assert_eq!(decision.args_hash, None);
    decision.args_hash = Some("00f1".into());
    assert_eq!(to_string(&decision).unwrap(), text);
    assert_eq!(from_str::<Decision>(text).unwrap(), decision);
}

#[test]
fn decision_without_an_answer_or_a_hash_is_not_written() {
    let mut decision = Decision::allow(&pending());
    decision.args_hash = None;
    for answer in [
        Answer::Allow,
        Answer::AllowForSession,
        Answer::Edit(json!({})),
    ] {
        decision.answer = answer;
        let error = to_string(&decision).unwrap_err().to_string();
        assert!(
            error.contains("\"pending_1\" was refused: `args_hash` is missing"),
            "{error}"
        );
    }

    decision.answer = Answer::Unanswered;
    let error = to_string(&decision).unwrap_err().to_string();
    assert!(error.contains("it has no answer; leave out"), "{error}");
}

#[test]
fn explanations_are_written_as_these_bytes() {
    let config = PermissionConfig::from_json(r#"{"deny": ["Bash(rm:*)"]}"#).unwrap();
    let rules = PermissionRules::new()
        .config(&config, "team.json")
        .unwrap()
        .allow("Bash(ls)")
        .unwrap();
    for (command, text) in [
        (
            "ls",
            r#"{"decision":"allow","rule":"allow:Bash(ls)","source":null,"by_rule":true,"why":"allowed by rule allow:Bash(ls)"}"#,
        ),
        (
            "id",
            r#"{"decision":"ask","rule":null,"source":null,"by_rule":false,"why":"no rule allows `id`"}"#,
        ),
        (
            "rm x",
            r#"{"decision":"deny","rule":"deny:Bash(rm:*)","source":"team.json","by_rule":true,"why":"denied by rule deny:Bash(rm:*)"}"#,
        ),
    ] {
        assert_eq!(to_string(&rules.explain_command(command)).unwrap(), text);
    }
}
