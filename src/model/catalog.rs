//! A catalog of model profiles.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use super::card::ModelCard;
use super::catalog_table::{Ending, ModelName, Table};
use super::date::Date;
use super::profile::ModelProfile;
use crate::error::{Error, ErrorKind, Result};
use crate::util::regular_file::read_text;

/// The built-in table; `data/README.md` has its source, license and format.
const BUILTIN: &str = include_str!("../../data/models.json");

/// The maximum size of a file with a table, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

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

impl Catalog {
    /// Creates a catalog without models.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the built-in catalog. It is read on first use; a clone shares the table.
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
    /// Returns [`ErrorKind::Config`] if the text is not such a table.
    pub fn from_json(text: &str) -> Result<Self> {
        let table: Table = serde_json::from_str(text).map_err(|error| {
            Error::new(ErrorKind::Config, format!("model table: {error}")).with_source(error)
        })?;
        Ok(Self {
            inserted: HashMap::new(),
            tables: vec![Arc::new(table)],
        })
    }

    /// Reads a table from a file, in the format that `data/README.md` describes. The call blocks
    /// until the file is read.
    ///
    /// ```no_run
    /// use agentcore::model::Catalog;
    ///
    /// let mut catalog = Catalog::builtin().clone();
    /// catalog.merge(Catalog::from_file("models.json")?);
    /// # Ok::<(), agentcore::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Config`], with the file's name, if it is not a regular file, cannot be
    /// read, is longer than 16 MiB or has no such table.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = read_text(path, MAX_BYTES).map_err(|error| {
            let text = format!("cannot read the model table {}: {error}", path.display());
            Error::new(ErrorKind::Config, text)
        })?;
        Self::from_json(&text).map_err(|error| error.context(path.display()))
    }

    /// Returns the date of the newest table of this catalog; `None` if no table has one.
    pub fn as_of(&self) -> Option<Date> {
        self.tables.iter().filter_map(|table| table.as_of()).max()
    }

    /// Returns all models of this catalog, sorted by id. The id of a table's model is
    /// `provider:model`; an inserted model has its id in lower case. If several tables contain a
    /// model, the entry of the table that takes precedence is returned. A model of a table has the
    /// profile that was inserted for it, as [`lookup`](Self::lookup) returns it.
    pub fn models(&self) -> Vec<ModelCard> {
        let mut profiles = BTreeMap::new();
        for table in &self.tables {
            profiles.extend(table.models());
        }

        for (id, profile) in &mut profiles {
            let name = ModelName::new(id).provider_and_id().map(|(_, name)| name);
            match name.and_then(|name| self.inserted.get(name)) {
                Some(inserted) => *profile = *inserted,
                None => profile.lifecycle = self.ending(id).map(|ending| ending.lifecycle),
            }
        }

        profiles.extend(self.inserted.iter().map(|(id, one)| (id.clone(), *one)));
        profiles
            .into_iter()
            .map(|(id, profile)| ModelCard::new(id, profile))
            .collect()
    }

    /// Adds one model, by its whole id or by the part after the provider's name, and replaces an
    /// earlier entry. [`lookup`](Self::lookup) finds it by exactly this id, except for case and a
    /// provider's name in front: an id with a date is another model.
    pub fn insert(&mut self, id: impl AsRef<str>, profile: ModelProfile) {
        self.inserted.insert(id.as_ref().to_lowercase(), profile);
    }

    /// Adds another catalog on top: where both contain a model, `other` takes precedence. Models
    /// that were [inserted](Self::insert) one by one still take precedence over every table. The
    /// dates of a model may be in another table than its prices.
    pub fn merge(&mut self, other: Self) {
        self.inserted.extend(other.inserted);
        self.tables.extend(other.tables);
    }

    /// Returns the profile of `model`.
    ///
    /// One provider's name in front (`anthropic:` or `anthropic/`) restricts the search to that
    /// provider. Upper and lower case are the same, and a date at the end (`-20250929`,
    /// `-2025-09-29`, `@20250929`) or `-latest` may be missing from the table. `None` means
    /// unknown, which is not the same as free.
    pub fn lookup(&self, model: &str) -> Option<ModelProfile> {
        let model = model.to_lowercase();
        let name = ModelName::new(&model);
        let mut ids = [Some(&*model), name.provider_and_id().map(|(_, id)| id)]
            .into_iter()
            .flatten();
        if let Some(profile) = ids.find_map(|id| self.inserted.get(id)) {
            return Some(*profile);
        }

        let mut profile = self
            .tables
            .iter()
            .rev()
            .find_map(|table| table.lookup(&name))?;
        profile.lifecycle = self.ending(&model).map(|ending| ending.lifecycle);
        Some(profile)
    }

    /// Returns the output limit of `model`, unless it is only assumed.
    #[cfg(feature = "http")]
    pub(crate) fn known_output_limit(&self, model: &str) -> Option<u32> {
        let model = model.to_lowercase();
        let name = ModelName::new(&model);
        let id = name.provider_and_id().map(|(_, id)| id);
        let mut ids = [Some(&*model), id].into_iter().flatten();
        if let Some(profile) = ids.find_map(|id| self.inserted.get(id)) {
            return Some(profile.max_output_tokens);
        }
        let mut tables = self.tables.iter().rev();
        let limit = tables.find_map(|table| table.max_output_tokens(&name));
        limit.flatten()
    }

    /// Returns the dates of `model`, and the model to use instead.
    pub(crate) fn ending(&self, model: &str) -> Option<&Ending> {
        let model = model.to_lowercase();
        let name = ModelName::new(&model);
        self.tables
            .iter()
            .rev()
            .find_map(|table| table.ending(&name))
    }
}

impl<I: AsRef<str>> Extend<(I, ModelProfile)> for Catalog {
    fn extend<T: IntoIterator<Item = (I, ModelProfile)>>(&mut self, models: T) {
        for (id, profile) in models {
            self.insert(id, profile);
        }
    }
}
