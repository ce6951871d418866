//! Properties of every tree of subagents, for any behaviour and any end of the root.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::model::{ModelProfile, Prices};
use agentcore::sdk::SystemKind;
use agentcore::subagent::{SubagentDefinition, SubagentRegistry};
use agentcore::testing::FunctionModel;
use agentcore::{
    Agent, Error, ErrorKind, ModelEvent, ModelRequest, Result, SdkMessage, StopReason, ToolCall,
    UnfinishedTasks, Usage, tools,
};
use futures::StreamExt;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use tokio::time::sleep;

use super::hold;

/// The limit of the tokens of an answer.
const MAX_OUTPUT: u32 = 10;
/// The price of an output token, in dollars.
const PRICE: f64 = 0.001;

/// The behaviour of one agent of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Answers,
    Fails,
    Panics,
    Hangs,
}

#[derive(Clone, Debug)]
struct Node {
    act: Act,
    is_background: bool,
    children: Vec<Self>,
}

/// The end of the root run, after a number of messages.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Never,
    Interrupt(usize),
    Drop(usize),
}

#[derive(Clone, Debug)]
struct Plan {
    root: Node,
    depth: u32,
    count: u32,
    budget: Option<u32>,
    awaits: bool,
    stop: Stop,
}

fn node(children: impl Strategy<Value = Vec<Node>>) -> impl Strategy<Value = Node> {
    let act = prop_oneof![
        8 => Just(Act::Answers),
        1 => Just(Act::Fails),
        1 => Just(Act::Panics),
        1 => Just(Act::Hangs),
    ];
    (act, prop::bool::weighted(0.3), children).prop_map(|(act, is_background, children)| Node {
        act,
        is_background,
        children,
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let leaf = node(Just(Vec::new())).boxed();
    let tree = leaf.prop_recursive(4, 24, 6, |inner| node(vec(inner, 0..=6)).boxed());
    let root = vec(tree, 0..=6).prop_map(|children| Node {
        act: Act::Answers,
        is_background: false,
        children,
    });
    let stop = prop_oneof![
        2 => Just(Stop::Never),
        1 => (0..60_usize).prop_map(Stop::Interrupt),
        1 => (0..60_usize).prop_map(Stop::Drop),
    ];
    let budget = prop::option::weighted(0.5, 0..300_u32);
    (root, 0..=4_u32, 0..=30_u32, budget, any::<bool>(), stop).prop_map(
        |(root, depth, count, budget, awaits, stop)| Plan {
            root,
            depth,
            count,
            budget,
            awaits,
            stop,
        },
    )
}

/// The plan of a tree, and a record of its model calls.
#[derive(Default)]
struct World {
    nodes: BTreeMap<String, Node>,
    /// The paths of the agents that have called their model.
    seen: Mutex<BTreeSet<String>>,
    live: AtomicU64,
    most_live: AtomicU64,
    spent: AtomicU64,
}

impl World {
    fn of(root: &Node) -> Arc<Self> {
        let mut world = Self::default();
        let mut open = vec![("r".to_owned(), root)];
        while let Some((path, node)) = open.pop() {
            let children = node.children.iter().enumerate();
            open.extend(children.map(|(at, child)| (format!("{path}.{at}"), child)));
            world.nodes.insert(path, node.clone());
        }
        Arc::new(world)
    }
}

/// A model call in progress, which `World` counts.
struct Live(Arc<World>);

impl Live {
    fn begin(world: Arc<World>) -> Self {
        let now = world.live.fetch_add(1, Ordering::SeqCst) + 1;
        world.most_live.fetch_max(now, Ordering::SeqCst);
        Self(world)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answer(world: Arc<World>, request: ModelRequest) -> Result<Vec<Result<ModelEvent>>> {
    let _live = Live::begin(world.clone());
    let prompt = request.messages.user_messages().next();
    let path = prompt.map(|prompt| prompt.text().into_owned());
    let path = path.unwrap_or_default();
    world.seen.lock().unwrap().insert(path.clone());
    sleep(Duration::from_secs(1)).await;

    let node = &world.nodes[&path];
    let has_called = request.messages.tool_messages().next().is_some();
    let mut events = match node.act {
        Act::Fails => return Err(Error::new(ErrorKind::Auth, "no key")),
        Act::Panics => panic!("a model that panics"),
        Act::Hangs => std::future::pending().await,
        Act::Answers if has_called || node.children.is_empty() => {
            vec![Ok(ModelEvent::Text("done".into()))]
        }
        Act::Answers => calls(&path, node),
    };
    let output = u64::from(request.max_output_tokens.unwrap_or(MAX_OUTPUT));
    world.spent.fetch_add(output, Ordering::SeqCst);
    let reason = match &events[0] {
        Ok(ModelEvent::ToolCall(_)) => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    };
    events.push(Ok(ModelEvent::Usage(Usage::new(0, output))));
    events.push(Ok(ModelEvent::stop(reason)));
    Ok(events)
}

fn calls(path: &str, node: &Node) -> Vec<Result<ModelEvent>> {
    let children = node.children.iter().enumerate().map(|(at, child)| {
        let args = json!({
            "prompt": format!("{path}.{at}"),
            "description": "Work",
            "subagent_type": "worker",
            "run_in_background": child.is_background,
        });
        Ok(ModelEvent::ToolCall(ToolCall::new(
            format!("{path}.{at}"),
            "Task",
            args,
        )))
    });
    children.collect()
}

fn root(plan: &Plan, world: &Arc<World>) -> Agent {
    let mut registry = SubagentRegistry::new();
    let worker = SubagentDefinition::new("Works", "You work.").with_tools(["Task"]);
    registry.register("worker", worker).unwrap();
    let world = world.clone();
    let profile = ModelProfile::default()
        .with_prices(Prices::new(0.0, PRICE * 1e6))
        .with_max_output_tokens(MAX_OUTPUT);
    let model = FunctionModel::stream(move |request| {
        let events = answer(world.clone(), request);
        async move { Ok(futures::stream::iter(events.await?).boxed()) }
    });
    let mut builder = Agent::builder(model.with_profile(profile))
        .tools(tools::task(registry).build().unwrap())
        .max_subagent_depth(plan.depth)
        .max_subagents(plan.count)
        .max_output_tokens(MAX_OUTPUT)
        // Ends the trees with agents that hang.
        .max_duration(Duration::from_secs(10_000));
    if plan.awaits {
        builder = builder.unfinished_tasks(UnfinishedTasks::Await);
    }
    if let Some(tokens) = plan.budget {
        builder = builder.max_budget_usd(f64::from(tokens) * PRICE);
    }
    builder.build().unwrap()
}

/// Checks that every subagent that started ended once, and that there is one result.
fn check_stream(messages: &[SdkMessage]) -> std::result::Result<(), TestCaseError> {
    let (mut starts, mut ends, mut results) = (Vec::new(), Vec::new(), 0);
    for message in messages {
        match message {
            SdkMessage::Result(_) => results += 1,
            SdkMessage::System(event) => match &event.kind {
                SystemKind::TaskStarted(task) => starts.push(task.task_id.clone()),
                SystemKind::TaskNotification(task) => ends.push(task.task_id.clone()),
                _ => {}
            },
            _ => {}
        }
    }
    starts.sort();
    ends.sort();
    prop_assert_eq!(results, 1);
    prop_assert_eq!(starts, ends);
    Ok(())
}

async fn check(plan: &Plan) -> std::result::Result<(), TestCaseError> {
    let world = World::of(&plan.root);
    let mut run = root(plan, &world).session("s").run("r");
    let mut messages = Vec::new();
    let mut is_dropped = false;
    while let Some(message) = run.next().await {
        messages.push(message);
        match plan.stop {
            Stop::Interrupt(count) if messages.len() > count => run.handle().interrupt(),
            Stop::Drop(count) if messages.len() > count => {
                is_dropped = true;
                break;
            }
            _ => {}
        }
    }

    let limit = f64::from(plan.budget.unwrap_or(u32::MAX)) * PRICE + 1e-9;
    if is_dropped {
        drop(run);
    } else {
        check_stream(&messages)?;
        let output = run.into_output();
        let output = output.as_ref().map_err(|error| error.partial().unwrap());
        let cost = output.map_or_else(|partial| partial.cost, |output| output.cost);
        prop_assert!(cost.unwrap() <= limit, "{cost:?}");
    }

    sleep(Duration::from_millis(100)).await;
    prop_assert_eq!(world.live.load(Ordering::SeqCst), 0, "model calls are left");
    prop_assert!(world.most_live.load(Ordering::SeqCst) <= 16);
    prop_assert!(world.spent.load(Ordering::SeqCst) as f64 * PRICE <= limit);
    let seen = world.seen.lock().unwrap();
    let depth = |path: &String| path.matches('.').count();
    prop_assert!(
        seen.iter().all(|path| depth(path) <= plan.depth as usize),
        "{seen:?}"
    );
    let below = seen.iter().filter(|path| depth(path) > 0).count();
    prop_assert!(below <= plan.count as usize, "{seen:?}");
    Ok(())
}

#[test]
fn tree_of_subagents_keeps_the_limits_of_its_root() {
    hold(120, &plan(), |plan: Plan| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(check(&plan))
    });
}
