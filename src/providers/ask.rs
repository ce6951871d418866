//! A request from its body to the events of the answer.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::Result;
use crate::model::ModelStream;

use super::decode::{Decoder, Framing, Reading, Wanted, decode};
use super::http::{Endpoint, Secrets};

/// Sends `body` to `endpoint`. `decoder` makes what reads the answer, of the request's id and what
/// must not appear in errors.
///
/// What waits for the answer holds nothing of the request but its body.
pub(crate) fn ask<'a, D: Decoder>(
    endpoint: &'a Endpoint,
    body: Bytes,
    framing: Framing,
    wanted: Wanted,
    decoder: impl FnOnce(Option<Arc<str>>, Secrets) -> D + Send + 'a,
) -> BoxFuture<'a, Result<ModelStream>> {
    Box::pin(async move {
        let reply = endpoint.post_stream(&body).await?;
        let secrets = endpoint.secrets().clone();
        let decoder = decoder(reply.request_id, secrets.clone());
        let reading = Reading {
            provider: endpoint.provider(),
            framing,
            wanted,
            secrets,
        };

        Ok(decode(reply.body, decoder, reading))
    })
}
