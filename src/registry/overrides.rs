//! The hooks that a user has switched on or off.

use std::collections::BTreeMap;

use serde::Serialize;

/// The hooks of an instance that its user has enabled or disabled, overriding the template's
/// choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HookOverrides {
    /// The switched hooks by name: `true` for on, `false` for off.
    pub hooks: BTreeMap<String, bool>,
}

impl HookOverrides {
    /// Returns `true` if the hook is on: as the user switched it, else `is_on_in_template`.
    pub(super) fn is_on(&self, name: &str, is_on_in_template: bool) -> bool {
        self.hooks.get(name).copied().unwrap_or(is_on_in_template)
    }

    /// Switches hooks on and off.
    pub(super) fn switch(&mut self, enable: &[String], disable: &[String]) {
        let on = enable.iter().map(|name| (name.clone(), true));
        let off = disable.iter().map(|name| (name.clone(), false));
        self.hooks.extend(on.chain(off));
    }
}
