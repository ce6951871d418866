//! TLS for connections to a server.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::error::{Error, ErrorKind};
use crate::session::remote::{Failure, Outcome, connection_lost};
use crate::util::tls::system_trust_config;

use super::socket::Socket;

pub(super) type Stream = StreamOwned<ClientConnection, Socket>;

/// Makes a connection secure with a server that the system trusts for this name.
pub(super) fn secure(host: &str, mut socket: Socket) -> Outcome<Stream> {
    let make_error = |error: String| Failure::Refused(Error::new(ErrorKind::Tls, error));
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| make_error(format!("{host:?} is not the name of a server")))?;
    let config = system_trust_config()?;
    let mut connection = ClientConnection::new(Arc::new(config), name)
        .map_err(|error| make_error(error.to_string()))?;
    while connection.is_handshaking() {
        if let Err(error) = connection.complete_io(&mut socket) {
            return Err(match error.get_ref() {
                Some(cause) if cause.is::<rustls::Error>() => make_error(cause.to_string()),
                _ => connection_lost(&error),
            });
        }
    }

    Ok(StreamOwned::new(connection, socket))
}
