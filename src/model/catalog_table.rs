//! A table of models, as a data file has it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use super::date::Date;
use super::lifecycle::Lifecycle;
use super::prices::Prices;
use super::profile::ModelProfile;

/// The models of some providers.
#[derive(Debug, Deserialize)]
#[serde(from = "TableData")]
pub(super) struct Table {
    as_of: Option<Date>,
    providers: Vec<Provider>,
}

#[derive(Debug)]
struct Provider {
    /// The first one is its id, the others are its aliases.
    names: Vec<String>,
    /// True if it serves the models of others. It is searched only for names that begin with its
    /// own.
    host: bool,
    models: Vec<Row>,
    /// By the ids of the models, in lower case.
    endings: HashMap<String, Ending>,
}

#[derive(Debug)]
struct Row {
    id: String,
    patterns: Vec<Pattern>,
    profile: ModelProfile,
    /// The limit in the file; the profile has an assumed one if this is `None`.
    #[cfg_attr(not(feature = "http"), expect(dead_code))]
    max_output_tokens: Option<u32>,
}

/// The dates of a model, and the model to use instead.
#[derive(Debug, Deserialize)]
pub(crate) struct Ending {
    #[serde(flatten)]
    pub(crate) lifecycle: Lifecycle,
    #[serde(rename = "use")]
    pub(crate) replacement: Option<Arc<str>>,
}

/// A model's name in lower case, with or without its provider's in front.
pub(super) struct ModelName<'a>(&'a str);

impl<'a> ModelName<'a> {
    /// Creates a name from a text in lower case.
    pub(super) fn new(text: &'a str) -> Self {
        Self(text)
    }

    /// Returns the parts before and after the first `:` or `/`.
    pub(super) fn provider_and_id(&self) -> Option<(&'a str, &'a str)> {
        self.0.split_once([':', '/'])
    }
}

impl Table {
    pub(super) fn as_of(&self) -> Option<Date> {
        self.as_of
    }

    /// Returns the models by `provider:id`, without their dates.
    pub(super) fn models(&self) -> impl Iterator<Item = (String, ModelProfile)> {
        self.providers.iter().flat_map(|provider| {
            let name = provider.names.first().map_or("", String::as_str);
            provider
                .models
                .iter()
                .map(move |row| (format!("{name}:{}", row.id), row.profile))
        })
    }

    /// Returns the profile of a model, without its dates.
    pub(super) fn lookup(&self, name: &ModelName<'_>) -> Option<ModelProfile> {
        Some(self.row(name)?.profile)
    }

    /// Returns the output limit that the file has for a model: `Some(None)` if it has the model
    /// without a limit.
    #[cfg(feature = "http")]
    pub(super) fn max_output_tokens(&self, name: &ModelName<'_>) -> Option<Option<u32>> {
        Some(self.row(name)?.max_output_tokens)
    }

    /// Returns the row whose pattern fits best; of equals, the first.
    fn row(&self, name: &ModelName<'_>) -> Option<&Row> {
        let (providers, id) = self.candidates(name);
        let undated = undated(id);
        let mut best_match: Option<((u8, usize), &Row)> = None;
        for row in providers.into_iter().flat_map(|provider| &provider.models) {
            let scores = row
                .patterns
                .iter()
                .filter_map(|pattern| pattern.fit(id, undated));
            if let Some(score) = scores.max()
                && best_match.is_none_or(|(other, _)| score > other)
            {
                best_match = Some((score, row));
            }
        }
        best_match.map(|(_, row)| row)
    }

    /// Returns the dates of a model: the dates for its exact id, else for its id without a date.
    pub(super) fn ending(&self, name: &ModelName<'_>) -> Option<&Ending> {
        let (providers, id) = self.candidates(name);
        [id, undated(id)].into_iter().find_map(|id| {
            let mut endings = providers
                .iter()
                .filter_map(|provider| provider.endings.get(id));
            endings.next()
        })
    }

    /// Returns the providers that may serve a model, and its id there.
    fn candidates<'a>(&self, name: &ModelName<'a>) -> (Vec<&Provider>, &'a str) {
        let named = name.provider_and_id().and_then(|(provider, id)| {
            let is_named = |one: &&Provider| one.names.iter().any(|own| own == provider);
            Some((vec![self.providers.iter().find(is_named)?], id))
        });
        match named {
            Some(candidates) => candidates,
            // The part before the colon is a provider that this table does not have, such as a
            // local server that runs an open model under its usual name.
            None if name.0.contains(':') => (Vec::new(), name.0),
            None => {
                let makers = self.providers.iter().filter(|provider| !provider.host);
                (makers.collect(), name.0)
            }
        }
    }
}

/// A pattern that matches model ids. All texts are in lower case.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Pattern {
    Exact(String),
    Prefix(String),
    Suffix(String),
    Contains(String),
}

impl Pattern {
    /// Returns the quality of the match: exact before partial, more text before less.
    fn fit(&self, id: &str, undated: &str) -> Option<(u8, usize)> {
        match self {
            Self::Exact(text) if id == text => Some((2, text.len())),
            Self::Exact(text) if undated == text => Some((1, text.len())),
            Self::Prefix(text) if id.starts_with(&**text) => Some((0, text.len())),
            Self::Suffix(text) if id.ends_with(&**text) => Some((0, text.len())),
            Self::Contains(text) if id.contains(&**text) => Some((0, text.len())),
            _ => None,
        }
    }

    fn lowered(self) -> Self {
        match self {
            Self::Exact(text) => Self::Exact(text.to_lowercase()),
            Self::Prefix(text) => Self::Prefix(text.to_lowercase()),
            Self::Suffix(text) => Self::Suffix(text.to_lowercase()),
            Self::Contains(text) => Self::Contains(text.to_lowercase()),
        }
    }
}

/// Returns the id without a date or `-latest` at its end.
fn undated(id: &str) -> &str {
    const SHAPES: [&str; 3] = ["-dddddddd", "@dddddddd", "-dddd-dd-dd"];
    let has_shape = |tail: &[u8], shape: &[u8]| {
        tail.iter().zip(shape).all(|(have, want)| match want {
            b'd' => have.is_ascii_digit(),
            _ => have == want,
        })
    };

    for shape in SHAPES {
        let Some(head) = id.len().checked_sub(shape.len()) else {
            continue;
        };

        // A matching tail is ASCII, so it starts at a character boundary.
        if has_shape(&id.as_bytes()[head..], shape.as_bytes()) {
            return &id[..head];
        }
    }

    id.strip_suffix("-latest").unwrap_or(id)
}

#[derive(Deserialize)]
struct TableData {
    as_of: Option<Date>,
    providers: Vec<ProviderData>,
}

#[derive(Deserialize)]
struct ProviderData {
    id: String,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    host: bool,
    #[serde(default)]
    lifecycle: HashMap<String, Ending>,
    #[serde(default)]
    models: Vec<ModelData>,
}

#[derive(Deserialize)]
struct ModelData {
    id: String,
    #[serde(default, rename = "match")]
    patterns: Vec<Pattern>,
    context_window: Option<u64>,
    max_output_tokens: Option<u32>,
    images: Option<bool>,
    prices: Option<Prices>,
}

impl From<TableData> for Table {
    fn from(data: TableData) -> Self {
        Self {
            as_of: data.as_of,
            providers: data.providers.into_iter().map(Provider::from).collect(),
        }
    }
}

impl From<ProviderData> for Provider {
    fn from(data: ProviderData) -> Self {
        let names = std::iter::once(data.id).chain(data.aliases);
        let endings = data.lifecycle.into_iter();
        Self {
            names: names.map(|name| name.to_lowercase()).collect(),
            host: data.host,
            models: data.models.into_iter().map(Row::from).collect(),
            endings: endings.map(|(id, one)| (id.to_lowercase(), one)).collect(),
        }
    }
}

impl From<ModelData> for Row {
    fn from(data: ModelData) -> Self {
        let defaults = ModelProfile::default();
        let mut patterns = data.patterns;
        if patterns.is_empty() {
            patterns.push(Pattern::Exact(data.id.clone()));
        }

        let profile = ModelProfile {
            context_window: data.context_window.unwrap_or(defaults.context_window),
            max_output_tokens: data.max_output_tokens.unwrap_or(defaults.max_output_tokens),
            prices: data.prices,
            images: data.images.unwrap_or(defaults.images),
            prompt_cache: data.prices.is_some_and(|one| one.cache_read != one.input),
            lifecycle: None,
        };

        Self {
            id: data.id.to_lowercase(),
            patterns: patterns.into_iter().map(Pattern::lowered).collect(),
            profile,
            max_output_tokens: data.max_output_tokens,
        }
    }
}
