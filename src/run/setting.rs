//! The settings shared by all runs of an agent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::message::TokenCounter;
use crate::tool::{Confirmer, Gates};
use crate::trace::TraceRecorder;

/// The agent's settings that its runs read, shared by all of them.
pub(crate) struct Setting {
    pub(crate) agent: Arc<str>,
    pub(crate) cwd: Option<Arc<str>>,
    pub(crate) backend: Option<Arc<dyn Backend>>,
    pub(crate) trace: Option<Arc<dyn TraceRecorder>>,
    /// The gates that calls of a run have to pass at its beginning.
    pub(crate) gates: Gates,
    pub(crate) confirmer: Option<Arc<dyn Confirmer>>,
    pub(crate) ask_timeout: Option<Duration>,
    pub(crate) counter: Arc<dyn TokenCounter>,
    /// Tools that need no question of the mode's.
    pub(crate) allowed_tools: BTreeSet<Arc<str>>,
}
