//! The copies of a large answer that a run makes when it ends. The test is a program of its own,
//! because it counts all allocations of the process.
#![allow(clippy::unwrap_used)]

use std::alloc::System;
use std::sync::{Arc, Mutex};

use agentcore::model::ModelStream;
use agentcore::testing::FunctionModel;
use agentcore::{
    AgentBuilder, Error, ErrorKind, ExitReason, ModelEvent, RunHandle, RunOutput, StopReason, Usage,
};
use futures::{StreamExt, stream};
use stats_alloc::{INSTRUMENTED_SYSTEM, Stats, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PIECE: usize = 64 * 1024;
const PIECES: usize = 256;
const ANSWER: usize = PIECE * PIECES;

/// The allocations when the last event of the last answer is read, and a handle to interrupt there.
#[derive(Clone, Default)]
struct Mark(Arc<Mutex<(Option<Stats>, Option<RunHandle>)>>);

impl Mark {
    fn set(&self) {
        let mut mark = self.0.lock().unwrap();
        mark.0 = Some(ALLOCATOR.stats());
        if let Some(handle) = &mark.1 {
            handle.interrupt();
        }
    }

    /// Returns the bytes allocated since the mark, in hundredths of the answer.
    fn allocated(&self) -> usize {
        let before = self.0.lock().unwrap().0.take().expect("the mark was set");
        let bytes = ALLOCATOR.stats().bytes_allocated - before.bytes_allocated;
        bytes * 100 / ANSWER
    }
}

/// A model that emits a large answer in pieces, sets the mark, and ends: with a stop reason for
/// each answer, or never.
fn model(mark: &Mark, ends: &'static [Option<StopReason>]) -> FunctionModel {
    let mark = mark.clone();
    let asked = Arc::new(Mutex::new(0));
    FunctionModel::stream(move |_| {
        let mark = mark.clone();
        let at = {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            *asked - 1
        };

        // Only the first answer is large.
        let pieces = if at == 0 { PIECES } else { 1 };
        let pieces = (0..pieces).map(|_| Ok(ModelEvent::Text("a".repeat(PIECE))));
        let last = stream::once(async move {
            mark.set();
            match ends[at].clone() {
                Some(reason) => Ok(ModelEvent::stop(reason)),
                None => Ok(ModelEvent::Usage(Usage::default())),
            }
        });

        let events = stream::iter(pieces).chain(last).chain(stream::pending());
        async { Ok::<ModelStream, Error>(events.boxed()) }
    })
}

fn run(builder: AgentBuilder, mark: &Mark, stops: bool) -> Result<RunOutput, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let run = builder.build().unwrap().run("Go");
        if stops {
            mark.0.lock().unwrap().1 = Some(run.handle());
        }
        run.await
    })
}

// A single test, because allocations of other tests at the same time would count too.
#[test]
fn end_of_a_run_copies_an_answer_once_for_each_owner() {
    // The history and the output each own a copy.
    for limited in [false, true] {
        let mark = Mark::default();
        let mut builder = AgentBuilder::new(model(&mark, &[None]));
        if limited {
            // A budget counts the partial answer.
            builder = builder.max_total_tokens(1_000_000_000);
        }

        let output = run(builder, &mark, true).unwrap();
        let allocated = mark.allocated();
        assert_eq!(output.end, ExitReason::Interrupted);
        assert_eq!(output.text.len(), ANSWER);
        assert!(allocated < 250, "interrupted: {allocated} %");
    }

    // The result message has a third copy of the text.
    let mark = Mark::default();
    let builder = AgentBuilder::new(model(&mark, &[Some(StopReason::EndTurn)]));
    let output = run(builder.max_total_tokens(1_000_000_000), &mark, false).unwrap();
    let allocated = mark.allocated();
    assert_eq!(output.text.len(), ANSWER);
    assert!(allocated < 350, "ended: {allocated} %");

    // A paused answer is shared with its reader, so that the rest is joined to a copy, and the run
    // returns the joined answer.
    let mark = Mark::default();
    let ends = &[Some(StopReason::PauseTurn), Some(StopReason::EndTurn)];
    let output = run(AgentBuilder::new(model(&mark, ends)), &mark, false).unwrap();
    let allocated = mark.allocated();
    assert_eq!(output.text.len(), ANSWER + PIECE);
    assert!(allocated < 475, "joined: {allocated} %");

    // An answer over the limit is kept up to it, as an interrupted one is.
    let mark = Mark::default();
    let limits = agentcore::model::ResponseLimits::default().with_max_bytes(ANSWER - PIECE / 2);
    mark.set();
    let builder = AgentBuilder::new(model(&mark, &[None])).response_limits(limits);
    let error = run(builder, &mark, false).unwrap_err();
    let allocated = mark.allocated();
    assert_eq!(error.kind(), ErrorKind::ResponseTooLarge);
    assert_eq!(error.partial().unwrap().text.len(), ANSWER - PIECE / 2);

    // The pieces, the text that grows from them, and the two copies.
    assert!(allocated < 550, "too large: {allocated} %");
}
