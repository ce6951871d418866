//! An HTTP server on loopback that plays scripts, one a request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does once it has read a request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Says nothing more until the client goes away.
    Stall,
    /// Closes the connection.
    Close,
}

/// One answer. A script that does not close leaves the connection open for the next request.
pub(crate) type Script = Vec<Step>;

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body in UTF-8")
    }
}

pub(crate) struct FakeServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Received>>>,
    connections: Arc<AtomicUsize>,
}

impl FakeServer {
    /// Plays the scripts in order, the last one for ever. Needs a tokio runtime.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server = Self {
            address: listener.local_addr().expect("an address"),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let scripts: Arc<[Script]> = scripts.into_iter().collect();
        let (requests, connections) = (server.requests.clone(), server.connections.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, scripts.clone(), requests.clone()));
            }
        });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.requests.lock().expect("no panic").clone()
    }

    pub(crate) fn last_request(&self) -> Received {
        self.requests().pop().expect("a request")
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, scripts: Arc<[Script]>, requests: Arc<Mutex<Vec<Received>>>) {
    while let Some(request) = read_request(&mut stream).await {
        let script = {
            let mut requests = requests.lock().expect("no panic");
            requests.push(request);
            scripts[(requests.len() - 1).min(scripts.len() - 1)].clone()
        };
        for step in script {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::Stall => {
                    let mut rest = [0; 64];
                    while matches!(stream.read(&mut rest).await, Ok(1..)) {}
                    return;
                }
                Step::Close => return,
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok())?;
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received {
        head,
        body: bytes[end..].to_vec(),
    })
}

/// A successful event stream, in chunked encoding, whole.
pub(crate) fn events(body: &str) -> Script {
    vec![Step::Send(chunked(body, true))]
}

/// The head and the body as one chunk, with the chunk that ends the body or without it.
pub(crate) fn chunked(body: &str, ended: bool) -> Vec<u8> {
    let end = if ended { "0\r\n\r\n" } else { "" };
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_1\r\n\
         transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n{end}",
        body.len()
    )
    .into_bytes()
}

/// An answer of this status with these header lines, each ended by CRLF, and this body.
pub(crate) fn status(status: u16, headers: &str, body: &str) -> Script {
    let head = format!(
        "HTTP/1.1 {status} Whatever\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    vec![Step::Send(head.into_bytes())]
}
