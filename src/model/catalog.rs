//! A catalog of model profiles.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use super::profile::{ModelProfile, Prices};
use crate::error::{Error, ErrorKind, Result};

/// The built-in table; `data/README.md` has its source, licence and format.
const BUILTIN: &str = include_str!("../../data/models.json");

/// Profiles of models, found by the ids that people and providers use for them.
///
/// ```
/// use agentcore::{Usage, model::{Catalog, ModelProfile}};
///
/// let mut catalog = Catalog::builtin().clone();
/// let sonnet = catalog.lookup("anthropic:claude-sonnet-5").expect("it is in the table");
/// assert_eq!(sonnet.context_window, 1_000_000);
/// assert!(catalog.lookup("my-model").is_none());
///
/// catalog.insert("my-model", ModelProfile::default().with_context_window(32_768));
/// assert_eq!(catalog.lookup("vllm:my-model").map(|profile| profile.context_window), Some(32_768));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    inserted: HashMap<String, ModelProfile>,
    /// The last table that contains a model takes precedence.
    tables: Vec<Arc<Table>>,
}

#[derive(Debug)]
struct Table {
    providers: Vec<Provider>,
}

#[derive(Debug)]
struct Provider {
    names: Vec<String>,
    /// Serves other makers' models: their ids mean it only where it is named.
    host: bool,
    models: Vec<(Vec<Pattern>, ModelProfile)>,
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
    /// The quality of the match: exact before partial, more text before less.
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

impl Catalog {
    /// Creates a catalog without models.
    pub fn new() -> Self {
        Self::default()
    }

    /// The built-in catalog. It is read on first use; a clone shares the table.
    pub fn builtin() -> &'static Self {
        static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
            Catalog::from_json(BUILTIN).expect("the table was read when the crate was tested")
        });
        &CATALOG
    }

    /// Reads a table in the format that `data/README.md` describes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the text is not such a table.
    pub fn from_json(text: &str) -> Result<Self> {
        let data: TableData = serde_json::from_str(text).map_err(|error| {
            Error::new(ErrorKind::Config, format!("model table: {error}")).with_source(error)
        })?;
        let providers = data.providers.into_iter().map(Provider::from).collect();
        Ok(Self {
            inserted: HashMap::new(),
            tables: vec![Arc::new(Table { providers })],
        })
    }

    /// Adds one model, by its whole id or by the part after the provider's name, and replaces an
    /// earlier entry.
    pub fn insert(&mut self, id: impl AsRef<str>, profile: ModelProfile) {
        self.inserted.insert(id.as_ref().to_lowercase(), profile);
    }

    /// Adds another catalog on top: where both contain a model, `other` takes precedence. Models
    /// that were [inserted](Self::insert) one by one still take precedence over every table.
    pub fn merge(&mut self, other: Self) {
        self.inserted.extend(other.inserted);
        self.tables.extend(other.tables);
    }

    /// The profile of `model`.
    ///
    /// One provider's name in front (`anthropic:` or `anthropic/`) restricts the search to that
    /// provider. Upper and lower case are the same, and a date at the end (`-20250929`,
    /// `-2025-09-29`, `@20250929`) or `-latest` may be missing from the table. `None` means
    /// unknown, which is not the same as free.
    pub fn lookup(&self, model: &str) -> Option<ModelProfile> {
        let model = model.to_lowercase();
        let provider_and_id = model.split_once([':', '/']);
        if let Some(profile) = self.inserted.get(&model) {
            return Some(*profile);
        }

        if let Some(profile) = provider_and_id.and_then(|(_, id)| self.inserted.get(id)) {
            return Some(*profile);
        }

        self.tables
            .iter()
            .rev()
            .find_map(|table| table.lookup(&model, provider_and_id))
    }
}

impl<I: AsRef<str>> Extend<(I, ModelProfile)> for Catalog {
    fn extend<T: IntoIterator<Item = (I, ModelProfile)>>(&mut self, models: T) {
        for (id, profile) in models {
            self.insert(id, profile);
        }
    }
}

impl Table {
    fn lookup(&self, model: &str, split: Option<(&str, &str)>) -> Option<ModelProfile> {
        let provider_match = split.and_then(|(name, id)| {
            let is_named = |provider: &&Provider| provider.names.iter().any(|own| own == name);
            Some((self.providers.iter().find(is_named)?, id))
        });
        match provider_match {
            Some((provider, id)) => best([provider], id),
            // The part before the colon is a provider that this table does not have, such as a
            // local server that runs an open model under its usual name.
            None if model.contains(':') => None,
            None => best(self.providers.iter().filter(|one| !one.host), model),
        }
    }
}

/// The profile whose pattern fits best; of equals, the first.
fn best<'a>(providers: impl IntoIterator<Item = &'a Provider>, id: &str) -> Option<ModelProfile> {
    let undated = undated(id);
    let mut best_match: Option<((u8, usize), ModelProfile)> = None;
    for (patterns, profile) in providers.into_iter().flat_map(|one| &one.models) {
        let score = patterns.iter().filter_map(|one| one.fit(id, undated)).max();
        if let Some(score) = score
            && best_match.is_none_or(|(other, _)| score > other)
        {
            best_match = Some((score, *profile));
        }
    }
    best_match.map(|(_, profile)| profile)
}

/// The id without a date or `-latest` at its end.
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
    providers: Vec<ProviderData>,
}

#[derive(Deserialize)]
struct ProviderData {
    id: String,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    host: bool,
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

impl From<ProviderData> for Provider {
    fn from(data: ProviderData) -> Self {
        let mut names = data.aliases;
        names.push(data.id);
        Self {
            names: names.iter().map(|name| name.to_lowercase()).collect(),
            host: data.host,
            models: data.models.into_iter().map(ModelData::into_model).collect(),
        }
    }
}

impl ModelData {
    fn into_model(self) -> (Vec<Pattern>, ModelProfile) {
        let defaults = ModelProfile::default();
        let mut patterns = self.patterns;
        if patterns.is_empty() {
            patterns.push(Pattern::Exact(self.id));
        }

        let profile = ModelProfile {
            context_window: self.context_window.unwrap_or(defaults.context_window),
            max_output_tokens: self.max_output_tokens.unwrap_or(defaults.max_output_tokens),
            prices: self.prices,
            images: self.images.unwrap_or(defaults.images),
            prompt_cache: self.prices.is_some_and(|one| one.cache_read != one.input),
        };

        (
            patterns.into_iter().map(Pattern::lowered).collect(),
            profile,
        )
    }
}
