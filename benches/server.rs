//! The HTTP server: the latency that it adds to a run, requests per second, the memory of an idle
//! session, and the load of 1,000 readers of one run.
//!
//! There is no bench harness, because the readers are measured concurrently. With `--test`, each
//! part runs once with small numbers.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub
)]

mod http_client;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use agentcore::server::{RunLimits, Server, ServerHandle, ServerLimits};
use agentcore::session::JsonlStore;
use agentcore::testing::FunctionModel;
use agentcore::{AgentBuilder, ModelEvent, ModelStream, SessionStore, StopReason, ThreadStore};
use futures::future::join_all;
use futures::{StreamExt, stream};
use http_client::{Client, TOKEN};
use tokio::runtime::Runtime;

/// The parameters of a measurement.
struct Numbers {
    /// The number of runs whose median is used.
    runs: usize,
    connections: usize,
    requests: usize,
    sessions: usize,
    readers: usize,
    /// The number of measurements with a slow reader and without one, which alternate.
    rounds: usize,
    events: usize,
    /// The time between two events.
    pause: Duration,
}

impl Numbers {
    fn of_arguments() -> Self {
        if std::env::args().any(|argument| argument == "--test") {
            return Self {
                runs: 5,
                connections: 2,
                requests: 5,
                sessions: 10,
                readers: 10,
                rounds: 1,
                events: 20,
                pause: Duration::from_millis(2),
            };
        }
        Self {
            runs: 2_000,
            connections: 16,
            requests: 500,
            sessions: 2_000,
            readers: 1_000,
            rounds: 5,
            events: 1_000,
            pause: Duration::from_millis(20),
        }
    }
}

fn agent() -> AgentBuilder {
    AgentBuilder::new(FunctionModel::new(|_request| {
        vec![Ok(ModelEvent::Text("ok".into()))]
    }))
}

/// A server on a port of its own.
struct Running {
    address: std::net::SocketAddr,
    handle: ServerHandle,
}

async fn serve(agent: AgentBuilder, store: impl SessionStore, readers: usize) -> Running {
    let runs = RunLimits::default()
        .with_runs(256, 256)
        .with_readers_per_user(readers + 8);
    let server = Server::new()
        .agent("default", agent)
        .store(store)
        .limits(ServerLimits::default().with_runs(runs))
        .token(TOKEN)
        .port(0);
    let listening = server.listen().await.unwrap();
    let (address, handle) = (listening.address(), listening.handle());
    tokio::spawn(listening.serve(std::future::pending()));
    Running { address, handle }
}

fn runtime(threads: usize) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(threads)
        .enable_all()
        .build()
        .unwrap()
}

fn at(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

fn sorted(mut times: Vec<Duration>) -> Vec<Duration> {
    times.sort_unstable();
    times
}

/// Returns the resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_u64) * 4096
}

/// Prints the latency that the server adds to a run. Runs with and without it alternate, so that
/// other load of the machine affects both.
async fn latency(numbers: &Numbers) {
    let store = ThreadStore::new();
    let alone = agent().store(store.clone()).build().unwrap();
    let server = serve(agent(), store, 0).await;
    let mut client = Client::connect(server.address).await;
    let (mut direct, mut invoked, mut health) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..numbers.runs {
        let start = Instant::now();
        alone.new_session().run("Go").await.unwrap();
        direct.push(start.elapsed());
        let start = Instant::now();
        client.invoke(None).await;
        invoked.push(start.elapsed());
        let start = Instant::now();
        client.get("/healthz").await;
        health.push(start.elapsed());
    }
    let [direct, invoked, health] = [direct, invoked, health].map(sorted);
    println!(
        "a run in process {:?}, invoke {:?}, added {:?} (medians); a request without a run {:?}",
        at(&direct, 0.5),
        at(&invoked, 0.5),
        at(&invoked, 0.5).saturating_sub(at(&direct, 0.5)),
        at(&health, 0.5),
    );
    server.handle.shutdown(Duration::from_secs(1)).await;
}

async fn throughput(numbers: &Numbers) {
    let server = serve(agent(), ThreadStore::new(), 0).await;
    for path in ["/healthz", "/agents/invoke"] {
        let start = Instant::now();
        let clients = (0..numbers.connections).map(|_| async {
            let mut client = Client::connect(server.address).await;
            for _ in 0..numbers.requests {
                if path == "/healthz" {
                    client.get(path).await;
                } else {
                    client.invoke(None).await;
                }
            }
        });
        join_all(clients).await;
        let count = numbers.connections * numbers.requests;
        let rate = count as f64 / start.elapsed().as_secs_f64();
        println!(
            "{path}: {rate:.0} requests a second, {} connections",
            numbers.connections
        );
    }
    server.handle.shutdown(Duration::from_secs(1)).await;
}

/// Prints the memory of a session that has had one run and whose log of events was dropped.
async fn idle_sessions(numbers: &Numbers, name: &str, store: impl SessionStore) {
    let server = serve(agent(), store, 0).await;
    let mut client = Client::connect(server.address).await;
    // Fills the buffers, and the maximum number of logs and traces.
    for number in 0..numbers.sessions / 4 {
        client.invoke(Some(&format!("first_{number}"))).await;
    }
    let before = resident();
    for number in 0..numbers.sessions {
        client.invoke(Some(&format!("th_{number}"))).await;
    }
    let grown = resident().saturating_sub(before) as f64 / numbers.sessions as f64;
    println!("an idle session, {name}: {:.1} KiB", grown / 1024.0);
    server.handle.shutdown(Duration::from_secs(1)).await;
}

/// The times at which a model has emitted its pieces.
type Emissions = Arc<Vec<OnceLock<Instant>>>;

fn paced_model(emissions: Emissions, pause: Duration) -> FunctionModel {
    FunctionModel::stream(move |_request| {
        let emissions = emissions.clone();
        async move {
            // Waits until the readers are connected.
            tokio::time::sleep(Duration::from_secs(3)).await;
            let count = emissions.len();
            let pieces = stream::iter(0..count).then(move |number| {
                let emissions = emissions.clone();
                async move {
                    tokio::time::sleep(pause).await;
                    let _ = emissions[number].set(Instant::now());
                    Ok(ModelEvent::Text(format!("{number} ")))
                }
            });
            let end = stream::iter([Ok(ModelEvent::stop(StopReason::EndTurn))]);
            Ok::<ModelStream, _>(pieces.chain(end).boxed())
        }
    })
}

/// Measures all readers of one run, optionally with another one that reads one byte per second.
/// Returns the time of the run and the delay at the 99th percentile.
async fn load(numbers: &Numbers, has_slow_reader: bool) -> [Duration; 2] {
    let emissions: Emissions = Arc::new((0..numbers.events).map(|_| OnceLock::new()).collect());
    let agent = AgentBuilder::new(paced_model(emissions.clone(), numbers.pause));
    let server = serve(agent, ThreadStore::new(), numbers.readers).await;
    let mut first = Client::connect(server.address).await;
    first.begin_stream("th").await;
    let before = resident();
    let slow = has_slow_reader.then(|| tokio::spawn(http_client::read_slowly(server.address)));

    let readers = (0..numbers.readers).map(|_| {
        let emissions = emissions.clone();
        let address = server.address;
        tokio::spawn(async move {
            let mut client = Client::connect(address).await;
            client.follow("th", &emissions).await
        })
    });
    let readers: Vec<_> = readers.collect();
    let start = Instant::now();
    let mut delays = Vec::new();
    for reader in readers {
        let read = reader.await.unwrap();
        assert_eq!(read.len(), numbers.events, "a reader has missed events");
        delays.extend(read);
    }
    let time = start.elapsed();
    let grown = resident().saturating_sub(before);
    let delays = sorted(delays);
    println!(
        "{} readers, slow one: {has_slow_reader}: {:.1} s, delay median {:?}, p99 {:?}, {} MiB more \
         with the clients",
        numbers.readers,
        time.as_secs_f64(),
        at(&delays, 0.5),
        at(&delays, 0.99),
        grown / (1024 * 1024),
    );
    if let Some(slow) = slow {
        slow.abort();
    }
    server.handle.shutdown(Duration::from_secs(1)).await;
    [time, at(&delays, 0.99)]
}

/// Prints the effect of a slow reader: the ratios of the medians of all rounds with and without it.
async fn slow_reader(numbers: &Numbers) {
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..numbers.rounds {
        without.push(load(numbers, false).await);
        with.push(load(numbers, true).await);
    }
    let median = |rounds: &[[Duration; 2]], index: usize| {
        let times = rounds.iter().map(|round| round[index]);
        at(&sorted(times.collect()), 0.5).as_secs_f64()
    };
    let [time, delay] = [0, 1].map(|index| median(&with, index) / median(&without, index));
    println!(
        "a slow reader, medians of {} rounds: the run takes {time:.2} times as long, the delay at \
         the 99th percentile is {delay:.2} times as long (bar: 1.10)",
        numbers.rounds
    );
}

fn main() {
    let numbers = Numbers::of_arguments();
    runtime(1).block_on(latency(&numbers));
    runtime(2).block_on(async {
        throughput(&numbers).await;
        idle_sessions(&numbers, "in memory", ThreadStore::new()).await;
        let folder = tempfile::tempdir().unwrap();
        let files = JsonlStore::open(folder.path()).unwrap();
        idle_sessions(&numbers, "in files", files).await;
        slow_reader(&numbers).await;
    });
}
