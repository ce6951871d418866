//! The checks of the properties.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentcore::{Decision, ExitReason, Messages, Role, Run, RunOutput, SdkMessage};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::drive::{Ending, Reader, timed};
use super::plan::{Does, Plan};
use super::world::{SESSION, World, message};

type Checked<T> = Result<T, TestCaseError>;

/// More polls than any run needs.
const TO_THE_END: usize = usize::MAX;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

fn begin(world: &World, plan: &Plan) -> Run {
    let input: Messages = plan.input.iter().map(message).collect();
    world.agent.session(SESSION).run(input)
}

/// Runs a plan to its end, checks all properties, and returns the number of polls.
pub fn at_the_end(plan: &Plan) -> Checked<usize> {
    block_on(async {
        let world = World::new(plan);
        let mut reader = Reader::new(begin(&world, plan), plan);
        end(&mut reader).await?;
        let polls = reader.polls;
        let output = kept(plan, reader.run)?;
        session_goes_on(&world, plan, &reader.messages).await?;
        leaks_nothing(world, (reader.handle, output))?;
        Ok(polls)
    })
}

/// Returns the number of polls that a plan needs.
pub fn polls(plan: &Plan) -> Checked<usize> {
    block_on(async {
        let world = World::new(plan);
        let mut reader = Reader::new(begin(&world, plan), plan);
        reader.read(TO_THE_END).await.map_err(TestCaseError::fail)?;
        Ok(reader.polls)
    })
}

/// Applies `ending` after `at` polls, and checks that the session can be continued.
pub fn after(plan: &Plan, at: usize, ending: Ending) -> TestCaseResult {
    let outcome = block_on(async {
        let world = World::new(plan);
        let mut reader = Reader::new(begin(&world, plan), plan);
        let ended = reader.read(at).await.map_err(TestCaseError::fail)?;
        reader.act(ending);
        if ending == Ending::Drop {
            drop(reader.run);
        } else {
            if !ended {
                let (result, took) = timed(end(&mut reader)).await;
                result?;
                if matches!(ending, Ending::Interrupt | Ending::Abort) {
                    prop_assert_eq!(took, Duration::ZERO, "stopping takes its time");
                }
            }

            kept(plan, reader.run)?;
        }

        session_goes_on(&world, plan, &reader.messages).await?;
        leaks_nothing(world, reader.handle)
    });

    outcome.map_err(|error| match error {
        TestCaseError::Fail(why) => {
            TestCaseError::fail(format!("{ending:?} after {at} polls: {why}"))
        }
        reject => reject,
    })
}

/// Reads to the end, and checks that there is one result, and that it is the last message.
async fn end(reader: &mut Reader) -> TestCaseResult {
    let ended = reader.read(TO_THE_END).await.map_err(TestCaseError::fail)?;
    prop_assert!(ended);
    let results = reader.messages.iter().filter(|m| m.is_result()).count();
    prop_assert_eq!(results, 1, "{:?}", reader.messages);
    prop_assert!(reader.messages.last().is_some_and(SdkMessage::is_result));
    prop_assert!(matches!(reader.messages[0], SdkMessage::System(_)));
    let polls = reader.polls;
    for again in 1..4 {
        let still = reader.read(polls + again).await;
        prop_assert_eq!(still, Ok(true), "the stream goes on after its end");
    }

    reader.polls = polls;
    Ok(())
}

/// Checks that the output of a run that has ended is valid, and returns it.
fn kept(plan: &Plan, run: Run) -> Checked<Option<RunOutput>> {
    let output = match run.into_output() {
        Ok(output) => output,
        Err(error) => match error.partial() {
            Some(output) => output.clone(),
            None => return Err(TestCaseError::fail(format!("no output: {error}"))),
        },
    };

    let spoken = output.messages.iter().any(|m| m.role() != Role::System);
    if output.state.pending.is_empty() && spoken {
        let valid = output.messages.validate_for_model();
        prop_assert!(
            valid.is_ok(),
            "{valid:?} in {} ({:?})",
            output.messages,
            plan.hooks
        );
    }

    Ok(Some(output))
}

/// Checks that the session is free, and that its history is valid and has all emitted messages.
async fn session_goes_on(world: &World, plan: &Plan, seen: &[SdkMessage]) -> TestCaseResult {
    prop_assert!(world.agent.handle(SESSION).is_none(), "a handle is left");
    world.script_is_over.store(true, Ordering::Relaxed);
    let output = world.plain.session(SESSION).run("and now?").await;
    let violations = world.strict.violations();
    prop_assert!(violations.is_empty(), "refused: {violations:?}");
    let output = match output {
        Ok(output) => output,
        Err(error) => return Err(TestCaseError::fail(format!("it does not go on: {error}"))),
    };

    prop_assert_eq!(output.end, ExitReason::EndTurn);
    prop_assert_eq!(output.text.as_str(), "done.");
    let valid = output.messages.validate_for_model();
    prop_assert!(valid.is_ok(), "{valid:?} in {}", output.messages);
    ran_once(world, &output.messages)?;
    shown_is_kept(plan, seen, &output.messages)
}

/// Checks that no call ran twice, and that no result denies that its call ran.
fn ran_once(world: &World, history: &Messages) -> TestCaseResult {
    let mut times: HashMap<&str, usize> = HashMap::new();
    let executed = world.executed.lock().unwrap();
    for id in executed.iter() {
        *times.entry(id).or_default() += 1;
    }

    prop_assert!(
        times.values().all(|times| *times == 1),
        "ran twice: {times:?}"
    );
    for result in history.iter().filter_map(|m| m.as_tool_result()) {
        let ran = times.contains_key(&*result.tool_call_id);
        let text = result.content.text();
        prop_assert!(!ran || !text.contains("did not run"), "it ran: {result:?}");
    }

    Ok(())
}

/// Checks that the history has every answer and every result that the stream emitted.
fn shown_is_kept(plan: &Plan, seen: &[SdkMessage], history: &Messages) -> TestCaseResult {
    let edits = |hook: &super::plan::HookPlan| hook.does == Does::AfterSpoils;
    if plan.hooks.iter().any(edits) {
        return Ok(());
    }

    for message in seen {
        match message {
            SdkMessage::Assistant(event) => {
                let text = event.text();
                let is_there = history
                    .iter()
                    .any(|message| message.text().contains(&*text));
                prop_assert!(is_there, "the answer {text:?} is gone: {history}");
            }
            SdkMessage::User(event) => {
                for result in event.messages.iter().filter_map(|m| m.as_tool_result()) {
                    let is_there = history.iter().any(|message| {
                        message.as_tool_result().is_some_and(|kept| {
                            kept.tool_call_id == result.tool_call_id
                                && kept.content == result.content
                        })
                    });

                    prop_assert!(is_there, "the result {result:?} is gone: {history}");
                }
            }
            _ => {}
        }
    }

    Ok(())
}

/// Checks that nothing holds the state of tools and hooks after the agents, even with `remaining`.
fn leaks_nothing<T>(world: World, remaining: T) -> TestCaseResult {
    let token = world.token.clone();
    drop(world);
    prop_assert_eq!(token.strong_count(), 0, "something is held in a circle");
    drop(remaining);
    Ok(())
}

/// Checks that the output of a run is the same whether its stream is collected or it is awaited.
pub fn awaited_equals_collected(plan: &Plan) -> TestCaseResult {
    fn essence(output: &RunOutput) -> impl PartialEq + std::fmt::Debug + use<> {
        (
            (
                output.text.clone(),
                output.messages.clone(),
                output.usage,
                output.turns,
            ),
            (output.end, output.cost, output.structured.clone()),
            (
                output.permission_denials.clone(),
                output.state.pending.len(),
            ),
        )
    }
    // An awaited run has no reader that answers questions.
    let mut plan = plan.clone();
    plan.replies = None;
    let collected = block_on(async {
        let world = World::new(&plan);
        let mut reader = Reader::new(begin(&world, &plan), &plan);
        reader.read(TO_THE_END).await.map_err(TestCaseError::fail)?;
        Ok::<_, TestCaseError>(reader.run.into_output())
    })?;
    let awaited = block_on(async { begin(&World::new(&plan), &plan).await });
    match (&collected, &awaited) {
        (Ok(collected), Ok(awaited)) => {
            prop_assert_eq!(essence(collected), essence(awaited));
        }
        (Err(collected), Err(awaited)) => {
            prop_assert_eq!(collected.to_string(), awaited.to_string());
            let essence = |error: &agentcore::Error| error.partial().map(essence);
            prop_assert_eq!(essence(collected), essence(awaited));
        }
        _ => prop_assert!(false, "{collected:?} is not {awaited:?}"),
    }
    Ok(())
}

/// Approves and denies the pending calls, and drops the resumed run after each number of polls.
pub fn resumed(plan: &Plan) -> TestCaseResult {
    let mut at = 0;
    loop {
        let more = block_on(async {
            let world = World::new(plan);
            let mut reader = Reader::new(begin(&world, plan), plan);
            end(&mut reader).await?;
            let Some(output) = kept(plan, reader.run)? else {
                return Ok(false);
            };

            let pending = &output.state.pending;
            if pending.is_empty() {
                return Ok(false);
            }

            let decisions: Vec<_> = pending
                .iter()
                .enumerate()
                .filter_map(|(index, call)| match index % 4 {
                    0 | 1 => Some(Decision::allow(call)),
                    2 => Some(Decision::deny(call, "no")),
                    _ => None,
                })
                .collect();
            let run = world.agent.session(SESSION).resume(decisions.clone());
            let mut second = Reader::new(run, plan);
            let ended = second.read(at).await.map_err(TestCaseError::fail)?;
            if ended {
                let resumed = kept(plan, second.run)?;

                // A run that failed before the decisions has not used them up.
                if resumed.is_some_and(|resumed| resumed.end != ExitReason::Error) {
                    let again = world.agent.session(SESSION).resume(decisions).await;
                    prop_assert!(again.is_err(), "decided twice: {again:?}");
                }
            } else {
                drop(second.run);

                // The resume of a dropped run may be repeated; calls still run once.
                let again = world.agent.session(SESSION).resume(decisions).await;
                drop(again);
            }

            let mut seen = reader.messages;
            seen.append(&mut second.messages);
            session_goes_on(&world, plan, &seen).await?;
            leaks_nothing(world, (reader.handle, second.handle))?;
            Ok::<_, TestCaseError>(!ended)
        })?;

        if !more {
            return Ok(());
        }

        at += 1;
    }
}
