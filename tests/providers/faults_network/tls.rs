//! Servers with certificates that are not trusted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentcore::AgentBuilder;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;

/// The variable of the child process: the ports of the servers, the trusted one first.
const PORTS: &str = "AGENTCORE_TEST_TLS_PORTS";

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn issuer(name: &str) -> Issuer {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn named(name: &str) -> CertificateParams {
    CertificateParams::new([name.to_owned()]).unwrap()
}

/// A TLS server that forwards to a server without TLS.
struct Secure {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Secure {
    async fn start(params: CertificateParams, issuer: &Issuer, behind: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<AtomicUsize>::default();
        let (count, behind) = (connections.clone(), behind.to_owned());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let mut inner = TcpStream::connect(behind).await?;
                    tokio::io::copy_bidirectional(&mut stream, &mut inner).await
                });
            }
        });

        Self { port, connections }
    }
}

/// Runs in a process of its own, because the system's certificates are read once.
#[tokio::test(flavor = "multi_thread")]
async fn n03_untrusted_certificate_is_not_retried() {
    if let Ok(ports) = std::env::var(PORTS) {
        return in_child(&ports).await;
    }

    let behind = FaultServer::start().await.unwrap();
    for api in ALL {
        behind.reply(api.text("in secret"));
    }

    let (known, unknown) = (issuer("known"), issuer("unknown"));
    let mut expired = named("localhost");
    expired.not_before = date_time_ymd(2001, 1, 1);
    expired.not_after = date_time_ymd(2002, 1, 1);
    let mut servers = Vec::new();
    for (params, issuer) in [
        (named("localhost"), &known),
        (expired, &known),
        (named("localhost"), &unknown),
        (named("elsewhere.example"), &known),
    ] {
        let url = behind.url();
        let address = url.strip_prefix("http://").unwrap();
        servers.push(Secure::start(params, issuer, address).await);
    }

    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("trusted.pem");
    std::fs::write(&trusted, known.pem()).unwrap();
    let ports: Vec<_> = servers
        .iter()
        .map(|server| server.port.to_string())
        .collect();
    let name = concat!(module_path!(), "::n03_untrusted_certificate_is_not_retried");
    let variables = [
        (PORTS, &*ports.join(" ")),
        ("SSL_CERT_FILE", trusted.to_str().unwrap()),
        ("SSL_CERT_DIR", ""),
        ("HTTPS_PROXY", ""),
        ("https_proxy", ""),
        ("ALL_PROXY", ""),
        ("all_proxy", ""),
    ];
    run_alone(name, &variables).await;
    for server in &servers[1..] {
        let connections = server.connections.load(Ordering::SeqCst);
        assert_eq!(connections, ALL.len(), "each server is called once");
    }

    assert_eq!(
        behind.requests().len(),
        ALL.len(),
        "only the trusted server is used"
    );
}

async fn in_child(ports: &str) {
    let mut urls = ports
        .split(' ')
        .map(|port| format!("https://localhost:{port}"));
    let trusted = urls.next().unwrap();
    for api in ALL {
        let answer = api.model(&trusted, PATIENCE).call(api.request()).await;
        assert_eq!(answer.unwrap().text(), "in secret", "{api:?}");
    }

    let expected = [
        ("expired", "renewed"),
        ("UnknownIssuer", "add its issuer"),
        ("elsewhere.example", "a name the certificate is for"),
    ];
    for (url, (reason, advice)) in urls.zip(expected) {
        for api in ALL {
            let agent = AgentBuilder::new(api.model(&url, PATIENCE))
                .build()
                .unwrap();
            let error = agent.run("hello").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Tls, "{api:?}: {error}");
            assert!(!error.is_retryable());
            for words in [&*url, reason, advice] {
                assert!(error.text().contains(words), "{api:?}, {words}: {error}");
            }

            assert_no_key(&error);
        }
    }
}
