//! The connection to a host in bounded time.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
#[cfg(unix)]
use std::sync::mpsc;
#[cfg(unix)]
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};

use super::names::LookUp;
use super::server::{Failure, Outcome};

/// No address is given up sooner, unless all time is over.
const LEAST: Duration = Duration::from_millis(1);

/// Connects to the first of a host's addresses that answers.
pub(in crate::session) fn reach(host: &str, port: u16, limit: Duration) -> Outcome<TcpStream> {
    let until = Instant::now() + limit;
    let mut addresses = match host.parse::<IpAddr>() {
        Ok(ip) => vec![(ip, port).into()],
        Err(_) => LookUp::begin(host).wait(until)?.ok_or_else(|| {
            let text = format!("its name was not found within {limit:?}");
            Failure::Lost(Error::new(ErrorKind::Timeout, text))
        })?,
    };
    for address in &mut addresses {
        address.set_port(port);
    }
    connect(&addresses, until).map_err(|error| lost(&error))
}

/// Classifies the failure of a connection.
pub(in crate::session) fn lost(error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => ErrorKind::Timeout,
        _ => ErrorKind::Connect,
    };
    Failure::Lost(Error::new(kind, error.to_string()))
}

/// Runs work that cannot be stopped on a thread of its own, which is left behind when it takes
/// longer.
#[cfg(unix)]
pub(in crate::session) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (tell, hear) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("agentcore-connect".into());
    thread.spawn(move || {
        // Nobody may wait for it any more.
        let _ = tell.send(work());
    })?;
    hear.recv_timeout(limit).unwrap_or_else(|_| {
        let text = format!("it did not answer within {limit:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

/// Each address has its share of the time that is left: one that is silent takes none of the
/// next one's.
fn connect(addresses: &[SocketAddr], until: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for (address, others) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        let left = until.saturating_duration_since(Instant::now());
        match TcpStream::connect_timeout(address, (left / others).max(LEAST)) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    #[cfg(unix)]
    #[test]
    fn what_hangs_is_left_behind() {
        let (tell, hear) = mpsc::channel::<()>();
        let error = within(LEAST, move || Ok(hear.recv())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(tell);
        assert_eq!(within(LIMIT, || Ok(7)).unwrap(), 7);
        let error = within(LIMIT, || Err::<(), _>(io::ErrorKind::NotFound.into())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        // Also when it breaks off.
        let error = within::<()>(LIMIT, || panic!("it breaks off")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    /// A listener with a full queue, and the connections that fill it.
    #[cfg(target_os = "linux")]
    fn full() -> (TcpListener, Vec<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            waiting.push(stream);
        }
        (listener, waiting)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_silent_address_leaves_time_for_the_next() {
        let (silent, _waiting) = full();
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let [silent, open] = [&silent, &open].map(|at| at.local_addr().unwrap());
        let until = || Instant::now() + LIMIT;
        let found = connect(&[silent, open], until()).unwrap();
        assert_eq!(found.peer_addr().unwrap(), open);
        let found = connect(&[silent, silent, open], until()).unwrap();
        assert_eq!(found.peer_addr().unwrap(), open);
        let error = connect(&[silent, silent], until()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let error = connect(&[silent], Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(connect(&[], until()).is_err());
    }
}
