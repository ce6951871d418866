//! The tools that are added to a gateway while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::error::Result;
use crate::tool::{Tool, ToolRegistry, ToolSource};
use crate::util::sync::lock;

/// The tools that are added to a gateway while it runs. Clones share them.
#[derive(Clone, Default)]
pub(super) struct RegisteredTools(Arc<Registered>);

#[derive(Default)]
struct Registered {
    tools: Mutex<ToolRegistry>,
    version: AtomicU64,
}

impl RegisteredTools {
    /// Adds a tool.
    pub(super) fn register(&self, tool: impl Tool) -> Result<()> {
        lock(&self.0.tools).register(tool)?;
        self.0.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    pub(super) fn names(&self) -> Vec<String> {
        let tools = lock(&self.0.tools);
        tools.names().iter().map(ToString::to_string).collect()
    }
}

#[async_trait]
impl ToolSource for RegisteredTools {
    fn name(&self) -> &str {
        "gateway"
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        Ok(lock(&self.0.tools).tools())
    }

    fn version(&self) -> Option<u64> {
        Some(self.0.version.load(Ordering::Acquire))
    }
}
