//! The text that a hook prepares at a run's start and adds to each of its requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::Stability;
use crate::run::RunContext;
use crate::session::AgentState;

/// Texts by the name of the hook: a hook's instance serves many runs, so it keeps none itself.
#[derive(Clone, Debug, Default)]
struct Texts(BTreeMap<Arc<str>, Arc<str>>);

/// Stores the text of `hook` for this run.
pub(super) fn set_section(state: &mut AgentState, hook: &Arc<str>, text: String) {
    let earlier_texts = state.values.get::<Texts>();
    let mut texts = earlier_texts.as_deref().cloned().unwrap_or_default();
    texts.0.insert(hook.clone(), text.into());
    state.values.insert(texts);
}

/// Adds the stored text as a stable section of the system prompt.
pub(super) fn add_section(cx: &RunContext, hook: &Arc<str>) {
    let texts = cx.value::<Texts>();
    if let Some(text) = texts.as_ref().and_then(|texts| texts.0.get(hook)) {
        cx.system()
            .set(hook.clone(), text.clone(), Stability::Stable);
    }
}
