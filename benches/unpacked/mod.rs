//! Ratios of CPU time for answers as servers send them: each event in an HTTP chunk of its own.

use super::traffic::Server;
use super::{Kind, Meter, SCENARIOS, Scenario, count};

/// The number of rounds of a row. Each round measures both clients one after the other, so that
/// other load of the machine affects both.
const ROUNDS: usize = 7;

/// The names of the scenarios, and the bar of each ratio. The bars allow for noise.
const ROWS: [(&str, f64); 10] = [
    ("turn", 2.3),
    ("turn-responses", 2.3),
    ("turn-gemini", 2.3),
    ("tools", 1.8),
    ("tools-responses", 1.8),
    ("tools-gemini", 1.8),
    ("at-once-1000", 1.9),
    ("at-once-5000", 2.4),
    ("delta", 1.5),
    ("history", 1.5),
];

/// Prints the table, and marks ratios over their bar.
pub fn table(is_smoke: bool) {
    let rounds = if is_smoke { 1 } else { ROUNDS };
    if !is_smoke {
        println!("\nCPU time in µs, each event in an HTTP chunk of its own");
        println!("| what | ours: median of {rounds} (min to max) | bare | ratio | bar |");
    }

    for (name, bar) in ROWS {
        let mut scenarios = SCENARIOS.iter();
        let scenario = scenarios.find(|scenario| scenario.name == name).unwrap();
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (costs, who) in costs.iter_mut().zip(["ours", "bare"]) {
                costs.push(cost(who, scenario, is_smoke));
            }
        }

        if is_smoke {
            println!("{}, unpacked: works", scenario.what);
            continue;
        }

        let [ours, bare] = costs.map(Summary::of);
        let ratio = ours.median / bare.median;
        let mark = if ratio > bar { "over its bar" } else { "" };
        let what = scenario.what;
        println!("| {what:34} | {ours} | {bare} | {ratio:5.2} | {bar} | {mark}");
    }
}

/// Returns the CPU time of one unit, in nanoseconds. Turns with tools after a long history count as
/// a whole, because the whole request is encoded.
fn cost(who: &str, scenario: &Scenario, is_smoke: bool) -> f64 {
    let units = match scenario.kind {
        _ if is_smoke => scenario.units.div_ceil(100),
        // Enough units that the noise of starting a process does not matter.
        Kind::Turns { .. } | Kind::Tools | Kind::History => scenario.units.max(400),
        _ => scenario.units,
    };
    let measure = |units: usize| {
        let server = Server::start().unwrap();
        let address = format!("{}/unpacked", server.address());
        let args = [who, scenario.name, &units.to_string(), &address].map(str::to_owned);
        count(Meter::Cpu, &args) as f64
    };
    (measure(2 * units) - measure(units)) / units as f64
}

struct Summary {
    median: f64,
    min: f64,
    max: f64,
}

impl Summary {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self {
            median: values[values.len() / 2],
            min: values[0],
            max: values[values.len() - 1],
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, min, max] = [self.median, self.min, self.max].map(|nanos| nanos / 1e3);
        write!(f, "{median:7.1} ({min:.1} to {max:.1})")
    }
}
