//! A conversation that outlives its process: it is continued, forked, exported, imported and
//! removed.
//!
//! ```sh
//! cargo run --example sessions --features jsonl
//! ```

use std::time::Duration;

use agentcore::session::JsonlStore;
use agentcore::testing::FunctionModel;
use agentcore::{Agent, BoxError, SessionStore};

/// Builds the agent, as each process would. It needs no key: its model only counts messages.
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

    // The next process continues the latest conversation of this directory.
    let agent = agent(&store)?;
    let latest = agent.latest_session().await?;
    let session = latest.ok_or("the store has no session of this directory")?;
    let output = session.clone().run("And by train?").await?;
    println!("continued: {} messages", output.messages.len());

    // The fork has the first two messages and another turn. The session itself stays as it is.
    let fork = session.fork_at("trip-by-boat", 2).await?;
    let output = fork.run("And by boat?").await?;
    println!("forked: {} messages", output.messages.len());

    // The JSON of a session serves for a backup, another store or another program.
    let json = store.export("trip").await?;
    store.import("copy", json.as_bytes()).await?;
    let copy = agent.session("copy").state().await?;
    let messages = copy.map_or(0, |state| state.messages.len());
    println!("imported: {messages} messages");

    // Removes the sessions that were last written that long ago, unless a run has leased them.
    let old_count = store.prune(Duration::from_secs(30 * 24 * 60 * 60)).await?;
    let removed_count = store.prune(Duration::ZERO).await?;
    println!("a month old: {old_count}; removed: {removed_count}");
    Ok(())
}
