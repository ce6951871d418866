//! Sources of tools that change during a run.

use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;

use super::tool::Tool;

/// A source of tools that may change during a run: a server that other programs register tools
/// with, or a peer that offers its own tools, such as an MCP server.
///
/// A run reads the tools when it begins and before each turn, so a new tool is callable in the next
/// turn and a removed tool is no longer offered. A call in progress still runs its tool to the end.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use agentcore::tool::{Tool, ToolRegistry, ToolSource};
/// use agentcore::{Result, async_trait};
///
/// struct Registered {
///     tools: std::sync::Mutex<ToolRegistry>,
///     changes: AtomicU64,
/// }
///
/// #[async_trait]
/// impl ToolSource for Registered {
///     fn name(&self) -> &str {
///         "registered"
///     }
///
///     async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
///         Ok(self.tools.lock().expect("no holder panics").tools())
///     }
///
///     fn version(&self) -> Option<u64> {
///         Some(self.changes.load(Ordering::Acquire))
///     }
/// }
/// ```
#[async_trait]
pub trait ToolSource: Send + Sync + 'static {
    /// Returns the source's name, for warnings.
    fn name(&self) -> &str;

    /// Returns the tools that the source offers now.
    ///
    /// # Errors
    ///
    /// Returns an error if the source cannot be reached. The run continues: the error is emitted as
    /// a warning, the earlier tools of the source stay, and the source is asked again before the
    /// next turn. A panic and a call that exceeds
    /// [`tool_source_timeout`](crate::AgentBuilder::tool_source_timeout) count as errors.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when its time is up, and when the run is dropped or stopped, for
    /// example by an interrupt.
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>>;

    /// Returns a number that changes whenever the tools change: they are read again only if it
    /// differs from the last one. It is called when a run begins and before each turn, and must be
    /// quick. Defaults to `None`: the tools are read each time. A panic counts as an error of
    /// [`tools`](Self::tools).
    fn version(&self) -> Option<u64> {
        None
    }
}

#[async_trait]
impl<T: ToolSource + ?Sized> ToolSource for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>> {
        (**self).tools().await
    }

    fn version(&self) -> Option<u64> {
        (**self).version()
    }
}
