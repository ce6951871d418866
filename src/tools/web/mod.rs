//! Fetching pages and searching the internet.
