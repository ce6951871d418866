//! A hook that returns the state itself, not a `Result`.

use agentcore::hook;

fn main() {
    let _ = hook::before_agent("plain", |_cx, state| async move { state });
}
