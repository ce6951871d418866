//! One connection: requests in, scripted replies out.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::received::Received;
use super::reply::{Action, Framing, Reply, garbage};
use super::server::FaultServerShared;

/// The state of the connection after a reply.
enum After {
    KeepAlive,
    Close,
    Reset,
}

/// Serves one client until either side ends the connection.
pub(super) async fn serve(mut socket: TcpStream, number: usize, shared: Arc<FaultServerShared>) {
    let _open = shared.opened();
    let mut buffer = BytesMut::new();
    loop {
        let Some(request) = Received::take(&mut buffer, number) else {
            match socket.read_buf(&mut buffer).await {
                Ok(read) if read > 0 => continue,
                // The client has closed the connection.
                _ => return,
            }
        };

        let should_close = request.header("connection") == Some("close");
        let reply = shared.next(&request);
        match answer(&mut socket, &reply, should_close).await {
            Ok(After::KeepAlive) if !should_close => {}
            Ok(After::Reset) => {
                // If the option cannot be set, the connection closes in order, which fails the
                // test.
                drop(socket.set_zero_linger());
                return;
            }
            Ok(_) | Err(_) => {
                drop(socket.shutdown().await);
                return;
            }
        }
    }
}

async fn answer(socket: &mut TcpStream, reply: &Reply, close: bool) -> io::Result<After> {
    socket.set_nodelay(true)?;
    if reply.has_head {
        socket.write_all(head(reply, close).as_bytes()).await?;
    }

    for action in &reply.actions {
        match action {
            Action::Send(bytes) => write(socket, reply, bytes).await?,
            Action::Garbage { len, seed } => write(socket, reply, &garbage(*len, *seed)).await?,
            Action::Pause(wait) => tokio::time::sleep(*wait).await,
            Action::Reset => return Ok(After::Reset),
            Action::Close => return Ok(After::Close),
            Action::Stall => {
                let mut buffer = [0; 1024];
                while socket.read(&mut buffer).await? > 0 {}
                return Ok(After::Close);
            }
        }
    }

    match reply.framing {
        Framing::Chunked => socket.write_all(b"0\r\n\r\n").await?,
        Framing::ContentLength => {}
        Framing::UntilClose => return Ok(After::Close),
    }

    Ok(After::KeepAlive)
}

async fn write(socket: &mut TcpStream, reply: &Reply, bytes: &Bytes) -> io::Result<()> {
    // An empty chunk would end the body.
    if bytes.is_empty() {
        return Ok(());
    }

    if reply.framing == Framing::Chunked {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        socket.write_all(&chunk).await?;
    } else {
        socket.write_all(bytes).await?;
    }
    // A client on this thread reads this piece before the next one is written.
    tokio::task::yield_now().await;
    Ok(())
}

fn head(reply: &Reply, close: bool) -> String {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }

    match reply.framing {
        Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
        Framing::ContentLength => {
            head.push_str(&format!("content-length: {}\r\n", reply.body_len()));
        }
        Framing::UntilClose => {}
    }

    if close || reply.framing == Framing::UntilClose {
        head.push_str("connection: close\r\n");
    }

    head.push_str("\r\n");
    head
}
