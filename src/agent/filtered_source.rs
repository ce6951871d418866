//! A source of tools that returns only some of them.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::tool::{Tool, ToolSource};

use super::allowed_tools::AllowedTools;

/// A source without the tools that are not allowed.
pub(super) struct FilteredSource {
    source: Arc<dyn ToolSource>,
    allowed: AllowedTools,
}

impl FilteredSource {
    pub(super) fn new(source: Arc<dyn ToolSource>, allowed: AllowedTools) -> Self {
        Self { source, allowed }
    }
}

#[async_trait]
impl ToolSource for FilteredSource {
    fn name(&self) -> &str {
        self.source.name()
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        let mut tools = self.source.tools().await?;
        tools.retain(|tool| self.allowed.allows(&**tool));
        Ok(tools)
    }

    fn version(&self) -> Option<u64> {
        self.source.version()
    }
}
