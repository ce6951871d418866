//! Sending a request and decoding the events of its answer.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};

use crate::error::{Error, ErrorKind, Result};
use crate::model::{ModelEvent, ModelStream};
use crate::util::blocking::blocking_if_large;

use super::decode::{DecodeOptions, Decoding, EventOptions, Framing};
use super::decoder::Decoder;
use super::http::{Endpoint, Reply, Secrets};

/// A second body for a refused request, and the warning about it.
pub(crate) struct Remedy {
    pub(crate) body: Bytes,
    pub(crate) warning: String,
}

/// A function that creates a second body from an error and the refused body, if another attempt may
/// succeed.
pub(crate) type MakeRemedy = Box<dyn FnOnce(&Error, &[u8]) -> Option<Remedy> + Send>;

/// The parts of a request that are the same for all providers.
pub(crate) struct ProviderRequest<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) body: Bytes,
    pub(crate) framing: Framing,
    pub(crate) event_options: EventOptions,
    /// The warnings about the request. They are emitted after the answer's first event.
    pub(crate) warnings: Vec<String>,
    /// The maximum length of a body, in bytes. A longer one is not sent.
    pub(crate) max_body: usize,
    /// Called at most once, if the answer is an [`ErrorKind::InvalidRequest`] or begins with one.
    pub(crate) remedy: Option<MakeRemedy>,
}

/// Sends a request. `decoder` creates the answer's decoder from the request's id and the texts that
/// must not appear in errors. If there may be a remedy, the future waits for the first event: a
/// server may refuse a request in the stream, too.
///
/// The future does not hold the [`ModelRequest`](crate::model::ModelRequest), only its body.
///
/// # Errors
///
/// Returns [`ErrorKind::RequestTooLarge`] for a body that is too long, and the errors of
/// [`Endpoint::post_stream`].
pub(crate) fn send_request<'a, D: Decoder>(
    request: ProviderRequest<'a>,
    decoder: impl FnOnce(Option<Arc<str>>, Secrets) -> D + Clone + Send + 'a,
) -> BoxFuture<'a, Result<ModelStream>> {
    Box::pin(async move {
        let ProviderRequest {
            endpoint,
            body,
            framing,
            event_options,
            mut warnings,
            max_body,
            mut remedy,
        } = request;
        check_size(&body, max_body).map_err(|e| e.context(endpoint.provider()))?;
        let reply = match endpoint.post_stream(&body).await {
            Err(error) => {
                let remedy = remedy_for(error, &body, remedy.take()).await?;
                warnings.push(remedy.warning);
                endpoint.post_stream(&remedy.body).await?
            }
            Ok(reply) => reply,
        };
        // Without a remedy, or after its use, no other body is sent.
        let Some(make_remedy) = remedy else {
            let answer = decoding(endpoint, reply, framing, event_options, decoder);
            return Ok(with_warnings(answer.boxed(), warnings));
        };

        let options = event_options.clone();
        let mut answer = decoding(endpoint, reply, framing, options, decoder.clone());
        if let Some(error) = answer.early_refusal().await {
            match remedy_for(error, &body, Some(make_remedy)).await {
                Ok(remedy) => {
                    warnings.push(remedy.warning);
                    let reply = endpoint.post_stream(&remedy.body).await?;
                    answer = decoding(endpoint, reply, framing, event_options, decoder);
                }
                Err(error) => answer.fail(error),
            }
        }
        Ok(with_warnings(answer.boxed(), warnings))
    })
}

/// Returns the events of an answer that has begun.
fn decoding<D: Decoder>(
    endpoint: &Endpoint,
    reply: Reply,
    framing: Framing,
    event_options: EventOptions,
    decoder: impl FnOnce(Option<Arc<str>>, Secrets) -> D,
) -> Decoding<D> {
    let secrets = endpoint.secrets().clone();
    let decoder = decoder(reply.request_id, secrets.clone());
    let options = DecodeOptions {
        provider: endpoint.provider().clone(),
        framing,
        event_options,
        secrets,
    };
    Decoding::new(reply.body, decoder, options)
}

/// Checks that the server takes a body of this length.
fn check_size(body: &Bytes, max_body: usize) -> Result<()> {
    if body.len() <= max_body {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::RequestTooLarge,
        format!(
            "the request has {} bytes and the API takes {max_body}; send fewer or smaller files",
            body.len()
        ),
    ))
}

/// Returns the remedy for a refused request, or `error` if there is none. A long body is changed on
/// a thread for blocking work.
async fn remedy_for(error: Error, body: &Bytes, make_remedy: Option<MakeRemedy>) -> Result<Remedy> {
    let is_refusal = error.kind() == ErrorKind::InvalidRequest;
    let Some(make_remedy) = make_remedy.filter(|_| is_refusal) else {
        return Err(error);
    };
    let body = body.clone();
    let len = body.len();
    blocking_if_large(len, move || make_remedy(&error, &body).ok_or(error)).await?
}

/// Returns the events of an answer with these warnings after the first.
fn with_warnings(events: ModelStream, mut warnings: Vec<String>) -> ModelStream {
    if warnings.is_empty() {
        return events;
    }

    let events = events.flat_map(move |event| {
        let warnings = match &event {
            Ok(_) => mem::take(&mut warnings),
            Err(_) => Vec::new(),
        };
        let warnings = warnings.into_iter().map(ModelEvent::Warning).map(Ok);
        stream::iter([event].into_iter().chain(warnings))
    });
    events.boxed()
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::super::decoder::truncated;
    use super::super::events::Events;
    use super::super::status;
    use super::*;
    use crate::model::{ModelRequest, StopReason};
    use crate::testing::{FaultServer, Reply};

    /// Reads one line, the text of the answer.
    #[derive(Default)]
    struct OneLine {
        is_done: bool,
    }

    impl Decoder for OneLine {
        fn frame(&mut self, _: &str, data: &str, out: &mut Events) -> Result<()> {
            if data.starts_with('{') {
                return Err(status::from_event(data, &Secrets::default()));
            }
            out.push(ModelEvent::Start(Box::default()));
            out.push_text(data);
            out.push(ModelEvent::stop(StopReason::EndTurn));
            self.is_done = true;
            Ok(())
        }

        fn document(&mut self, _: &str, _: &mut Events) -> Result<()> {
            Err(truncated())
        }

        fn finish(&mut self, _: &mut Events) -> Result<()> {
            Err(truncated())
        }

        fn is_done(&self) -> bool {
            self.is_done
        }
    }

    const REFUSED: &str = r#"{"error":{"message":"invalid signature"}}"#;

    fn answer() -> Reply {
        Reply::ndjson(["hello"])
    }

    /// Returns a remedy for refused signatures.
    fn remedy() -> MakeRemedy {
        Box::new(|error, body| {
            let is_signature = error.text().contains("signature") && body == b"first";
            is_signature.then(|| Remedy {
                body: Bytes::from("second"),
                warning: "the reasoning was left out".to_owned(),
            })
        })
    }

    /// The events after `body` was sent with these warnings.
    async fn events(
        server: &FaultServer,
        body: &'static str,
        warnings: &[&str],
        remedy: Option<MakeRemedy>,
    ) -> Result<Vec<ModelEvent>> {
        let endpoint = Endpoint::new("test", &server.url(), "/");
        let provider_request = ProviderRequest {
            endpoint: &endpoint,
            body: Bytes::from(body),
            framing: Framing::Lines,
            event_options: EventOptions::of(&ModelRequest::new("x")),
            warnings: warnings.iter().map(ToString::to_string).collect(),
            max_body: 10,
            remedy,
        };
        let stream = send_request(provider_request, |_, _| OneLine::default()).await?;
        stream.try_collect().await
    }

    fn bodies(server: &FaultServer) -> Vec<Bytes> {
        server.requests().into_iter().map(|one| one.body).collect()
    }

    fn answered_with(warnings: &[&str]) -> Vec<ModelEvent> {
        let warnings = warnings
            .iter()
            .map(|text| ModelEvent::Warning(text.to_string()));
        let mut events = vec![ModelEvent::Start(Box::default())];
        events.extend(warnings);
        events.push(ModelEvent::Text("hello".to_owned()));
        events.push(ModelEvent::stop(StopReason::EndTurn));
        events
    }

    #[tokio::test]
    async fn body_beyond_the_limit_is_not_sent() {
        let server = FaultServer::start().await.unwrap();
        server.fallback(answer());
        assert!(events(&server, "0123456789", &[], None).await.is_ok());
        let error = events(&server, "0123456789a", &[], None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RequestTooLarge);
        assert!(
            error.text().starts_with("test: the request has 11 bytes"),
            "{error}"
        );
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn warnings_follow_the_start() {
        let server = FaultServer::start().await.unwrap();
        server.fallback(answer());
        let events = events(&server, "first", &["one", "two"], Some(remedy())).await;
        assert_eq!(events.unwrap(), answered_with(&["one", "two"]));
        assert_eq!(bodies(&server), ["first"]);
    }

    #[tokio::test]
    async fn refused_request_is_sent_once_more_with_the_remedy() {
        let server = FaultServer::start().await.unwrap();
        server.reply(Reply::json(400, REFUSED));
        server.reply(answer());
        let events = events(&server, "first", &["one"], Some(remedy())).await;
        let warnings = ["one", "the reasoning was left out"];
        assert_eq!(events.unwrap(), answered_with(&warnings));
        assert_eq!(bodies(&server), ["first", "second"]);
    }

    /// An answer whose first event is a refusal.
    fn refused_in_the_stream(message: &str) -> Reply {
        let code = "invalid_request_error";
        Reply::ndjson([format!(
            r#"{{"error":{{"code":"{code}","message":"{message}"}}}}"#
        )])
    }

    #[tokio::test]
    async fn request_that_is_refused_in_the_stream_is_sent_once_more() {
        let server = FaultServer::start().await.unwrap();
        server.reply(refused_in_the_stream("invalid signature"));
        server.reply(answer());
        let events = events(&server, "first", &["one"], Some(remedy())).await;
        let warnings = ["one", "the reasoning was left out"];
        assert_eq!(events.unwrap(), answered_with(&warnings));
        assert_eq!(bodies(&server), ["first", "second"]);
    }

    #[tokio::test]
    async fn refusal_in_the_stream_is_the_error_without_a_remedy() {
        for (message, replies, has_remedy) in [("no", 1, true), ("signature", 1, false)] {
            let server = FaultServer::start().await.unwrap();
            server.fallback(refused_in_the_stream(message));
            let remedy = has_remedy.then(remedy);
            let error = events(&server, "first", &[], remedy).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert!(error.text().starts_with("test: "), "{error}");
            assert_eq!(server.requests().len(), replies, "{message}");
        }

        let server = FaultServer::start().await.unwrap();
        server.fallback(refused_in_the_stream("invalid signature"));
        let error = events(&server, "first", &[], Some(remedy())).await;
        assert!(error.unwrap_err().text().contains("invalid signature"));
        assert_eq!(bodies(&server), ["first", "second"]);
    }

    #[tokio::test]
    async fn long_body_is_changed_on_another_thread() {
        for (len, is_other) in [(9, false), (1_000_000, true)] {
            let thread = std::thread::current().id();
            let make: MakeRemedy = Box::new(move |_, body| {
                assert_eq!(body.len(), len);
                assert_eq!(std::thread::current().id() != thread, is_other, "{len}");
                None
            });
            let error = Error::new(ErrorKind::InvalidRequest, "refused");
            let body = Bytes::from(vec![b'x'; len]);
            let Err(error) = remedy_for(error, &body, Some(make)).await else {
                panic!("there is no remedy")
            };
            assert_eq!(error.text(), "refused");
        }
    }

    #[tokio::test]
    async fn second_refusal_is_the_error() {
        let server = FaultServer::start().await.unwrap();
        server.reply(Reply::json(400, REFUSED));
        server.reply(Reply::json(400, r#"{"error":{"message":"signature: no"}}"#));
        let error = events(&server, "first", &[], Some(remedy()))
            .await
            .unwrap_err();
        assert!(error.text().contains("signature: no"), "{error}");
        assert_eq!(bodies(&server), ["first", "second"]);
    }

    #[tokio::test]
    async fn other_errors_have_no_remedy() {
        for (status, message) in [(401, "signature"), (500, "signature"), (400, "no")] {
            let server = FaultServer::start().await.unwrap();
            let body = format!(r#"{{"error":{{"message":"{message}"}}}}"#);
            server.fallback(Reply::json(status, body));
            let error = events(&server, "first", &[], Some(remedy()))
                .await
                .unwrap_err();
            assert_eq!(error.status(), Some(status));
            assert_eq!(bodies(&server), ["first"]);
        }
    }
}
