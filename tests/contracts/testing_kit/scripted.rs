//! The checks of the scripted model.

use super::*;

#[tokio::test]
async fn text_streams_word_by_word_between_start_and_stop() {
    let model = ScriptedModel::new()
        .say("  two  words\n")
        .with_usage(Usage::new(3, 4));
    let events = plain(events(&model, ModelRequest::new("hi")).await);
    assert_eq!(
        events,
        [
            ModelEvent::Start(Box::new(ResponseHead::new("response_1", "scripted"))),
            ModelEvent::Text("  ".into()),
            ModelEvent::Text("two  ".into()),
            ModelEvent::Text("words\n".into()),
            ModelEvent::Usage(Usage::new(3, 4)),
            ModelEvent::stop(StopReason::EndTurn),
        ]
    );
    model.assert_finished();
}

#[tokio::test]
async fn calls_are_numbered_across_turns() {
    let model = ScriptedModel::new()
        .calls([("a", json!({"x": 1})), ("b", json!({}))])
        .step(Step::text("and").and_call_raw("c", "{oops"));
    let first = ask(&model, ModelRequest::new("1")).await.unwrap();
    let second = ask(&model, ModelRequest::new("2")).await.unwrap();
    let ids: Vec<_> = first
        .tool_calls()
        .chain(second.tool_calls())
        .map(|c| c.id.to_string())
        .collect();
    assert_eq!(ids, ["call_1", "call_2", "call_3"]);
    assert_eq!(first.stop_reason, Some(StopReason::ToolUse));
    let broken = second.tool_calls().next().unwrap();
    assert!(broken.args.is_null());
    assert_eq!(broken.raw_args.as_deref(), Some("{oops"));
}

#[tokio::test]
async fn unexpected_call_is_an_error_that_names_its_number() {
    let model = ScriptedModel::new().say("once");
    ask(&model, ModelRequest::new("1")).await.unwrap();
    let error = ask(&model, ModelRequest::new("more")).await.unwrap_err();
    assert!(
        error.text().starts_with("call 2 was not expected"),
        "{error}"
    );
    assert!(error.text().contains("more"), "{error}");
    assert!(!error.is_retryable());
    assert!(model.verify().unwrap_err().text().contains("call 2"));
}

#[tokio::test]
async fn verify_reports_unused_steps_and_expectations() {
    let model = ScriptedModel::new().say("1").say("2").expect(|_| ());
    ask(&model, ModelRequest::new("x")).await.unwrap();
    let text = model.verify().unwrap_err().to_string();
    assert!(
        text.contains("1 of 2 scripted steps were not used"),
        "{text}"
    );
    assert!(
        text.contains("an expectation has no step after it"),
        "{text}"
    );
}

#[tokio::test]
async fn dropping_the_last_handle_with_unused_steps_panics_unless_verified() {
    let model = ScriptedModel::new().say("once").say("never");
    ask(&model, ModelRequest::new("x")).await.unwrap();
    let other = model.clone();
    drop(model);
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(other)));
    assert!(dropped.is_err());
    let checked = ScriptedModel::new().say("once").say("never");
    ask(&checked, ModelRequest::new("x")).await.unwrap();
    assert!(checked.verify().is_err());
    drop(checked);
    let excused = ScriptedModel::new().say("once").say("never");
    ask(&excused, ModelRequest::new("x")).await.unwrap();
    excused.allow_unused();
    drop(excused);
}

#[test]
#[should_panic(expected = "the first panic")]
fn drop_during_a_panic_does_not_panic_again() {
    let _model = ScriptedModel::new().say("never");
    panic!("the first panic");
}

#[tokio::test]
async fn failed_expectation_fails_the_call_and_the_verification() {
    let model = ScriptedModel::new()
        .say("first")
        .expect(|request| assert!(request.tools.is_empty(), "no tools wanted"))
        .say("second");
    ask(&model, ModelRequest::new("1")).await.unwrap();
    let tool = ToolDefinition::new("t", "", json!({"type": "object"}));
    let request = ModelRequest::new("2").with_tools([tool]);
    let error = ask(&model, request).await.unwrap_err();
    assert_eq!(error.text(), "call 2: no tools wanted");
    assert!(
        model
            .verify()
            .unwrap_err()
            .text()
            .contains("no tools wanted")
    );
}

#[tokio::test]
async fn scripted_failures_and_events_are_returned_unchanged() {
    let model = ScriptedModel::new()
        .fail(Error::new(ErrorKind::Overloaded, "busy"))
        .events(vec![
            Ok(ModelEvent::Text("par".into())),
            Err(Error::new(ErrorKind::StreamTruncated, "gone")),
        ])
        .events(vec![Ok(ModelEvent::Text("tial".into()))]);
    let error = ask(&model, ModelRequest::new("1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overloaded);
    assert_eq!(events(&model, ModelRequest::new("2")).await.len(), 2);
    let error = ask(&model, ModelRequest::new("3")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StreamTruncated);
}

#[tokio::test(start_paused = true)]
async fn delayed_step_waits_and_hanging_step_never_ends() {
    let wait = Duration::from_secs(5);
    let model = ScriptedModel::new()
        .say("late")
        .delayed(wait)
        .step(Step::text("partial").then_hang());
    let start = tokio::time::Instant::now();
    ask(&model, ModelRequest::new("1")).await.unwrap();
    assert_eq!(start.elapsed(), wait);
    let mut stream = model.stream(ModelRequest::new("2")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    assert_eq!(
        stream.next().await.unwrap().unwrap(),
        ModelEvent::Text("partial".into())
    );
    let day = Duration::from_secs(86_400);
    assert!(tokio::time::timeout(day, stream.next()).await.is_err());
}

#[tokio::test]
async fn cloned_handle_reads_requests_and_extends_the_script() {
    let kept = ScriptedModel::new().say("1");
    let given: Arc<dyn Model> = Arc::new(kept.clone());
    ask(&given, ModelRequest::new("first")).await.unwrap();
    drop(kept.clone().say("2"));
    ask(&given, ModelRequest::new("second")).await.unwrap();
    let asked: Vec<_> = kept
        .requests()
        .iter()
        .map(|r| r.messages.last_content().into_owned())
        .collect();
    assert_eq!(asked, ["first", "second"]);
    kept.assert_finished();
}

#[tokio::test]
async fn usage_set_before_the_first_step_is_the_default_of_all_steps() {
    let model = ScriptedModel::new()
        .with_usage(Usage::new(1, 1))
        .say("a")
        .say("b")
        .with_usage(Usage::new(7, 7));
    let one = ask(&model, ModelRequest::new("x")).await.unwrap();
    let two = ask(&model, ModelRequest::new("x")).await.unwrap();
    assert_eq!((one.usage, two.usage), (Usage::new(1, 1), Usage::new(7, 7)));
}

#[test]
fn dropping_a_model_that_was_never_called_does_not_panic() {
    fn built() -> agentcore::Result<()> {
        let model = ScriptedModel::new().say("never").expect(|_| {});
        agentcore::AgentBuilder::new(model)
            .temperature(-1.0)
            .build()
            .map(drop)
    }
    assert_eq!(built().unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn verify_reports_unused_steps_of_a_model_that_was_never_called() {
    let model = ScriptedModel::new().say("never");
    assert!(model.verify().unwrap_err().to_string().contains("not used"));
}
