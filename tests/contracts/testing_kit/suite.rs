//! The conformance suite, which accepts sound models and names the faults of others.

use super::*;

#[tokio::test]
async fn testing_models_pass_the_model_suite() {
    conformance::model(|| FunctionModel::text(|r| r.messages.last_content().into_owned()))
        .await
        .unwrap();
    conformance::model(|| StrictModel::new(FunctionModel::text(|_| "yes".into())))
        .await
        .unwrap();
    conformance::model(|| {
        let model = ScriptedModel::new().say("a").say("a").say("a");
        model.allow_unused();
        model
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn broken_models_fail_the_matching_check() {
    let exact = |events: fn() -> Vec<Result<ModelEvent>>| {
        FunctionModel::stream(move |_| async move { Ok(futures::stream::iter(events()).boxed()) })
    };

    type Events = fn() -> Vec<Result<ModelEvent>>;
    let cases: [(Events, &str); 5] = [
        (
            || vec![Ok(ModelEvent::stop(StopReason::EndTurn))],
            "not Start",
        ),
        (
            || vec![Ok(ModelEvent::Start(Box::default()))],
            "0 Stop events",
        ),
        (
            || {
                vec![
                    Ok(ModelEvent::Start(Box::default())),
                    Ok(ModelEvent::stop(StopReason::EndTurn)),
                    Ok(ModelEvent::Text("late".into())),
                ]
            },
            "not Stop",
        ),
        (
            || {
                vec![
                    Ok(ModelEvent::Start(Box::default())),
                    Ok(ModelEvent::Usage(Usage::new(1, 1))),
                    Ok(ModelEvent::Usage(Usage::default())),
                    Ok(ModelEvent::stop(StopReason::EndTurn)),
                ]
            },
            "takes back",
        ),
        (
            || {
                vec![
                    Ok(ModelEvent::Start(Box::default())),
                    Ok(ModelEvent::ToolCall(ToolCall::new("", "t", json!({})))),
                    Ok(ModelEvent::stop(StopReason::EndTurn)),
                ]
            },
            "without an id",
        ),
    ];
    for (events, expected) in cases {
        let report = conformance::model(|| exact(events)).await.unwrap_err();
        assert!(report.text().contains(expected), "{expected}: {report}");
    }

    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let fickle = FunctionModel::text(move |_| {
        count
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
            .to_string()
    });

    let report = conformance::model(|| fickle.clone()).await.unwrap_err();
    assert!(
        report.text().starts_with("call() against stream()"),
        "{report}"
    );
    let mixed = FunctionModel::text(|request| {
        let apple = request.messages.last_content().contains("apple");
        if apple { "pear" } else { "apple" }.to_owned()
    });

    let report = conformance::model(|| mixed.clone()).await.unwrap_err();
    assert!(report.text().starts_with("two streams at once"), "{report}");
}
