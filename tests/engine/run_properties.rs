//! Properties of every run, for any session, model, tools and hooks, and for any point at which the
//! reader stops.
//!
//! The cases are the same each time the tests run. These variables add more:
//!
//! * `AGENTCORE_PROPERTY_CASES=20000`: the number of cases of each property;
//! * `AGENTCORE_PROPERTY_SEED=7`: the seed of the cases.

use std::env;
use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

use crate::kit::effort;

mod check;
mod drive;
mod hooks;
mod plan;
mod trees;
mod world;

use drive::Ending;
use plan::{Plan, plan};

/// Checks `property` for `cases` cases, or for the number that the environment sets.
fn hold<S>(cases: u32, strategy: &S, property: impl Fn(S::Value) -> TestCaseResult)
where
    S: Strategy<Value: Debug>,
{
    let seed = env::var("AGENTCORE_PROPERTY_SEED").ok();
    let seed = seed.map_or(0, |text| text.parse::<u32>().unwrap());
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::with_cases(effort::cases(cases))
    };

    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(strategy, property) {
        panic!("{failure}");
    }
}

/// Returns about `how_many` numbers up to `last`, including both ends.
fn some(last: usize, how_many: usize) -> impl Iterator<Item = usize> {
    (0..=last)
        .step_by((last / how_many).max(1))
        .chain([last.saturating_sub(1), last])
}

#[test]
fn any_run_emits_one_result_and_leaves_a_usable_session() {
    hold(100, &plan(), |plan: Plan| {
        check::at_the_end(&plan)?;
        Ok(())
    });
}

#[test]
fn any_awaited_run_equals_the_collected_run() {
    hold(100, &plan(), |plan: Plan| {
        check::awaited_equals_collected(&plan)
    });
}

#[test]
fn run_dropped_at_any_poll_leaves_a_usable_session() {
    hold(12, &plan(), |plan: Plan| {
        let polls = check::polls(&plan)?;
        (0..=polls).try_for_each(|at| check::after(&plan, at, Ending::Drop))
    });
}

#[test]
fn run_stopped_or_steered_at_any_poll_leaves_a_usable_session() {
    hold(16, &plan(), |plan: Plan| {
        let polls = check::polls(&plan)?;
        for at in some(polls, 8) {
            check::after(&plan, at, Ending::Interrupt)?;
            check::after(&plan, at, Ending::Abort)?;
            check::after(&plan, at, Ending::Steer)?;
            check::after(&plan, at, Ending::Compact)?;
        }
        Ok(())
    });
}

#[test]
fn pending_calls_are_resumed_exactly_once() {
    hold(40, &plan(), |mut plan: Plan| {
        plan.park = true;
        plan.replies = None;
        check::resumed(&plan)
    });
}
