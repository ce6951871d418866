//! The sources of an answer that searched.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::message::Citation;

use super::super::lenient::{Count, List, Object, Text};

/// The sources so far, and the texts that they support.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Grounding<'a> {
    #[serde(borrow)]
    grounding_chunks: List<GroundingChunk<'a>>,
    #[serde(borrow)]
    grounding_supports: List<Support<'a>>,
    web_search_queries: List<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroundingChunk<'a> {
    #[serde(borrow)]
    web: Object<Web<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Web<'a> {
    #[serde(borrow)]
    uri: Text<'a>,
    #[serde(borrow)]
    title: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Support<'a> {
    #[serde(borrow)]
    segment: Object<Segment<'a>>,
    grounding_chunk_indices: List<Count>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Segment<'a> {
    #[serde(borrow)]
    text: Text<'a>,
}

impl Grounding<'_> {
    /// Returns the number of searches.
    pub(super) fn query_count(&self) -> usize {
        self.web_search_queries.0.len()
    }

    /// Returns one citation for each supported text and each of its sources, or one for each source
    /// if no text is named. A source without an address is omitted.
    pub(super) fn citations(&self) -> Vec<Citation> {
        let sources: Vec<_> = self
            .grounding_chunks
            .0
            .iter()
            .map(GroundingChunk::citation)
            .collect();
        if self.grounding_supports.0.is_empty() {
            return sources.into_iter().flatten().collect();
        }

        let mut citations = Vec::new();
        for support in &self.grounding_supports.0 {
            let segment = support.segment.0.as_ref();
            let text: Arc<str> = segment.map_or("", |segment| &*segment.text.0).into();
            for index in &support.grounding_chunk_indices.0 {
                let index = usize::try_from(index.get()).unwrap_or(usize::MAX);
                if let Some(Some(source)) = sources.get(index) {
                    citations.push(source.clone().with_cited_text(text.clone()));
                }
            }
        }

        citations
    }
}

impl GroundingChunk<'_> {
    fn citation(&self) -> Option<Citation> {
        let web = self.web.0.as_ref().filter(|web| !web.uri.is_empty())?;
        Some(Citation::new(&*web.uri.0).with_title(&*web.title.0))
    }
}
