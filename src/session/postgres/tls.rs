//! TLS for connections to a database.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

use crate::util::tls::trusting_system;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Creates connections that trust the system's certificates.
#[derive(Clone)]
pub(super) struct Tls;

/// The reason why the server is not trusted. Another try would find the same.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Distrust(String);

/// The server's expected identity. It is asked for every connection, also for those without TLS:
/// what can go wrong belongs to the handshake.
pub(super) struct Connector(String);

pub(super) struct Stream<S>(client::TlsStream<S>);

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Connector;
    type Error = Infallible;

    fn make_tls_connect(&mut self, host: &str) -> Result<Connector, Infallible> {
        Ok(Connector(host.to_owned()))
    }
}

impl<S> TlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = BoxFuture<Result<Stream<S>, Self::Error>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let Self(host) = self;
            let name = ServerName::try_from(host.clone());
            let name = name.map_err(|_| Distrust(format!("{host:?} is no name of a server")))?;
            let config = trusting_system().map_err(|error| Distrust(error.to_string()))?;
            let connector = TlsConnector::from(Arc::new(config));
            match connector.connect(name, stream).await {
                Ok(stream) => Ok(Stream(stream)),
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

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
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
