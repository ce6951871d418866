//! A source of tools that returns only some of them.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::tool::{Tool, ToolSource};

/// A source without the tools for which `allows` returns `false`. `allows` receives the name of a
/// tool, and `true` if the tool starts agents.
pub(super) struct RetainedSource<F> {
    source: Arc<dyn ToolSource>,
    allows: F,
}

impl<F: Fn(&str, bool) -> bool> RetainedSource<F> {
    pub(super) fn new(source: Arc<dyn ToolSource>, allows: F) -> Self {
        Self { source, allows }
    }
}

#[async_trait]
impl<F: Fn(&str, bool) -> bool + Send + Sync + 'static> ToolSource for RetainedSource<F> {
    fn name(&self) -> &str {
        self.source.name()
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        let mut tools = self.source.tools().await?;
        tools.retain(|tool| (self.allows)(tool.name(), tool.starts_agents()));
        Ok(tools)
    }

    fn version(&self) -> Option<u64> {
        self.source.version()
    }
}
