//! Who answers: what is known about models.

mod catalog;
mod profile;

pub use catalog::Catalog;
pub use profile::{LongPrices, ModelProfile, Prices};
