//! The socket to a host.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// A socket to a host of an address.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Local(UnixStream),
}

impl Socket {
    /// Connects to the only host of this configuration, whose address is known.
    pub(super) async fn open(config: &Config) -> io::Result<Self> {
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let ip = config.get_hostaddrs().first();
        match (ip, config.get_hosts().first()) {
            (Some(ip), _) => {
                let stream = TcpStream::connect((*ip, port)).await?;
                set_options(&stream, config)?;
                Ok(Self::Tcp(stream))
            }
            #[cfg(unix)]
            (None, Some(Host::Unix(folder))) => {
                let path = folder.join(format!(".s.PGSQL.{port}"));
                Ok(Self::Local(UnixStream::connect(path).await?))
            }
            // Names of hosts are looked up before.
            (None, _) => Err(io::Error::other("the host has no address")),
        }
    }
}

fn set_options(stream: &TcpStream, config: &Config) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    if let Some(time) = config.get_tcp_user_timeout() {
        socket.set_tcp_user_timeout(Some(*time))?;
    }

    if !config.get_keepalives() {
        return Ok(());
    }
    let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        keepalive = keepalive.with_interval(interval);
    }
    #[cfg(unix)]
    if let Some(retries) = config.get_keepalives_retries() {
        keepalive = keepalive.with_retries(retries);
    }
    socket.set_tcp_keepalive(&keepalive)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(unix)]
            Self::Local(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(unix)]
            Self::Local(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(unix)]
            Self::Local(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(unix)]
            Self::Local(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
