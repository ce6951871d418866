//! A hook type whose `impl` lacks `#[async_trait]`.

use agentcore::{Hook, Messages, Result, RunContext};

struct Plain;

impl Hook for Plain {
    fn name(&self) -> &str {
        "plain"
    }

    async fn modify_request(&self, _cx: &RunContext, messages: Messages) -> Result<Messages> {
        Ok(messages)
    }
}

fn main() {}
