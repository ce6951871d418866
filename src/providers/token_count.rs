//! Counting the tokens of a request with a server.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::error::Result;

use super::http::Endpoint;

/// Returns the number of tokens of the request with this body, as the server at `url` counts them.
/// Only the fields in `counted` are sent. Returns `None` if the server has no such address.
///
/// # Errors
///
/// Returns the errors of the request, and an error if `body` is not a JSON object.
pub(super) async fn count_tokens(
    endpoint: &Endpoint,
    url: &str,
    body: Bytes,
    counted: &[&str],
) -> Result<Option<u64>> {
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_slice(&body)?;
    fields.retain(|name, _| counted.contains(&&**name));
    let counted_body = serde_json::to_vec(&fields)?;
    drop(body);
    let count = endpoint.ask_json(url, counted_body.into()).await?;
    Ok(count.and_then(|count| count.get("input_tokens")?.as_u64()))
}
