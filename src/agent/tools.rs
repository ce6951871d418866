//! The tools of a turn.

use std::sync::Arc;

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

    async fn ask_sources(&mut self, config: &Config, cx: &RunContext) -> bool {
        self.sources
            .resize_with(config.sources.len(), SourceTools::default);
        let mut changed = false;
        for (source, known) in config.sources.iter().zip(&mut self.sources) {
            let version = source.version();
            if self.built && version.is_some() && version == known.version {
                continue;
            }
            match ask(&**source).await {
                Ok(tools) => {
                    known.version = version;
                    known.tools = tools;
                    changed = true;
                }
                Err(error) => cx.warn(format!(
                    "tool source `{}` failed, its earlier tools stay: {error}",
                    source.name()
                )),
            }
        }
        changed
    }
}

/// Asks a source. One that panics has failed.
async fn ask(source: &dyn ToolSource) -> Result<Vec<Arc<dyn Tool>>> {
    let asking = panic::caught(async { source.tools().await });
    asking
        .await
        .unwrap_or_else(|text| Err(Error::new(ErrorKind::Other, format!("it panicked: {text}"))))
}
