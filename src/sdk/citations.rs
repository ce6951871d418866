//! Citations as the Messages API writes them.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::block::PROVIDER;
use crate::message::{Annotations, Citation, ProviderBlock};

/// The provider's fields of a text block.
#[derive(Deserialize)]
struct Fields {
    citations: Vec<Value>,
}

/// Returns the citations of a text: as they are if they came in this format, else each as the
/// result of a web search.
pub(crate) fn citation_values(annotations: &Annotations) -> Vec<Value> {
    let block = annotations.block.as_ref();
    let own_block = block.filter(|block| block.is_for(PROVIDER));
    let own_fields =
        own_block.and_then(|block| serde_json::from_str::<Fields>(block.raw.get()).ok());
    match own_fields {
        Some(fields) => fields.citations,
        None => annotations.citations.iter().map(search_result).collect(),
    }
}

fn search_result(citation: &Citation) -> Value {
    json!({
        "type": "web_search_result_location",
        "url": &*citation.url,
        "title": &*citation.title,
        "cited_text": &*citation.cited_text,
        "encrypted_index": "",
    })
}

/// Returns the annotations of a text with this list of citations; `None` if it is empty or not a
/// list.
pub(crate) fn annotations(list: &RawValue) -> Option<Annotations> {
    let values: Vec<Value> = serde_json::from_str(list.get()).ok()?;
    if values.is_empty() {
        return None;
    }

    let sources = values.iter().filter(|value| value.is_object()).map(source);
    let annotations = Annotations::new(sources);
    // A source of another provider has no index, and the API would refuse it.
    if values.iter().any(|value| value["encrypted_index"] == "") {
        return Some(annotations);
    }

    let fields = format!("{{\"citations\":{}}}", list.get());
    let block = ProviderBlock::new(PROVIDER, RawValue::from_string(fields).ok()?);
    Some(annotations.with_block(block))
}

/// Returns a citation of any type: pages and search results have a title, documents their own.
fn source(value: &Value) -> Citation {
    let text = |names: &[&str]| {
        let mut values = names.iter().filter_map(|name| value[name].as_str());
        values.next().unwrap_or_default()
    };

    Citation::new(text(&["url"]))
        .with_title(text(&["title", "document_title", "source"]))
        .with_cited_text(text(&["cited_text"]))
}
