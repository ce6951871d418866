//! The tools of a turn.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};
use crate::run::RunContext;
use crate::tool::{Tool, ToolMap, ToolSource, check_tool};
use crate::util::panic;

use super::config::Config;

/// The tools of a run: the hooks' and the sources', remembered from turn to turn.
#[derive(Default)]
pub(super) struct RunTools {
    hook_tools: Vec<Arc<dyn Tool>>,
    sources: Vec<SourceTools>,
    built: bool,
}

#[derive(Default)]
struct SourceTools {
    version: Option<u64>,
    tools: Vec<Arc<dyn Tool>>,
}

impl RunTools {
    pub(super) fn new(hook_tools: Vec<Arc<dyn Tool>>) -> Self {
        Self {
            hook_tools,
            ..Self::default()
        }
    }

    /// Makes the turn's snapshot. A source that fails keeps the tools it had, with a warning.
    pub(super) async fn refresh(&mut self, config: &Config, cx: &RunContext) -> Result<()> {
        let changed = self.ask_sources(config, cx).await;
        if self.built && !changed {
            return Ok(());
        }
        let source_tools = self.sources.iter().flat_map(|source| source.tools.clone());
        let (map, warnings) = ToolMap::build(
            &config.tools,
            &self.hook_tools,
            source_tools.collect(),
            &config.disabled_tools,
        );
        if !self.built {
            for tool in &self.hook_tools {
                check_tool(tool)?;
            }
        }
        self.built = true;
        warnings.into_iter().for_each(|warning| cx.warn(warning));
        cx.set_tools(map.or_earlier(&cx.tools()));
        Ok(())
    }

    /// Asks the sources that may have changed, side by side; returns `true` if any has answered.
    async fn ask_sources(&mut self, config: &Config, cx: &RunContext) -> bool {
        self.sources
            .resize_with(config.sources.len(), SourceTools::default);
        let is_built = self.built;
        let limit = config.limits.source_timeout;
        let asked = config.sources.iter().zip(&mut self.sources);
        let asked = asked.filter_map(|(source, known)| {
            let version = source.version();
            let is_known = is_built && version.is_some() && version == known.version;
            (!is_known).then_some(async move {
                match ask(&**source, limit).await {
                    Ok(tools) => {
                        *known = SourceTools { version, tools };
                        Ok(())
                    }
                    Err(error) => Err(format!(
                        "tool source `{}` failed, its earlier tools stay: {error}",
                        source.name()
                    )),
                }
            })
        });
        let mut has_changed = false;
        for answer in join_all(asked).await {
            match answer {
                Ok(()) => has_changed = true,
                Err(warning) => cx.warn(warning),
            }
        }
        has_changed
    }
}

/// Asks a source. One that panics, or does not answer in time, has failed.
async fn ask(source: &dyn ToolSource, limit: Duration) -> Result<Vec<Arc<dyn Tool>>> {
    let failed = |text| Err(Error::new(ErrorKind::Other, text));
    // The call itself is inside the future, so that a panic before its first await is caught.
    match timeout(limit, panic::caught(async { source.tools().await })).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(text)) => failed(format!("it panicked: {text}")),
        Err(_) => failed(format!("it did not answer within {limit:?}")),
    }
}
