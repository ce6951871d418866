//! This crate against a bare client on the same traffic.
//!
//! `cargo bench` measures the CPU time, the memory and the connections of both clients and prints
//! their ratios. With `callgrind`, instructions are counted under valgrind, and a ratio over its
//! bar is a failure. Without `--bench`, as `cargo test --benches` starts it, every scenario runs
//! once, briefly, and nothing is measured. See `README.md`.
#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod bare;
mod ours;
mod traffic;
mod unpacked;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use agentcore::Messages;
use bare::Conversation;
use futures::future::join_all;
use traffic::{Dialect, Reply, Server};

const INPUT: &str = "What is the weather like in Lisbon this week?";

/// Work that both clients do `units` times.
struct Scenario {
    /// The name on the command line.
    name: &'static str,
    what: &'static str,
    dialect: Dialect,
    kind: Kind,
    /// The number of units of the shorter of the two measured runs; the longer one has twice as
    /// many.
    units: usize,
    bar: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Consecutive runs.
    Turns { partial: bool },
    /// One run with this many turns with tools.
    Tools,
    /// Turns with tools after a long history.
    History,
    /// One answer with this many deltas.
    Deltas { partial: bool },
    /// This many concurrent runs.
    AtOnce,
}

const fn scenario(
    name: &'static str,
    what: &'static str,
    dialect: Dialect,
    kind: Kind,
    units: usize,
    bar: f64,
) -> Scenario {
    Scenario {
        name,
        what,
        dialect,
        kind,
        units,
        bar,
    }
}

const SCENARIOS: &[Scenario] = &[
    scenario(
        "turn",
        "one streamed turn, Chat Completions",
        Dialect::OpenAi,
        Kind::Turns { partial: true },
        200,
        1.25,
    ),
    scenario(
        "turn-anthropic",
        "one streamed turn, Messages API",
        Dialect::Anthropic,
        Kind::Turns { partial: true },
        200,
        1.25,
    ),
    scenario(
        "turn-quiet",
        "one turn, Chat Completions, whole messages",
        Dialect::OpenAi,
        Kind::Turns { partial: false },
        200,
        1.25,
    ),
    scenario(
        "turn-anthropic-quiet",
        "one turn, Messages API, whole messages",
        Dialect::Anthropic,
        Kind::Turns { partial: false },
        200,
        1.25,
    ),
    scenario(
        "tools",
        "a turn with four tools, Chat Completions",
        Dialect::OpenAi,
        Kind::Tools,
        50,
        1.5,
    ),
    scenario(
        "tools-late",
        "a turn with four tools, turns 200 to 400",
        Dialect::OpenAi,
        Kind::Tools,
        200,
        1.5,
    ),
    scenario(
        "tools-anthropic",
        "a turn with four tools, Messages API",
        Dialect::Anthropic,
        Kind::Tools,
        50,
        1.5,
    ),
    scenario(
        "turn-responses",
        "one streamed turn, Responses API",
        Dialect::Responses,
        Kind::Turns { partial: true },
        200,
        1.25,
    ),
    scenario(
        "turn-responses-quiet",
        "one turn, Responses API, whole messages",
        Dialect::Responses,
        Kind::Turns { partial: false },
        200,
        1.25,
    ),
    scenario(
        "tools-responses",
        "a turn with four tools, Responses API",
        Dialect::Responses,
        Kind::Tools,
        50,
        1.5,
    ),
    scenario(
        "turn-gemini",
        "one streamed turn, Gemini API",
        Dialect::Gemini,
        Kind::Turns { partial: true },
        200,
        1.25,
    ),
    scenario(
        "turn-gemini-quiet",
        "one turn, Gemini API, whole messages",
        Dialect::Gemini,
        Kind::Turns { partial: false },
        200,
        1.25,
    ),
    scenario(
        "tools-gemini",
        "a turn with four tools, Gemini API",
        Dialect::Gemini,
        Kind::Tools,
        50,
        1.5,
    ),
    scenario(
        "history",
        "2 MB of history, Chat Completions",
        Dialect::OpenAi,
        Kind::History,
        20,
        5.0,
    ),
    scenario(
        "history-anthropic",
        "2 MB of history, Messages API",
        Dialect::Anthropic,
        Kind::History,
        20,
        5.0,
    ),
    scenario(
        "delta",
        "a delta, Chat Completions",
        Dialect::OpenAi,
        Kind::Deltas { partial: true },
        50_000,
        1.15,
    ),
    scenario(
        "delta-quiet",
        "a delta, Chat Completions, whole messages",
        Dialect::OpenAi,
        Kind::Deltas { partial: false },
        50_000,
        1.15,
    ),
    scenario(
        "delta-anthropic",
        "a delta, Messages API",
        Dialect::Anthropic,
        Kind::Deltas { partial: true },
        50_000,
        1.15,
    ),
    scenario(
        "delta-responses",
        "a delta, Responses API",
        Dialect::Responses,
        Kind::Deltas { partial: true },
        50_000,
        1.15,
    ),
    scenario(
        "delta-responses-quiet",
        "a delta, Responses API, whole messages",
        Dialect::Responses,
        Kind::Deltas { partial: false },
        50_000,
        1.15,
    ),
    scenario(
        "delta-gemini",
        "a delta, Gemini API",
        Dialect::Gemini,
        Kind::Deltas { partial: true },
        50_000,
        1.15,
    ),
    scenario(
        "delta-gemini-quiet",
        "a delta, Gemini API, whole messages",
        Dialect::Gemini,
        Kind::Deltas { partial: false },
        50_000,
        1.15,
    ),
    scenario(
        "at-once-1000",
        "one of 1,000 agents at once",
        Dialect::OpenAi,
        Kind::AtOnce,
        500,
        1.2,
    ),
    scenario(
        "at-once-5000",
        "one of 5,000 agents at once",
        Dialect::OpenAi,
        Kind::AtOnce,
        2_500,
        1.2,
    ),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => traffic::serve().unwrap(),
        ["ours" | "bare", name, units, address] => {
            let scenario = SCENARIOS
                .iter()
                .find(|s| s.name == name)
                .expect("a scenario");
            client(
                words[0] == "ours",
                scenario,
                units.parse().unwrap(),
                address,
            );
        }
        ["idle", who, api, reply, units, address] => {
            idle(
                who == "ours",
                dialect(api),
                reply.parse().unwrap(),
                units.parse().unwrap(),
                address,
            );
        }
        _ => table(&words),
    }
}

/// The wire formats, with their names in arguments and in the output.
const DIALECTS: [(&str, &str, Dialect); 2] = [
    ("chat", "Chat Completions", Dialect::OpenAi),
    ("messages", "Messages API", Dialect::Anthropic),
];

fn dialect(word: &str) -> Dialect {
    let entry = DIALECTS.iter().find(|(own, _, _)| *own == word);
    entry.expect("`chat` or `messages`").2
}

/// Returns a history of 2 MB: 2,000 messages of one kilobyte.
fn long_history() -> Vec<(&'static str, String)> {
    let text = "A sentence of a conversation that has gone on for \"quite\" some time. ".repeat(15);
    (0..2_000)
        .map(|number| {
            (
                ["user", "assistant"][number % 2],
                format!("{number}: {text}"),
            )
        })
        .collect()
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(future)
}

fn client(ours: bool, scenario: &Scenario, units: usize, address: &str) {
    let reply = match scenario.kind {
        Kind::Turns { .. } => Reply::Turn,
        Kind::Tools | Kind::History => Reply::Tools(units),
        Kind::Deltas { .. } => Reply::Deltas(units),
        Kind::AtOnce => Reply::Gate(units),
    };

    let base = format!("http://{address}/{reply}");
    let history = match scenario.kind {
        Kind::History => long_history(),
        _ => Vec::new(),
    };

    let tools = matches!(scenario.kind, Kind::Tools | Kind::History);
    let (runs, at_once) = match scenario.kind {
        Kind::Turns { .. } => (units, false),
        Kind::AtOnce => (units, true),
        _ => (1, false),
    };

    let turns = if ours {
        let partial = matches!(
            scenario.kind,
            Kind::Deltas { partial: true } | Kind::Turns { partial: true }
        );
        let agent = ours::agent(scenario.dialect, &base, tools, partial);
        let input = ours::history(&history, INPUT);
        let run = |agent: agentcore::Agent, input: Messages| async move {
            ours::read(agent.run(input)).await
        };

        block_on(repeat(runs, at_once, || run(agent.clone(), input.clone())))
    } else {
        let run = || {
            let mut conversation = Conversation::new(scenario.dialect, &base, &history, tools);
            async move { conversation.run(INPUT).await }
        };

        block_on(repeat(runs, at_once, run))
    };

    let expected = if tools { units + 1 } else { runs };
    assert_eq!(turns, expected);
    println!("{}", cpu_nanos());
}

/// Calls `run` `runs` times, and returns the number of turns.
async fn repeat<F>(runs: usize, at_once: bool, run: impl Fn() -> F) -> usize
where
    F: Future<Output = usize> + Send + 'static,
{
    if at_once {
        let tasks: Vec<_> = (0..runs).map(|_| tokio::spawn(run())).collect();
        return join_all(tasks).await.into_iter().map(Result::unwrap).sum();
    }
    let mut turns = 0;
    for _ in 0..runs {
        turns += run().await;
    }
    turns
}

/// Starts `units` agents that wait for a response, and prints the memory of the process.
fn idle(ours: bool, dialect: Dialect, reply: Reply, units: usize, address: &str) {
    let base = format!("http://{address}/{reply}");
    block_on(async {
        let agent = ours::agent(dialect, &base, false, false);
        for _ in 0..units {
            if ours {
                let run = agent.run(INPUT);
                tokio::spawn(async move { ours::read(run).await });
            } else {
                let mut conversation = Conversation::new(dialect, &base, &[], false);
                tokio::spawn(async move { conversation.run(INPUT).await });
            }

            tokio::task::yield_now().await;
        }

        tokio::time::sleep(Duration::from_millis(2_500)).await;
    });

    println!("{}", anonymous_bytes());
}

/// Returns the processor time of this process so far.
fn cpu_nanos() -> u64 {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// Returns the anonymous memory of this process. It excludes pages of the program's file, which the
/// kernel loads and drops at any time. The counters in `/proc/self/status` are not exact.
fn anonymous_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The measure of work.
#[derive(Clone, Copy, PartialEq)]
enum Meter {
    Cpu,
    Callgrind,
}

fn table(words: &[&str]) {
    let meter = if words.contains(&"callgrind") {
        Meter::Callgrind
    } else {
        Meter::Cpu
    };

    // `cargo bench` adds `--bench`; without it, this is a test of the scenarios.
    let smoke = meter == Meter::Cpu && !words.contains(&"--bench");
    let filter = |name: &str| {
        let mut names = words
            .iter()
            .filter(|w| !w.starts_with('-') && **w != "callgrind")
            .peekable();
        names.peek().is_none() || names.any(|start| name.starts_with(start))
    };

    let unit = if meter == Meter::Cpu {
        "ns"
    } else {
        "instructions"
    };

    if !smoke {
        println!(
            "| {:22} | {:41} | {:>12} | {:>12} | ratio | bar |  ({unit})",
            "name", "what", "ours", "bare"
        );
    }

    let mut over_bars = Vec::new();
    for scenario in SCENARIOS.iter().filter(|s| filter(s.name)) {
        let units = if smoke {
            scenario.units.div_ceil(100)
        } else {
            scenario.units
        };

        let mut both = [true, false].map(|ours| cost(meter, ours, scenario, units));
        if scenario.kind == Kind::History {
            let short = SCENARIOS
                .iter()
                .find(|s| s.kind == Kind::Tools && s.dialect == scenario.dialect)
                .unwrap();
            for (cost_of, ours) in both.iter_mut().zip([true, false]) {
                *cost_of -= cost(meter, ours, short, units);
            }
        }

        if smoke {
            // The numbers of so short a run are meaningless.
            println!("{}: works", scenario.name);
            continue;
        }

        let [ours, bare] = both;
        println!(
            "| {:22} | {:41} | {ours:12.0} | {bare:12.0} | {:5.2} | {} |",
            scenario.name,
            scenario.what,
            ours / bare,
            scenario.bar
        );
        if ours / bare > scenario.bar {
            over_bars.push(scenario.name);
        }
    }

    // CPU time depends on the load of the machine.
    if meter == Meter::Callgrind && !over_bars.is_empty() {
        eprintln!("over their bars: {}", over_bars.join(", "));
        std::process::exit(1);
    }

    if filter("idle") && meter == Meter::Cpu {
        let (units, rounds) = if smoke { (10, 1) } else { (1_000, 5) };
        idle_table(units, rounds);
    }

    if filter("unpacked") && meter == Meter::Cpu {
        unpacked::table(smoke);
    }

    if filter("connections") && meter == Meter::Cpu {
        connections(if smoke { 10 } else { 1_000 });
    }
}

/// Returns the cost of a unit: the difference between a run of twice the units and a run of the
/// units, per unit.
fn cost(meter: Meter, ours: bool, scenario: &Scenario, units: usize) -> f64 {
    let measure = |units: usize| {
        let server = Server::start().unwrap();
        let who = if ours { "ours" } else { "bare" };
        let args = [who, scenario.name, &units.to_string(), server.address()].map(str::to_owned);
        count(meter, &args) as f64
    };
    (measure(2 * units) - measure(units)) / units as f64
}

fn count(meter: Meter, args: &[String]) -> u64 {
    let exe = std::env::current_exe().unwrap();
    let mut command = match meter {
        Meter::Cpu => Command::new(exe),
        Meter::Callgrind => {
            let mut valgrind = Command::new("valgrind");
            valgrind
                .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
                .arg(exe);
            valgrind
        }
    };

    let output = command.args(args).stderr(Stdio::piped()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    let number = match meter {
        Meter::Cpu => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Meter::Callgrind => {
            let collected = errors
                .lines()
                .find_map(|line| line.split_once("Collected :"));
            collected
                .map(|(_, count)| count.trim().to_owned())
                .unwrap_or_default()
        }
    };

    number.parse().unwrap()
}

fn idle_table(units: usize, rounds: usize) {
    println!("\nmemory of an agent parked in a call, in bytes: the median of {rounds}");
    let moments = [
        ("before the answer", Reply::Silence),
        ("in the answer", Reply::Park),
    ];
    for (word, api, _) in DIALECTS {
        for (when, reply) in moments {
            let [ours, bare] = ["ours", "bare"].map(|who| {
                let measure = |units: usize| {
                    let server = Server::start().unwrap();
                    let (reply, units) = (reply.to_string(), units.to_string());
                    let args = ["idle", who, word, &reply, &units, server.address()];
                    count(Meter::Cpu, &args.map(str::to_owned)) as f64
                };

                let grown = || (measure(2 * units) - measure(units)) / units as f64;
                median((0..rounds).map(|_| grown()))
            });

            let what = format!("{api}, {when}");
            println!(
                "| {what:35} | ours {ours:8.0} | bare {bare:8.0} | ours alone {:8.0} |",
                ours - bare
            );
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn connections(units: usize) {
    println!("\nconnections");
    for (what, name) in [("one after the other", "turn"), ("at once", "at-once-1000")] {
        let scenario = SCENARIOS.iter().find(|s| s.name == name).unwrap();
        let server = Server::start().unwrap();
        let units = units.to_string();
        let args = ["ours", scenario.name, &units, server.address()].map(str::to_owned);
        count(Meter::Cpu, &args);
        println!(
            "| {what:20} | {} for {units} runs |",
            server.connections().unwrap()
        );
    }
}
