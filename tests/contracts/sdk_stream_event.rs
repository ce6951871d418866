//! The events of a run that a browser receives.

use agentcore::sdk::{
    Activity, ApiMessage, ApiStreamEvent, AssistantEvent, BlockDelta, Envelope, Init, PartialEvent,
    ResultMessage, ResultSubtype, Status, StreamEvents, SystemEvent, SystemKind, TaskNotification,
    TaskStarted, ToolProgress, UserEvent,
};
use agentcore::{Message, PermissionRequest, SdkMessage, StreamEvent, Todo, ToolCall};
use serde_json::{Value, json};

fn envelope() -> Envelope {
    Envelope::new("th_8f3a2b", 0)
}

fn system(kind: SystemKind) -> SdkMessage {
    SystemEvent::new(envelope(), kind).into()
}

fn init() -> SdkMessage {
    let tools: [&str; 0] = [];
    system(SystemKind::Init(Box::new(Init::new("m", "/w", tools))))
}

fn requesting() -> SdkMessage {
    system(SystemKind::Status(Box::new(Status::new(
        Activity::Requesting,
    ))))
}

fn delta(text: &str) -> SdkMessage {
    let delta = BlockDelta::Text(text.to_owned());
    PartialEvent::new(
        envelope(),
        ApiStreamEvent::ContentBlockDelta { index: 0, delta },
    )
    .into()
}

fn answer(message: Message) -> SdkMessage {
    AssistantEvent::new(envelope(), ApiMessage::new("msg", "m", message)).into()
}

fn tool(data: Value) -> SdkMessage {
    ToolProgress::new(envelope(), "t1", "read_file", 0.0)
        .with_data(data)
        .into()
}

fn end(subtype: ResultSubtype) -> ResultMessage {
    let mut result = ResultMessage::new(envelope(), subtype);
    result.duration_ms = 1200;
    result
}

/// Returns the events of these messages as JSON.
fn events(messages: impl IntoIterator<Item = SdkMessage>) -> Value {
    let mut events = StreamEvents::new();
    let all: Vec<StreamEvent> = messages
        .into_iter()
        .flat_map(|one| events.push(&one))
        .collect();
    serde_json::to_value(all).expect("they write")
}

fn start_of_model() -> Value {
    json!({"event": "on_chat_model_start", "name": "m"})
}

fn end_of_model() -> Value {
    json!({"event": "on_chat_model_end", "name": "m"})
}

fn text(text: &str) -> Value {
    json!({"event": "on_chat_model_stream", "data": {"delta": text}})
}

#[test]
fn run_with_a_tool_call_becomes_the_listed_events() {
    let call = ToolCall::new("t1", "read_file", json!({"path": "main.py"}));
    let events_json = events([
        init(),
        requesting(),
        delta("Let me read"),
        delta(" that file."),
        answer(Message::ai_calling("Let me read that file.", [call])),
        tool(json!({"state": "started", "args": {"path": "main.py"}})),
        tool(json!({"percent": 50})),
        tool(json!({"state": "done", "is_error": false, "output": "from fastapi"})),
        UserEvent::new(
            envelope(),
            [Message::tool("t1", "read_file", "from fastapi")],
        )
        .into(),
        requesting(),
        delta("An app."),
        answer(Message::ai("An app.")),
        end(ResultSubtype::Success).into(),
    ]);
    assert_eq!(
        events_json,
        json!([
            start_of_model(),
            text("Let me read"),
            text(" that file."),
            end_of_model(),
            {"event": "on_tool_start", "name": "read_file", "run_id": "t1",
             "data": {"args": {"path": "main.py"}}},
            {"event": "on_tool_end", "name": "read_file", "run_id": "t1",
             "data": {"output": "from fastapi"}},
            start_of_model(),
            text("An app."),
            end_of_model(),
            {"event": "done", "thread_id": "th_8f3a2b",
             "data": {"thread_id": "th_8f3a2b", "total_duration_ms": 1200}},
        ])
    );
}

#[test]
fn answer_without_partial_messages_is_one_delta() {
    let events_json = events([init(), requesting(), answer(Message::ai("Hi"))]);
    assert_eq!(
        events_json,
        json!([start_of_model(), text("Hi"), end_of_model()])
    );
    // The start is also emitted if no message announced the request.
    let events_json = events([init(), answer(Message::ai("Hi"))]);
    assert_eq!(
        events_json,
        json!([start_of_model(), text("Hi"), end_of_model()])
    );
    let call = ToolCall::new("t", "n", json!({}));
    let events_json = events([init(), answer(Message::ai_calling("", [call]))]);
    assert_eq!(events_json, json!([start_of_model(), end_of_model()]));
}

#[test]
fn second_request_before_the_answer_emits_no_second_start() {
    let events_json = events([
        init(),
        requesting(),
        requesting(),
        answer(Message::ai("Hi")),
    ]);
    assert_eq!(
        events_json,
        json!([start_of_model(), text("Hi"), end_of_model()])
    );
}

#[test]
fn stream_restart_emits_a_restart_event() {
    let restart = SystemKind::StreamRestart {
        attempt: 1,
        supersedes: Vec::new(),
    };

    let events_json = events([
        init(),
        requesting(),
        delta("Wro"),
        system(restart.clone()),
        answer(Message::ai("Right")),
        system(restart),
    ]);
    let again = json!({"event": "on_chat_model_restart", "name": "m", "data": {"attempt": 1}});
    assert_eq!(
        events_json,
        json!([
            start_of_model(),
            text("Wro"),
            again,
            text("Right"),
            end_of_model()
        ])
    );
}

#[test]
fn failed_run_closes_open_models_and_tools() {
    let mut failed = end(ResultSubtype::ErrorDuringExecution);
    failed.errors = vec!["no network".to_owned(), "gave up".to_owned()];
    let events_json = events([init(), requesting(), delta("So"), failed.into()]);
    let error = json!({"event": "error", "data": {"error": "no network\ngave up"}});
    assert_eq!(
        events_json,
        json!([start_of_model(), text("So"), end_of_model(), error])
    );

    let started = tool(json!({"state": "started", "args": {}}));
    let events_json = events([started, end(ResultSubtype::ErrorMaxTurns).into()]);
    assert_eq!(events_json[1]["event"], "on_tool_end");
    assert_eq!(
        events_json[1]["data"],
        json!({"output": null, "is_error": true})
    );
    assert_eq!(
        events_json[2],
        json!({"event": "error", "data": {"error": "error_max_turns"}})
    );
}

#[test]
fn failed_tool_has_is_error_in_its_end_event() {
    let events_json = events([
        tool(json!({"state": "started", "args": {}})),
        tool(json!({"state": "done", "is_error": true, "output": "Error: no"})),
        end(ResultSubtype::Success).into(),
    ]);
    assert_eq!(
        events_json[1]["data"],
        json!({"output": "Error: no", "is_error": true})
    );
    assert_eq!(events_json[2]["event"], "done");
}

#[test]
fn messages_of_subagents_emit_no_events() {
    let events_json = events([
        inside("t1", init()),
        inside("t1", requesting()),
        inside("t1", delta("x")),
        inside("t1", answer(Message::ai("x"))),
        inside("t1", tool(json!({"state": "started"}))),
    ]);
    assert_eq!(events_json, json!([]));
}

#[test]
fn stream_event_json_round_trips() {
    let event = StreamEvent::new(StreamEvent::TOOL_END)
        .with_name("n")
        .with_run_id("t")
        .with_data(json!({"output": "o"}));
    let text = serde_json::to_string(&event).expect("it writes");
    assert_eq!(
        serde_json::from_str::<StreamEvent>(&text).expect("it reads"),
        event
    );
    assert_eq!(
        serde_json::to_string(&StreamEvent::new("done")).expect("it writes"),
        r#"{"event":"done"}"#
    );
}

#[test]
fn progress_that_looks_like_a_start_starts_a_tool_once() {
    let mut events = StreamEvents::new();
    let started = tool(json!({"state": "started", "args": {}}));
    let number = (0..3).map(|_| events.push(&started).len()).sum::<usize>();
    assert_eq!(number, 1);

    let events = events.push(&end(ResultSubtype::Success).into());
    let ends = events
        .iter()
        .filter(|event| event.event == StreamEvent::TOOL_END);
    assert_eq!(ends.count(), 1);
}

#[test]
fn progress_with_a_state_of_its_own_neither_starts_nor_ends_a_call() {
    let mut events = StreamEvents::new();
    let started = tool(json!({"state": "started", "args": {}}));
    assert_eq!(events.push(&started).len(), 1);
    for data in [
        json!({"state": "done"}),
        json!({"state": "started"}),
        json!({"state": "done", "output": "half"}),
        json!({"state": "waiting"}),
        json!({"state": "waiting", "for": "a lock"}),
    ] {
        assert!(events.push(&tool(data.clone())).is_empty(), "{data}");
    }
    let ended = tool(json!({"state": "done", "is_error": false, "output": "whole"}));
    let ends = events.push(&ended);
    assert_eq!(ends[0].data, Some(json!({"output": "whole"})));
    let pushed = events.push(&end(ResultSubtype::Success).into());
    assert_eq!(pushed[0].event, StreamEvent::DONE);
}

#[test]
fn pending_call_has_an_end_that_is_no_error() {
    let mut deferred = end(ResultSubtype::Success);
    deferred.terminal_reason = Some("tool_deferred".into());
    let last_data = |data: Value, result: ResultMessage| {
        let events_json = events([
            tool(json!({"state": "started", "args": {}})),
            tool(data),
            result.into(),
        ]);
        assert_eq!(events_json[1]["event"], "on_tool_end");
        assert_eq!(events_json[2]["event"], "done");
        events_json[1]["data"].clone()
    };

    let waiting = json!({"state": "waiting"});
    let error = json!({"output": null, "is_error": true});
    assert_eq!(
        last_data(waiting.clone(), deferred.clone()),
        json!({"output": null, "waiting": true})
    );
    assert_eq!(last_data(json!({"percent": 50}), deferred), error);
    assert_eq!(last_data(waiting, end(ResultSubtype::Success)), error);
}

#[test]
fn model_with_a_provider_has_one_name_in_all_its_events() {
    let tools: [&str; 0] = [];
    let init = Init::new("anthropic:claude-sonnet-5", "/w", tools);
    let answered_by = |model: &str| {
        let message = ApiMessage::new("msg", model, Message::ai("Hi"));
        AssistantEvent::new(envelope(), message).into()
    };
    let events_json = events([
        system(SystemKind::Init(Box::new(init))),
        requesting(),
        answered_by("claude-sonnet-5-20260101"),
        requesting(),
        answered_by("gpt-4.1"),
        requesting(),
    ]);
    let names: Vec<_> = events_json.as_array().expect("a list").iter().collect();
    let names: Vec<_> = names
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    let first = "anthropic:claude-sonnet-5";
    assert_eq!(names, [first, first, first, first, "gpt-4.1"]);
}

#[test]
fn done_event_has_the_trace_id_that_was_set() {
    let mut events = StreamEvents::new().with_trace_id("run_1");
    let done = events.push(&end(ResultSubtype::Success).into());
    let data = json!({"thread_id": "th_8f3a2b", "trace_id": "run_1", "total_duration_ms": 1200});
    assert_eq!(done[0].data, Some(data));
}

#[test]
fn state_changes_and_questions_become_events() {
    let todos = vec![Todo::new("1", "Write")];
    let changed = SystemKind::StateChanged {
        todos: Some(todos),
        files: None,
    };
    let question = PermissionRequest::new(
        envelope(),
        "ask_1",
        "t1",
        "execute",
        json!({"command": "ls"}),
        "Run ls?",
    );
    let mut inside = question.clone();
    inside.envelope.parent_tool_use_id = Some("t0".into());
    let events_json = events([
        system(changed),
        SdkMessage::PermissionRequest(Box::new(question)),
        SdkMessage::PermissionRequest(Box::new(inside)),
    ]);
    let asked = json!({
        "event": "on_permission_request", "name": "execute", "run_id": "t1",
        "data": {"id": "ask_1", "question": "Run ls?", "args": {"command": "ls"},
                 "expects_text": false}
    });
    assert_eq!(
        events_json,
        json!([
            {"event": "on_state_changed",
             "data": {"todos": [{"id": "1", "title": "Write", "status": "pending"}]}},
            asked,
            asked
        ])
    );
}

/// Returns a message as one of the subagent that the call `call` started.
fn inside(call: &str, mut message: SdkMessage) -> SdkMessage {
    let envelope = match &mut message {
        SdkMessage::System(event) => &mut event.envelope,
        SdkMessage::Partial(event) => &mut event.envelope,
        SdkMessage::Assistant(event) => &mut event.envelope,
        SdkMessage::ToolProgress(event) => &mut event.envelope,
        other => panic!("not a message of these tests: {other:?}"),
    };
    envelope.parent_tool_use_id = Some(call.into());
    envelope.session_id = call.into();
    message
}

fn subagent_started(call: &str) -> SdkMessage {
    let mut start = TaskStarted::new("child", "Look around");
    (start.tool_use_id, start.subagent_type) = (Some(call.into()), Some("scout".into()));
    inside(call, system(SystemKind::TaskStarted(Box::new(start))))
}

fn subagent_ended(call: &str) -> SdkMessage {
    let end = json!({
        "task_id": "child", "status": "completed", "summary": "All quiet.", "tool_use_id": call
    });
    let end: TaskNotification = serde_json::from_value(end).expect("it reads");
    inside(call, system(SystemKind::TaskNotification(Box::new(end))))
}

#[test]
fn restart_of_a_subagent_supersedes_the_text_of_its_attempt() {
    let restart = system(SystemKind::StreamRestart {
        attempt: 2,
        supersedes: Vec::new(),
    });
    let mut events = StreamEvents::new().with_subagents();
    let messages = [
        subagent_started("t1"),
        inside("t1", delta("Looking.")),
        inside("t1", answer(Message::ai("Looking."))),
        inside("t1", delta("Half ")),
        inside("t1", delta("én")),
        inside("t1", restart.clone()),
        inside("t1", restart),
        inside("t1", answer(Message::ai("Half énough."))),
    ];
    let stream_events: Vec<_> = messages.iter().flat_map(|one| events.push(one)).collect();
    let stream = |delta: &str| {
        json!({"event": "on_subagent_stream", "name": "scout", "run_id": "t1",
            "data": {"delta": delta}})
    };
    assert_eq!(
        serde_json::to_value(&stream_events[1..]).expect("they write"),
        json!([
            stream("Looking."),
            stream("Half "),
            stream("én"),
            {"event": "on_subagent_restart", "name": "scout", "run_id": "t1",
             "data": {"attempt": 2, "superseded": 7}},
            stream("Half énough."),
        ])
    );
}

#[test]
fn of_too_many_subagents_each_start_has_its_end_and_no_text_is_repeated() {
    let calls: Vec<String> = (0..1_001).map(|number| format!("t{number}")).collect();
    let stages: [fn(&str) -> SdkMessage; 4] = [
        subagent_started,
        |call| inside(call, delta("Hi")),
        |call| inside(call, answer(Message::ai("Hi"))),
        subagent_ended,
    ];
    let mut events = StreamEvents::new().with_subagents();
    let counts = stages.map(|stage| {
        let pushed = calls.iter().map(|call| events.push(&stage(call)).len());
        pushed.sum::<usize>()
    });
    assert_eq!(counts, [1_000, 1_001, 0, 1_000]);
}

/// Returns a message with another session.
fn of_child(session: &str, mut message: SdkMessage) -> SdkMessage {
    match &mut message {
        SdkMessage::System(event) => event.envelope.session_id = session.into(),
        SdkMessage::Partial(event) => event.envelope.session_id = session.into(),
        SdkMessage::Assistant(event) => event.envelope.session_id = session.into(),
        other => panic!("not a message of these tests: {other:?}"),
    }
    message
}

#[test]
fn of_two_subagents_of_a_call_each_start_has_its_end_and_each_piece_its_name() {
    let started = |name: &str| {
        let mut start = TaskStarted::new(name, "Look around");
        (start.tool_use_id, start.subagent_type) = (Some("t1".into()), Some(name.into()));
        let start = system(SystemKind::TaskStarted(Box::new(start)));
        of_child(name, inside("t1", start))
    };
    let ended = |name: &str| {
        let end =
            json!({"task_id": name, "status": "completed", "summary": "", "tool_use_id": "t1"});
        let end: TaskNotification = serde_json::from_value(end).expect("it reads");
        let end = system(SystemKind::TaskNotification(Box::new(end)));
        of_child(name, inside("t1", end))
    };
    let piece = |name: &str| of_child(name, inside("t1", delta("Hi")));
    let messages = [
        started("a"),
        started("b"),
        piece("a"),
        piece("b"),
        ended("a"),
        piece("b"),
        ended("b"),
        ended("b"),
    ];
    let mut events = StreamEvents::new().with_subagents();
    let stream_events = messages.iter().flat_map(|one| events.push(one));
    let stream_events: Vec<_> = stream_events
        .map(|event| serde_json::to_value(event).expect("it writes"))
        .map(|event| format!("{} {}", event["event"], event["name"]).replace('"', ""))
        .collect();
    let expected = [
        "on_subagent_start a",
        "on_subagent_start b",
        "on_subagent_stream a",
        "on_subagent_stream b",
        "on_subagent_end a",
        "on_subagent_stream b",
        "on_subagent_end b",
    ];
    assert_eq!(stream_events, expected);
}

#[test]
fn stopped_background_subagent_leaves_no_text_for_its_next_attempt() {
    // The start and the end of a background task have the session that began the task.
    let stopped = of_child("parent", subagent_ended("t1"));
    let restart = system(SystemKind::StreamRestart {
        attempt: 2,
        supersedes: Vec::new(),
    });
    let messages = [
        of_child("parent", subagent_started("t1")),
        inside("t1", delta("Half")),
        stopped,
        inside("t1", delta("New")),
        inside("t1", restart),
    ];
    let mut events = StreamEvents::new().with_subagents();
    let stream_events: Vec<_> = messages.iter().flat_map(|one| events.push(one)).collect();
    let data = stream_events.last().and_then(|event| event.data.clone());
    assert_eq!(data, Some(json!({"attempt": 2, "superseded": 3})));
}

#[test]
fn end_of_a_task_that_a_subagent_began_keeps_what_the_subagent_has_streamed() {
    let messages = [
        of_child("a", inside("t1", delta("One"))),
        of_child("a", subagent_started("t2")),
        of_child("a", subagent_ended("t2")),
        of_child("a", inside("t1", answer(Message::ai("One")))),
    ];
    let mut events = StreamEvents::new().with_subagents();
    let texts = messages.iter().flat_map(|message| events.push(message));
    let texts = texts.filter(|event| event.event == StreamEvent::SUBAGENT_STREAM);
    assert_eq!(texts.count(), 1);
}

#[test]
fn of_two_subagents_of_a_call_each_response_is_emitted_once() {
    let restart = system(SystemKind::StreamRestart {
        attempt: 2,
        supersedes: Vec::new(),
    });
    let messages = [
        of_child("a", inside("t1", delta("One"))),
        of_child("b", inside("t1", delta("Three"))),
        of_child("a", inside("t1", answer(Message::ai("One")))),
        of_child("b", inside("t1", restart)),
        of_child("b", inside("t1", answer(Message::ai("Three")))),
    ];
    let mut events = StreamEvents::new().with_subagents();
    let stream_events: Vec<_> = messages.iter().flat_map(|one| events.push(one)).collect();
    let data: Vec<_> = stream_events
        .into_iter()
        .filter_map(|event| event.data)
        .collect();
    assert_eq!(
        data,
        [
            json!({"delta": "One"}),
            json!({"delta": "Three"}),
            json!({"attempt": 2, "superseded": 5}),
            json!({"delta": "Three"}),
        ]
    );
}

#[test]
fn subagents_become_events_when_asked_for() {
    let text = answer(Message::ai("All quiet."));
    let mut events = StreamEvents::new().with_subagents();
    let messages = [
        subagent_started("t1"),
        inside("t1", text),
        subagent_ended("t1"),
    ];
    let stream_events: Vec<_> = messages.iter().flat_map(|one| events.push(one)).collect();
    assert_eq!(
        serde_json::to_value(stream_events).expect("they write"),
        json!([
            {"event": "on_subagent_start", "name": "scout", "run_id": "t1",
             "data": {"task_id": "child", "description": "Look around"}},
            {"event": "on_subagent_stream", "name": "scout", "run_id": "t1",
             "data": {"delta": "All quiet."}},
            {"event": "on_subagent_end", "name": "scout", "run_id": "t1",
             "data": {"task_id": "child", "status": "completed", "summary": "All quiet."}}
        ])
    );
}
