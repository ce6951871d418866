//! What all runs of an agent have in common.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::message::TokenCounter;
use crate::tool::{Confirmer, Gates};
use crate::trace::TraceRecorder;

/// What the runs of an agent know of it, shared by all of them.
pub(crate) struct Setting {
    pub(crate) agent: Arc<str>,
    pub(crate) cwd: Option<Arc<str>>,
    pub(crate) backend: Option<Arc<dyn Backend>>,
    pub(crate) trace: Option<Arc<dyn TraceRecorder>>,
    /// What calls of a run have to pass when it begins.
    pub(crate) gates: Gates,
    pub(crate) confirmer: Option<Arc<dyn Confirmer>>,
    pub(crate) ask_timeout: Option<Duration>,
    pub(crate) counter: Arc<dyn TokenCounter>,
    /// Tools that need no question of the mode's.
    pub(crate) allowed_tools: BTreeSet<Arc<str>>,
}
