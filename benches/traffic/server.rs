//! The server: HTTP/1.1 with persistent connections, on one thread.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use super::{Dialect, Reply, answers};

/// The server as a child process, which ends when this is dropped.
pub struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts this program again with the argument `serve`.
    pub fn start() -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut address)?;
        }

        Ok(Self {
            child,
            address: address.trim().to_owned(),
        })
    }

    /// Returns `127.0.0.1:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the number of connections that it has accepted so far.
    pub fn connections(&self) -> io::Result<usize> {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&self.address)?;
        stream.write_all(b"GET /connections HTTP/1.1\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        // The connection of this request does not count.
        let count: usize = text.parse().map_err(io::Error::other)?;
        Ok(count - 1)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct State {
    connections: usize,
    /// The number of requests for each reply so far.
    counts: HashMap<Reply, usize>,
    gates: HashMap<usize, Arc<Barrier>>,
    /// The answers that are always the same.
    bodies: HashMap<Answer, Arc<[u8]>>,
}

/// The answer that an address requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Answer {
    reply: Reply,
    dialect: Dialect,
    /// True if each event is an HTTP chunk of its own.
    is_unpacked: bool,
}

type Shared = Arc<Mutex<State>>;

/// Serves until the standard input ends, after printing the address.
pub fn serve() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::spawn(|| {
        let mut line = String::new();
        while io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {}
        std::process::exit(0);
    });

    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let shared = Shared::default();
        loop {
            let (stream, _) = listener.accept().await?;
            lock(&shared).connections += 1;
            let shared = shared.clone();
            tokio::spawn(async move {
                // Errors of a client that disconnects are ignored.
                let _ = connection(stream, shared).await;
            });
        }
    })
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn connection(mut stream: TcpStream, shared: Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::new();
    loop {
        let Some(path) = request(&mut stream, &mut input).await? else {
            return Ok(());
        };

        if path == "/connections" {
            let count = lock(&shared).connections;
            return stream.write_all(count.to_string().as_bytes()).await;
        }

        let unpacked = path.strip_prefix("/unpacked");
        let mut segments = unpacked.unwrap_or(&path).split('/').skip(1);
        let reply = segments.next().unwrap_or_default();
        let key = Answer {
            reply: reply.parse().map_err(io::Error::other)?,
            dialect: dialect(&path),
            is_unpacked: unpacked.is_some(),
        };
        answer(&mut stream, &shared, key).await?;
    }
}

/// Returns the wire format of a request's path.
fn dialect(path: &str) -> Dialect {
    if path.ends_with("/messages") {
        Dialect::Anthropic
    } else if path.ends_with("/responses") {
        Dialect::Responses
    } else if path.contains(":streamGenerateContent") {
        Dialect::Gemini
    } else {
        Dialect::OpenAi
    }
}

async fn answer(stream: &mut TcpStream, shared: &Shared, wanted: Answer) -> io::Result<()> {
    match wanted.reply {
        Reply::Silence => return std::future::pending().await,
        Reply::Park => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n";
            let start = format!("{head}{}", answers::beginning(wanted.dialect));
            stream.write_all(start.as_bytes()).await?;
            return std::future::pending().await;
        }
        Reply::Gate(count) => {
            let gate = lock(shared)
                .gates
                .entry(count)
                .or_insert_with(|| Arc::new(Barrier::new(count)))
                .clone();
            gate.wait().await;
        }
        Reply::Turn | Reply::Tools(_) | Reply::Deltas(_) => {}
    }

    let body = body(shared, wanted);
    stream.write_all(&body).await
}

fn body(shared: &Shared, wanted: Answer) -> Arc<[u8]> {
    let Answer {
        reply,
        dialect,
        is_unpacked,
    } = wanted;
    let response = if is_unpacked { unpacked } else { packed };
    let mut state = lock(shared);
    let count = state.counts.entry(reply).or_default();
    *count += 1;
    let number = *count;
    let text = match reply {
        Reply::Tools(turns) if !number.is_multiple_of(turns + 1) => {
            return response(&answers::calls(dialect, number));
        }
        Reply::Deltas(count) => answers::deltas(dialect, count),
        _ => answers::short(dialect),
    };

    state
        .bodies
        .entry(wanted)
        .or_insert_with(|| response(&text))
        .clone()
}

/// Returns an answer in which each event is an HTTP chunk of its own.
fn unpacked(body: &str) -> Arc<[u8]> {
    let mut response =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_owned();
    for event in body.split_inclusive("\n\n") {
        response += &format!("{:x}\r\n{event}\r\n", event.len());
    }

    response += "0\r\n\r\n";
    response.into_bytes().into()
}

/// Returns an answer with a content length.
fn packed(body: &str) -> Arc<[u8]> {
    let len = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len}\r\n\r\n{body}"
    )
    .into_bytes()
    .into()
}

/// Reads a request and returns its path; `None` if the client has disconnected.
async fn request(stream: &mut TcpStream, input: &mut Vec<u8>) -> io::Result<Option<String>> {
    let head = loop {
        if let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") {
            break end + 4;
        }

        if stream.read_buf(input).await? == 0 {
            return Ok(None);
        }
    };

    let text = String::from_utf8_lossy(&input[..head]).into_owned();
    let mut remaining = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse::<usize>().ok())
        .unwrap_or(0);
    let here = remaining.min(input.len() - head);
    input.drain(..head + here);
    remaining -= here;
    while remaining > 0 {
        input.clear();
        input.reserve(remaining.min(256 * 1024));
        remaining -= (&mut *stream)
            .take(remaining as u64)
            .read_buf(input)
            .await?
            .max(1);
    }

    if here > 0 && remaining == 0 {
        input.clear();
    }

    let path = text.split(' ').nth(1).unwrap_or_default();
    Ok(Some(path.to_owned()))
}
