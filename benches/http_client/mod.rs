//! A minimal client: it keeps its connection open, and searches the responses for numbers.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

pub const TOKEN: &str = "a-token-of-the-bench";

const PATH: &str = "/agents/invoke";

pub struct Client {
    address: SocketAddr,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let reader = BufReader::with_capacity(4 * 1024, stream);
        Self { address, reader }
    }

    async fn send(&mut self, method: &str, path: &str, body: &str) {
        let (address, length) = (self.address, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.reader
            .get_mut()
            .write_all(request.as_bytes())
            .await
            .unwrap();
    }

    /// Reads the head of a response, and returns the length of its body; 0 if there is none.
    async fn head(&mut self) -> usize {
        let (mut line, mut length) = (String::new(), 0);
        self.reader.read_line(&mut line).await.unwrap();
        assert!(line.contains(" 200 "), "{line}");
        while line != "\r\n" {
            line.clear();
            self.reader.read_line(&mut line).await.unwrap();
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        length
    }

    async fn response(&mut self) {
        let length = self.head().await;
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).await.unwrap();
    }

    pub async fn get(&mut self, path: &str) {
        self.send("GET", path, "").await;
        self.response().await;
    }

    /// Makes a complete run, in a new thread or in this one.
    pub async fn invoke(&mut self, thread: Option<&str>) {
        self.send("POST", PATH, &input(thread)).await;
        self.response().await;
    }

    /// Begins a run, and reads the head of its stream.
    pub async fn begin_stream(&mut self, thread: &str) {
        self.send("POST", "/agents/stream", &input(Some(thread)))
            .await;
        self.head().await;
    }

    /// Reads a run to its end, and returns the delay of each of its pieces.
    pub async fn follow(&mut self, thread: &str, emissions: &[OnceLock<Instant>]) -> Vec<Duration> {
        let path = format!("/agents/default/threads/{thread}/events");
        self.send("GET", &path, "").await;
        self.head().await;
        let mut delays = Vec::with_capacity(emissions.len());
        let mut line = String::new();
        loop {
            line.clear();
            let count = self.reader.read_line(&mut line).await.unwrap();
            if count == 0 || line.starts_with("event: done") {
                return delays;
            }
            let number = line.split_once("\"delta\":\"").and_then(|(_, rest)| {
                let (number, _) = rest.split_once(' ')?;
                number.parse::<usize>().ok()
            });
            if let Some(emitted) = number.and_then(|number| emissions[number].get()) {
                delays.push(emitted.elapsed());
            }
        }
    }
}

fn input(thread: Option<&str>) -> String {
    let thread = thread.map(|id| format!(",\"thread_id\":\"{id}\""));
    let thread = thread.unwrap_or_default();
    format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"Go\"}}]{thread}}}")
}

/// Reads the events of the run at one byte per second.
pub async fn read_slowly(address: SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 * 1024).unwrap();
    let stream = socket.connect(address).await.unwrap();
    let reader = BufReader::with_capacity(1, stream);
    let mut client = Client { address, reader };
    client
        .send("GET", "/agents/default/threads/th/events", "")
        .await;
    let mut byte = [0];
    while matches!(client.reader.get_mut().read(&mut byte).await, Ok(1)) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
