//! An HTTP server on loopback that answers from a script, faults included.
//!
//! It writes to the TCP socket itself, so a [`Reply`] decides about every byte: where writes are
//! cut, when the connection becomes silent, and whether it ends in a reset.
//!
//! ```
//! use agentcore::testing::{FaultServer, Reply};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # let run = async {
//! let server = FaultServer::start().await?;
//! server.reply(Reply::json(429, r#"{"error":"slow down"}"#).header("retry-after", "2"));
//!
//! let mut client = tokio::net::TcpStream::connect(server.addr()).await?;
//! client.write_all(b"GET /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n").await?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer).await?;
//!
//! assert!(answer.starts_with("HTTP/1.1 429 "));
//! assert!(answer.contains("retry-after: 2"));
//! assert_eq!(server.requests()[0].path, "/v1/models");
//! # Ok::<(), agentcore::Error>(()) };
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run)?;
//! # Ok::<(), agentcore::Error>(())
//! ```

mod connection;
mod received;
mod reply;
mod server;
mod streams;

pub use received::Received;
pub use reply::{Action, Framing, Reply};
pub use server::FaultServer;
