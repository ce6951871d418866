//! TLS for connections to a database.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use crate::util::tls::system_trust_config;

use super::bounded::Bounded;
use super::socket::Socket;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The reason why the server is not trusted. Another attempt would fail as well.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Distrust(String);

/// The server's expected identity, with trust in the system's certificates. It is created for every
/// connection, even without TLS, so that every failure belongs to the handshake.
pub(super) struct Connector(String);

/// A secure stream, whose messages are checked.
pub(super) struct Stream(Bounded<client::TlsStream<Bounded<Socket>>>);

impl Connector {
    pub(super) fn new(host: &str) -> Self {
        Self(host.to_owned())
    }
}

impl TlsConnect<Bounded<Socket>> for Connector {
    type Stream = Stream;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<Result<Stream, Self::Error>>;

    fn connect(self, mut stream: Bounded<Socket>) -> Self::Future {
        Box::pin(async move {
            let Self(host) = self;
            let name = ServerName::try_from(host.clone());
            let name =
                name.map_err(|_| Distrust(format!("{host:?} is not the name of a server")))?;
            let config = system_trust_config().map_err(|error| Distrust(error.to_string()))?;
            let connector = TlsConnector::from(Arc::new(config));
            let problem = stream.end_checks();
            match connector.connect(name, stream).await {
                Ok(stream) => Ok(Stream(Bounded::new(stream, problem, false))),
                Err(error)
                    if error
                        .get_ref()
                        .is_some_and(|cause| cause.is::<rustls::Error>()) =>
                {
                    Err(Distrust(error.to_string()).into())
                }
                Err(error) => Err(error.into()),
            }
        })
    }
}

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
