//! A conversation that outlives its process: continued, forked, carried elsewhere, removed.
//!
//! ```sh
//! cargo run --example sessions --features jsonl
//! ```

use std::time::Duration;

use agentcore::session::JsonlStore;
use agentcore::testing::FunctionModel;
use agentcore::{Agent, BoxError, SessionStore};

/// An agent as each process would build it. Without a key, its model only counts.
fn agent(store: &JsonlStore) -> agentcore::Result<Agent> {
    let model = FunctionModel::text(|request| {
        let count = request.messages.len();
        format!("I have read {count} messages.")
    });
    Agent::builder(model)
        .store(store.clone())
        .cwd("/srv/travel")
        .build()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let store = JsonlStore::open(folder.path())?;
    agent(&store)?
        .session("trip")
        .run("Plan a trip to Oslo.")
        .await?;

    for info in store.list().await? {
        let title = info.title.as_deref().unwrap_or("-");
        println!("{}: {title} ({} messages)", info.id, info.messages);
    }

    // The next process continues the conversation of this directory that was written last.
    let agent = agent(&store)?;
    let latest = store.latest("/srv/travel").await?;
    let session = agent.session(latest.ok_or("there is none")?.id);
    let output = session.clone().run("And by train?").await?;
    println!("continued: {} messages", output.messages.len());

    // Another turn after the first two messages. The session itself stays as it is.
    let fork = session.fork_at("by boat", 2).await?;
    let output = fork.run("And by boat?").await?;
    println!("forked: {} messages", output.messages.len());

    // JSON, for a backup, another store or another program.
    let json = store.export("trip").await?;
    store.import("copy", json.as_bytes()).await?;
    let copy = agent.session("copy").state().await?;
    let messages = copy.map_or(0, |state| state.messages.len());
    println!("imported: {messages} messages");

    // Removes sessions that were not written for so long, unless a run holds them.
    let old_count = store.prune(Duration::from_secs(30 * 24 * 60 * 60)).await?;
    let removed_count = store.prune(Duration::ZERO).await?;
    println!("a month old: {old_count}; removed: {removed_count}");
    Ok(())
}
