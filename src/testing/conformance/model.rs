//! The contract of [`Model`].

use futures::StreamExt;

use crate::error::Result;
use crate::model::{Model, ModelEvent, ModelRequest, ModelResponse, ModelStream, ResponseFold};

use super::checks::{Failures, wrong};

/// Checks that a [`Model`] fulfills its contract:
///
/// * A stream begins with `Start` and has exactly one `Stop`, at its end.
/// * Each call has a name, and an id that is unique in its answer.
/// * The last usage report is not zero if an earlier one is not.
/// * [`call`](Model::call) returns the fold of [`stream`](Model::stream).
/// * A stream may be dropped in the middle, and two streams at once do not mix.
/// * The id is not empty, and no limit of the profile is 0.
///
/// `make` returns a fresh model for each check. It should answer repeatably (it is asked with
/// temperature 0), and should not answer one prompt with a word of another.
///
/// # Errors
///
/// Returns [`ErrorKind::Other`](crate::ErrorKind::Other) with one line for each failed check.
///
/// ```
/// use agentcore::testing::{FunctionModel, conformance};
///
/// # let run = async {
/// conformance::model(|| FunctionModel::text(|r| r.messages.last_content().into_owned())).await
/// # };
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
/// # Ok::<(), agentcore::Error>(())
/// ```
pub async fn model<M: Model>(make: impl Fn() -> M) -> Result<()> {
    let mut failures = Failures::default();
    failures.check("the order of events", order(&make()).await);
    failures.check("call() against stream()", same(&make(), &make()).await);
    failures.check("a stream dropped in the middle", dropped(&make()).await);
    failures.check("two streams at once", concurrent(&make()).await);
    failures.check("identity", identity(&make()));
    failures.finish()
}

fn ask(text: &str) -> ModelRequest {
    let mut request = ModelRequest::new(format!("Say only: {text}")).with_max_output_tokens(64);
    request.temperature = Some(0.0);
    request
}

async fn collect(mut stream: ModelStream) -> Result<Vec<ModelEvent>> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event?);
    }
    Ok(events)
}

fn well_formed(events: &[ModelEvent]) -> Result<()> {
    if !matches!(events.first(), Some(ModelEvent::Start(_))) {
        return Err(wrong(format!(
            "begins with {:?}, not Start",
            events.first()
        )));
    }

    let start_count = events
        .iter()
        .filter(|e| matches!(e, ModelEvent::Start(_)))
        .count();
    let restarts = events
        .iter()
        .filter(|e| matches!(e, ModelEvent::Restart))
        .count();
    if start_count > 1 + restarts {
        return Err(wrong(format!("{start_count} Start events")));
    }

    let stops = events
        .iter()
        .filter(|e| matches!(e, ModelEvent::Stop { .. }))
        .count();
    if stops != 1 {
        return Err(wrong(format!("{stops} Stop events")));
    }

    if !matches!(events.last(), Some(ModelEvent::Stop { .. })) {
        return Err(wrong(format!("ends with {:?}, not Stop", events.last())));
    }

    usage(events)?;
    calls(events)
}

/// Checks that the last usage report is not zero if an earlier one is not. A stream without usage
/// passes.
fn usage(events: &[ModelEvent]) -> Result<()> {
    let reports: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Usage(usage) => Some(usage),
            _ => None,
        })
        .collect();
    match reports.last() {
        Some(last) if last.is_zero() && reports.iter().any(|usage| !usage.is_zero()) => {
            Err(wrong("the last usage report takes back the ones before"))
        }
        _ => Ok(()),
    }
}

/// Checks that each complete call has a name and an id of its own.
fn calls(events: &[ModelEvent]) -> Result<()> {
    let mut ids = Vec::new();
    for event in events {
        if let ModelEvent::ToolCall(call) = event {
            if call.id.is_empty() || call.name.is_empty() {
                return Err(wrong(format!("a call without an id or a name: {call:?}")));
            }

            if ids.contains(&&call.id) {
                return Err(wrong(format!("two calls with the id {:?}", call.id)));
            }

            ids.push(&call.id);
        }
    }

    Ok(())
}

fn fold(events: Vec<ModelEvent>) -> Result<ModelResponse> {
    let mut fold = ResponseFold::new();
    events.into_iter().for_each(|event| fold.push(event));
    fold.finish()
}

async fn order<M: Model>(model: &M) -> Result<()> {
    well_formed(&collect(model.stream(ask("apple")).await?).await?)
}

async fn same<M: Model>(one: &M, other: &M) -> Result<()> {
    let streamed = fold(collect(one.stream(ask("apple")).await?).await?)?;
    let response = other.call(ask("apple")).await?;
    if streamed.content != response.content || streamed.stop_reason != response.stop_reason {
        return Err(wrong(format!(
            "{streamed:?} was streamed, {response:?} came from call()"
        )));
    }
    Ok(())
}

async fn dropped<M: Model>(model: &M) -> Result<()> {
    let mut stream = model.stream(ask("apple")).await?;
    if let Some(first) = stream.next().await {
        first?;
    }
    drop(stream);
    well_formed(&collect(model.stream(ask("pear")).await?).await?)
}

async fn concurrent<M: Model>(model: &M) -> Result<()> {
    let (apple, pear) =
        futures::future::join(model.stream(ask("apple")), model.stream(ask("pear"))).await;
    let (mut apple, mut pear) = (apple?, pear?);
    let (mut from_one, mut from_two) = (Vec::new(), Vec::new());
    let (mut open_one, mut open_two) = (true, true);
    while open_one || open_two {
        // Alternately, so that both streams are open at once.
        for (stream, events, open) in [
            (&mut apple, &mut from_one, &mut open_one),
            (&mut pear, &mut from_two, &mut open_two),
        ] {
            if *open {
                match stream.next().await {
                    Some(event) => events.push(event?),
                    None => *open = false,
                }
            }
        }
    }

    well_formed(&from_one)?;
    well_formed(&from_two)?;
    let (apple, pear) = (fold(from_one)?, fold(from_two)?);
    let mixed = |text: &str, own: &str, other: &str| text.contains(other) && !text.contains(own);
    if mixed(&apple.text(), "apple", "pear") || mixed(&pear.text(), "pear", "apple") {
        return Err(wrong(format!(
            "{:?} answers \"apple\", {:?} \"pear\"",
            apple.text(),
            pear.text()
        )));
    }

    Ok(())
}

fn identity<M: Model>(model: &M) -> Result<()> {
    if model.id().is_empty() {
        return Err(wrong("the id is empty"));
    }
    if model.profile().context_window == 0 || model.profile().max_output_tokens == 0 {
        return Err(wrong("a limit of the profile is 0"));
    }
    Ok(())
}
