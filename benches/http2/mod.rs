//! A server with HTTP/2 over TLS that never answers, in a process of its own.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// The server as a child process.
pub struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
    folder: TempDir,
}

impl Server {
    /// Starts this program again with the argument `serve-http2`.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("serve-http2")
            .arg(folder.path().join("issuer.pem"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut address = String::new();
        output.read_line(&mut address).unwrap();
        Self {
            child,
            output,
            address: address.trim().to_owned(),
            folder,
        }
    }

    /// Returns `localhost:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the file with the certificate of the issuer.
    pub fn certificate(&self) -> String {
        let path = self.folder.path().join("issuer.pem");
        path.to_str().unwrap().to_owned()
    }

    /// Ends the server. Returns the number of connections that it has accepted.
    pub fn end(mut self) -> usize {
        let mut input = self.child.stdin.take().unwrap();
        input.write_all(b"end\n").unwrap();
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        self.child.wait().unwrap();
        text.trim().parse().unwrap()
    }
}

/// Serves until a line is read, after printing the address. Then prints the number of connections.
pub fn serve(certificate: &str) {
    let acceptor = acceptor(Path::new(certificate));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    let connections = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("localhost:{}", listener.local_addr().unwrap().port());
        let end = tokio::task::spawn_blocking(|| io::stdin().read_line(&mut String::new()));
        tokio::pin!(end);
        let mut connections = 0;
        loop {
            tokio::select! {
                _ = &mut end => return connections,
                accepted = listener.accept() => {
                    connections += 1;
                    tokio::spawn(serve_connection(acceptor.clone(), accepted.unwrap().0));
                }
            }
        }
    });
    println!("{connections}");
}

/// Keeps the requests of a connection open until it ends.
async fn serve_connection(acceptor: TlsAcceptor, stream: TcpStream) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    let mut requests = Vec::new();
    while let Some(Ok(request)) = connection.accept().await {
        requests.push(request);
    }
}

/// Creates a TLS acceptor, and writes the certificate of its issuer to `path`.
fn acceptor(path: &Path) -> TlsAcceptor {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(path, issuer.pem()).unwrap();

    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.into()], key.into())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}
