//! The JSON of events around a conversation, in the shapes that other readers expect.

use agentcore::sdk::{
    ApiStreamEvent, AssistantErrorKind, BlockDelta, Envelope, Init, Level, ModelUsage,
    PartialEvent, PermissionDenial, ResultMessage, ResultSubtype, SystemEvent, SystemKind,
    TaskState, ToolProgress,
};
use agentcore::{PermissionRequest, SdkMessage, Usage};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::sdk_golden::{ID, OTHER_ID, kind, message, read, result, round_trip, system};

#[test]
fn init_round_trips() {
    let kind = kind(&system(
        "init",
        json!({"model": "m", "cwd": "/w", "tools": ["bash"], "permissionMode": "plan",
            "mcp_servers": [{"name": "s", "status": "connected", "source": "user"}],
            "claude_code_version": "2.1.330", "apiKeySource": "none", "slash_commands": [],
            "output_style": "default", "skills": [], "agents": ["a"],
            "plugins": [{"name": "p", "path": "/p"}], "betas": ["b"], "fast_mode_state": "off"}),
    ));
    let SystemKind::Init(init) = kind else {
        panic!("{kind:?}")
    };

    assert_eq!(
        (&*init.model, &*init.permission_mode, &*init.version),
        ("m", "plan", "2.1.330")
    );
    assert_eq!(&*init.mcp_servers[0].name, "s");
}

#[test]
fn new_init_has_every_required_field() {
    let init = Init::new("m", "/w", ["bash"]);
    let event = SystemEvent::new(Envelope::new("s", 0), SystemKind::Init(Box::new(init)));
    let json = serde_json::to_value(SdkMessage::from(event)).expect("it writes");
    for key in [
        "type",
        "subtype",
        "apiKeySource",
        "claude_code_version",
        "cwd",
        "tools",
        "mcp_servers",
        "model",
        "permissionMode",
        "slash_commands",
        "output_style",
        "skills",
        "plugins",
        "uuid",
        "session_id",
    ] {
        assert!(!json[key].is_null(), "{key}: {json}");
    }

    assert_eq!(json["permissionMode"], "default");
}

#[test]
fn tool_progress_round_trips() {
    let mut json = message(
        json!({"type": "tool_progress", "tool_use_id": "t", "tool_name": "bash",
        "parent_tool_use_id": null, "elapsed_time_seconds": 1.5}),
    );
    round_trip(&json);
    json["heartbeat"] = true.into();
    json["task_id"] = "task_1".into();
    json["data"] = json!({"state": "started", "args": {}});
    json["subagent_retry"] = json!({"agent_id": "a", "attempt": 1, "max_retries": 3,
        "retry_delay_ms": 100, "error_status": null, "error_category": "overloaded"});
    let SdkMessage::ToolProgress(progress) = round_trip(&json) else {
        panic!()
    };

    assert!(progress.heartbeat);
    assert_eq!(progress.data.as_deref(), Some(&json["data"]));
}

#[test]
fn permission_request_round_trips() {
    let request = PermissionRequest::new(
        Envelope::new("s", 0),
        "ask_1",
        "t",
        "bash",
        json!({"command": "rm -r x"}),
        "Run rm?",
    );
    assert_eq!(request.as_ref(), "ask_1");
    let json = serde_json::to_value(SdkMessage::from(request.clone())).expect("it writes");
    assert_eq!(json["type"], "permission_request");
    assert_eq!(round_trip(&json), request.into());
}

#[test]
fn compact_boundary_round_trips() {
    let mut meta = json!({"trigger": "auto", "pre_tokens": 150000});
    kind(&system(
        "compact_boundary",
        json!({"compact_metadata": meta}),
    ));
    meta["post_tokens"] = 9000.into();
    meta["duration_ms"] = 12.into();
    meta["preserved_messages"] = json!({"anchor_uuid": ID, "uuids": [OTHER_ID]});
    meta["preserved_segment"] = json!({"head_uuid": ID, "anchor_uuid": ID, "tail_uuid": ID});
    let kind = kind(&system(
        "compact_boundary",
        json!({"compact_metadata": meta}),
    ));
    let SystemKind::CompactBoundary(boundary) = kind else {
        panic!("{kind:?}")
    };

    assert_eq!(
        boundary.preserved_messages.map(|kept| kept.uuids.len()),
        Some(1)
    );
}

#[test]
fn results_of_every_subtype_round_trip() {
    for (name, subtype) in [
        ("success", ResultSubtype::Success),
        (
            "error_during_execution",
            ResultSubtype::ErrorDuringExecution,
        ),
        ("error_max_turns", ResultSubtype::ErrorMaxTurns),
        ("error_max_budget_usd", ResultSubtype::ErrorMaxBudgetUsd),
        (
            "error_max_structured_output_retries",
            ResultSubtype::ErrorMaxStructuredOutputRetries,
        ),
        (
            "error_of_tomorrow",
            ResultSubtype::Other("error_of_tomorrow".into()),
        ),
    ] {
        let mut json = result(name);
        json["structured_output"] = json!({"n": 4});
        json["ttft_ms"] = 250.into();
        json["api_error_status"] = Value::Null;
        json["usage"]["service_tier"] = "standard".into();
        json["modelUsage"]["claude-sonnet-4-5"]["provider"] = "anthropic".into();
        json["modelUsage"]["claude-sonnet-4-5"]["costBasis"] = "list".into();
        json["permission_denials"][0]["agent_id"] = "a".into();
        let read = round_trip(&json);
        assert!(read.is_result());
        let result = read.as_result().expect("a result");
        assert_eq!(result.subtype, subtype);
        assert_eq!(result.total_cost_usd, Some(0.010935));
        assert_eq!(result.usage, Usage::new(1000, 500).with_cache(200, 100));
        let usage = &result.model_usage["claude-sonnet-4-5"];
        assert_eq!((usage.input_tokens, usage.cost_usd), (1000, Some(0.010935)));
        assert_eq!(usage.extra["provider"], "anthropic");
    }
}

#[test]
fn unknown_cost_is_serialized_as_zero_with_an_unknown_basis() {
    let mut result = ResultMessage::new(Envelope::new("s", 9), ResultSubtype::ErrorMaxTurns);
    let usage = ModelUsage::new(Usage::new(5, 6), None).with_limits(128_000, 8_192);
    result.model_usage.insert("local".into(), usage);
    result
        .permission_denials
        .push(PermissionDenial::new("bash", "t", json!({})));
    assert!(result.is_error);
    let message = SdkMessage::from(result);
    let json = serde_json::to_value(&message).expect("it writes");
    assert_eq!(json["total_cost_usd"], 0.0);
    assert_eq!(json["modelUsage"]["local"]["costUSD"], 0.0);
    assert_eq!(json["modelUsage"]["local"]["costBasis"], "unknown");
    assert_eq!(json["errors"], json!([]));
    assert_eq!(read(&json), message);
}

#[test]
fn zero_cost_with_known_basis_is_read_as_zero() {
    let mut json = result("success");
    json["total_cost_usd"] = 0.0.into();
    json["modelUsage"] = json!({});
    let read = round_trip(&json);
    assert_eq!(
        read.as_result().and_then(|result| result.total_cost_usd),
        Some(0.0)
    );
}

#[test]
fn api_retry_with_a_null_status_round_trips() {
    let kind = kind(&system(
        "api_retry",
        json!({"attempt": 1, "max_retries": 10, "retry_delay_ms": 512, "error_status": null,
               "error": "overloaded", "no_response": {"waited_ms": 1, "retry_wait_ms": 2}}),
    ));
    let SystemKind::ApiRetry(retry) = kind else {
        panic!("{kind:?}")
    };

    assert_eq!(
        (retry.error_status, retry.error),
        (None, AssistantErrorKind::Overloaded)
    );
}

#[test]
fn permission_denied_round_trips() {
    let kind = kind(&system(
        "permission_denied",
        json!({"tool_name": "bash", "tool_use_id": "t", "message": "no", "agent_id": "a",
               "decision_reason_type": "rule", "decision_reason": "Bash(rm *)"}),
    ));
    assert!(matches!(kind, SystemKind::PermissionDenied(one) if one.message == "no"));
}

#[test]
fn task_messages_round_trip() {
    let usage = json!({"total_tokens": 7, "tool_uses": 1, "duration_ms": 20, "cost": 1});
    kind(&system(
        "task_started",
        json!({"task_id": "k", "description": "d", "tool_use_id": "t",
        "subagent_type": "s", "prompt": "p", "task_type": "local_agent", "ambient": true}),
    ));
    kind(&system(
        "task_progress",
        json!({"task_id": "k", "description": "d", "usage": usage,
        "last_tool_name": "bash", "summary": "s"}),
    ));
    kind(&system(
        "task_updated",
        json!({"task_id": "k", "patch": {"status": "killed",
        "error": "e", "end_time": 12, "is_backgrounded": true}}),
    ));
    let kind = kind(&system(
        "task_notification",
        json!({"task_id": "k", "status": "completed",
        "output_file": "", "summary": "s", "usage": usage, "resource_links": [{"uri": "u"}]}),
    ));
    let SystemKind::TaskNotification(end) = kind else {
        panic!("{kind:?}")
    };

    assert_eq!(end.status, TaskState::Completed);
    assert_eq!(end.usage.map(|usage| usage.total_tokens), Some(7));
}

#[test]
fn other_system_subtypes_round_trip() {
    let todo = json!({"id": "1", "title": "t", "status": "in_progress"});
    for json in [
        system("status", json!({"status": "requesting"})),
        system("status", json!({"status": null, "permissionMode": "plan"})),
        system(
            "status",
            json!({"status": "of_tomorrow", "compact_result": "failed",
            "compact_error": "e"}),
        ),
        system(
            "informational",
            json!({"content": "c", "level": "warning", "tag": "x"}),
        ),
        system(
            "informational",
            json!({"content": "c", "level": "shout", "tool_use_id": "t"}),
        ),
        system(
            "notification",
            json!({"key": "k", "text": "t", "priority": "high", "color": "red"}),
        ),
        system("session_state_changed", json!({"state": "requires_action"})),
        system("state_changed", json!({"todos": [todo]})),
        system("state_changed", json!({"files": ["a"]})),
        system(
            "stream_restart",
            json!({"attempt": 1, "supersedes": [OTHER_ID]}),
        ),
    ] {
        let kind = kind(&json);
        assert!(!matches!(kind, SystemKind::Unknown { .. }), "{kind:?}");
    }

    let warning = SystemKind::Informational {
        content: "c".to_owned(),
        level: Level::Warning,
        tool_use_id: None,
    };

    assert_eq!(
        kind(&system(
            "informational",
            json!({"content": "c", "level": "warning"})
        )),
        warning
    );
}

#[test]
fn envelope_ids_are_unique_and_messages_have_at_most_200_bytes() {
    let ids: std::collections::HashSet<Uuid> = (0..10_000)
        .map(|seq| Envelope::new("s", seq).uuid)
        .collect();
    assert_eq!(ids.len(), 10_000);
    assert!(ids.iter().all(|id| id.get_version_num() == 4));
    assert!(
        size_of::<SdkMessage>() <= 200,
        "{}",
        size_of::<SdkMessage>()
    );
}

#[test]
fn messages_are_send_sync_and_clone() {
    fn check<T: Send + Sync + Clone + 'static>() {}
    check::<SdkMessage>();
    let mut envelope = Envelope::new("s", 0);
    envelope.parent_tool_use_id = Some("p".into());
    let progress = ToolProgress::new(envelope, "t", "n", 0.5);
    assert_eq!(SdkMessage::from(progress).parent_tool_use_id(), Some("p"));
    let delta = ApiStreamEvent::ContentBlockDelta {
        index: 0,
        delta: BlockDelta::Thinking("x".into()),
    };
    assert_eq!(
        SdkMessage::from(PartialEvent::new(Envelope::default(), delta)).text_delta(),
        None
    );
}

#[test]
fn timing_fields_of_hosts_are_dropped() {
    let mut hosted = result("success");
    hosted["time_to_request_ms"] = 7.into();
    let expected = hosted.clone();
    for key in [
        "request_sent_wall_ms",
        "first_stream_post_wall_ms",
        "warm_spare_claimed",
    ] {
        hosted[key] = 1.into();
    }

    let written = serde_json::to_value(read(&hosted)).expect("it writes");
    assert_eq!(written, expected);
}
