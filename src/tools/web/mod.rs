//! The tools that fetch pages and search the internet.
//!
//! * [`WebFetch`], the tool `web_fetch`, with [`AddressPolicy`], which keeps it (and anything else
//!   that fetches URLs named by others) out of private networks.
//! * [`internet_search`], or under another name [`web_search`], over a [`SearchProvider`] such as
//!   [`Tavily`], [`Brave`] or, without a key, [`DuckDuckGo`].

mod brave;
mod document;
mod duckduckgo;
mod duckduckgo_page;
mod fetch;
#[cfg(test)]
mod fuzz;
mod guard;
mod kind;
mod markdown;
mod normalize;
mod render;
mod search;
mod search_service;
mod sink;
mod tavily;
mod tokens;
mod web_fetch;

pub use crate::net::{AddressPolicy, AddressRefused, Resolver, SystemResolver};
pub use brave::Brave;
pub use duckduckgo::DuckDuckGo;
pub use search::{SearchProvider, SearchResults, Source, internet_search, web_search};
pub use tavily::Tavily;
pub use web_fetch::WebFetch;
