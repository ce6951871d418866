//! The model under which the usage of a call is recorded.

use std::sync::Arc;

use super::catalog::Catalog;
use super::profile::ModelProfile;

/// The id and the profile of a model, for the records and the cost of its calls.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelCard {
    /// The provider and the name, such as `anthropic:claude-sonnet-5`.
    pub id: Arc<str>,
    /// The limits, prices and abilities.
    pub profile: ModelProfile,
}

impl ModelCard {
    /// Creates the card of the model `id`.
    pub fn new(id: impl Into<Arc<str>>, profile: ModelProfile) -> Self {
        Self {
            id: id.into(),
            profile,
        }
    }

    /// Creates the card of the model `id`, whose profile is `own`, or with a `name` the card of the
    /// model of that name at the same provider.
    pub(crate) fn of(id: &str, own: &ModelProfile, name: Option<&str>) -> Self {
        let Some(name) = name else {
            return Self::new(id, *own);
        };

        let (provider, model) = id.split_once(':').unwrap_or(("", id));
        if name == model {
            return Self::new(id, *own);
        }

        let id = match provider {
            "" => name.to_owned(),
            provider => format!("{provider}:{name}"),
        };
        let profile = Catalog::builtin()
            .lookup(&id)
            .unwrap_or_else(|| ModelProfile::assumed(&id));
        Self::new(id, profile)
    }
}
