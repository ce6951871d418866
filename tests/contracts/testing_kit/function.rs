//! The function model, which adds only events that are missing.

use super::*;

#[tokio::test]
async fn function_model_adds_missing_start_and_stop_events() {
    let calls =
        FunctionModel::new(|_| vec![Ok(ModelEvent::ToolCall(ToolCall::new("1", "t", json!({}))))]);
    let response = calls.call(ModelRequest::new("x")).await.unwrap();
    assert_eq!(response.stop_reason, Some(StopReason::ToolUse));

    let own = FunctionModel::new(|_| {
        vec![
            Ok(ModelEvent::Start(Box::new(ResponseHead::new("own", "m")))),
            Ok(ModelEvent::stop(StopReason::MaxTokens)),
        ]
    });

    assert_eq!(events(&own, ModelRequest::new("x")).await.len(), 2);

    let broken = FunctionModel::new(|_| vec![Err(Error::new(ErrorKind::Server, "500"))]);
    let events = events(&broken, ModelRequest::new("x")).await;
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn stream_function_may_await_and_return_an_error() {
    let model = FunctionModel::stream(|request| async move {
        tokio::task::yield_now().await;
        if request.messages.len() > 1 {
            return Err(Error::new(ErrorKind::InvalidRequest, "too many"));
        }

        let stream: ModelStream =
            futures::stream::iter([Ok(ModelEvent::stop(StopReason::EndTurn))]).boxed();
        Ok(stream)
    });

    assert!(model.call(ModelRequest::new("x")).await.is_ok());
    let two = Messages::new().human("a").ai("b");
    assert!(model.call(ModelRequest::new(two)).await.is_err());
}
