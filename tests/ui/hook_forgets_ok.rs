//! A hook that returns the state itself, not a `Result`.

use agentcore::{AgentState, RunContext, hook};

async fn plain(_cx: RunContext, state: AgentState) -> AgentState {
    state
}

fn main() {
    let _ = hook::before_agent("plain", plain);
}
