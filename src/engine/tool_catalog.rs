//! The tools of a turn.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result};
use crate::run::RunContext;
use crate::tool::{Tool, ToolSource, TurnTools, check_tool};
use crate::util::panic;

use super::config::Config;

/// The tools of a run that hooks have registered and that sources have returned.
#[derive(Default)]
pub(super) struct ToolCatalog {
    hook_tools: Vec<Arc<dyn Tool>>,
    sources: Vec<SourceTools>,
    /// The warnings about the last tools.
    warnings: BTreeSet<String>,
}

/// The last tools of a source, and its version at that time.
#[derive(Default)]
struct SourceTools {
    version: Option<u64>,
    tools: Vec<Arc<dyn Tool>>,
}

impl ToolCatalog {
    /// Asks the sources and sets the tools of the turn again if one of them has answered. If a
    /// source fails, its last tools are used, with a warning.
    pub(super) async fn refresh(&mut self, config: &Config, cx: &RunContext) {
        if self.ask_sources(config, cx).await {
            self.set_turn_tools(config, cx);
        }
    }

    /// Sets the tools that hooks have registered.
    pub(super) fn set_hook_tools(&mut self, tools: Vec<Arc<dyn Tool>>) -> Result<()> {
        tools.iter().try_for_each(|tool| check_tool(tool))?;
        self.hook_tools = tools;
        Ok(())
    }

    /// Returns the names of the tools that the model is expected to see, sorted. Tools that hooks
    /// announce count as registered.
    pub(super) fn expected_names<'c>(&self, config: &'c Config) -> Cow<'c, [String]> {
        let disabled = &config.disabled_tools;
        let hooks = config.hooks.all.iter();
        let mut names: BTreeSet<_> = hooks
            .flat_map(|hook| hook.tools())
            .filter(|name| !disabled.contains(name.as_str()))
            .collect();
        if names.is_empty() && self.has_own_tools_only(&[]) {
            return Cow::Borrowed(&config.own_tools().names);
        }
        let (turn_tools, _) = self.turn_tools(config, &[]);
        names.extend(turn_tools.names().into_iter().map(str::to_owned));
        Cow::Owned(names.into_iter().collect())
    }

    /// Returns `true` if neither sources nor hooks add tools to those of the agent.
    fn has_own_tools_only(&self, hook_tools: &[Arc<dyn Tool>]) -> bool {
        let mut sources = self.sources.iter();
        hook_tools.is_empty() && sources.all(|source| source.tools.is_empty())
    }

    /// Sets the tools of the turn to those of the agent, the hooks and the sources. Emits the
    /// warnings about them, except those that were emitted for the last tools: a source without a
    /// version answers before each turn.
    pub(super) fn set_turn_tools(&mut self, config: &Config, cx: &RunContext) {
        let (turn_tools, warnings) = self.turn_tools(config, &self.hook_tools);
        let mut current_warnings = BTreeSet::new();
        for warning in warnings {
            if !self.warnings.contains(&warning) && !current_warnings.contains(&warning) {
                cx.warn(warning.as_str());
            }
            current_warnings.insert(warning);
        }
        self.warnings = current_warnings;
        cx.set_tools(turn_tools.or_earlier(&cx.tools()));
    }

    /// Returns the tools of the agent, of the sources and of `hook_tools`, and the warnings about
    /// them.
    fn turn_tools(
        &self,
        config: &Config,
        hook_tools: &[Arc<dyn Tool>],
    ) -> (TurnTools, Vec<String>) {
        if self.has_own_tools_only(hook_tools) {
            let own_tools = config.own_tools();
            return (own_tools.tools.clone(), own_tools.warnings.clone());
        }
        let sources = self.sources.iter();
        TurnTools::build(
            &config.tools,
            hook_tools,
            sources.flat_map(|source| source.tools.clone()).collect(),
            &config.disabled_tools,
        )
    }

    /// Asks the sources that may have changed, concurrently; returns `true` if any has answered.
    pub(super) async fn ask_sources(&mut self, config: &Config, cx: &RunContext) -> bool {
        if config.sources.is_empty() {
            return false;
        }
        self.sources
            .resize_with(config.sources.len(), SourceTools::default);
        let limit = config.limits.source_timeout;
        let sources = config.sources.iter().zip(&mut self.sources);
        let requests = sources.map(|(source, last_tools)| async move {
            let outcome = last_tools.update(&**source, limit).await;
            outcome.map_err(|error| {
                format!(
                    "tool source `{}` failed, its earlier tools stay: {error}",
                    source.name()
                )
            })
        });

        let mut has_answer = false;
        for outcome in join_all(requests).await {
            match outcome {
                Ok(is_updated) => has_answer |= is_updated,
                Err(warning) => cx.warn(warning),
            }
        }

        has_answer
    }
}

impl SourceTools {
    /// Requests the tools of the source, unless its version is that of these tools. Returns `true`
    /// if it has answered.
    ///
    /// # Errors
    ///
    /// Returns the error of the source, or an error if it panics or does not answer in time.
    async fn update(&mut self, source: &dyn ToolSource, limit: Duration) -> Result<bool> {
        let panicked = |text| Error::new(ErrorKind::Other, format!("it panicked: {text}"));
        let version = panic::catch(|| source.version()).map_err(panicked)?;
        if version.is_some() && version == self.version {
            return Ok(false);
        }

        // The call itself is inside the future, so that a panic before its first await is caught.
        let tools = match timeout(limit, panic::catch_async(async { source.tools().await })).await {
            Ok(outcome) => outcome.map_err(panicked)??,
            Err(_) => {
                let text = format!("it did not answer within {limit:?}");
                return Err(Error::new(ErrorKind::Other, text));
            }
        };
        *self = Self { version, tools };
        Ok(true)
    }
}
