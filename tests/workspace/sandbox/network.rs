//! Access to the network.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;

use agentcore::backend::Sandbox;

use super::{Confined, is_able};

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn connect(port: u16) -> String {
    format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo hello >&3")
}

fn is_silent(listener: &TcpListener) -> bool {
    matches!(listener.accept(), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[tokio::test]
async fn local_listener_is_unreachable() {
    if !is_able() {
        return;
    }
    let (listener, port) = listener();
    let confined = Confined::new();
    confined.refused(&connect(port)).await;
    assert!(is_silent(&listener));
    // Without the limit the command succeeds, so it is the sandbox that refuses it.
    let open = Confined::with(Sandbox::any_network);
    assert!(open.run(&connect(port)).await.is_success());
    assert!(!is_silent(&listener));
}

#[tokio::test]
async fn only_allowed_ports_can_be_reached() {
    if !is_able() {
        return;
    }

    let ((allowed, port), (other, other_port)) = (listener(), listener());
    let confined = Confined::with(|sandbox| sandbox.tcp_connect([port]));
    assert!(confined.run(&connect(port)).await.is_success());
    confined.refused(&connect(other_port)).await;
    assert!(!is_silent(&allowed));
    assert!(is_silent(&other));
    let none = Confined::with(|sandbox| sandbox.tcp_connect([port]).udp().no_network());
    none.refused(&connect(port)).await;
    assert!(is_silent(&allowed));
}

#[tokio::test]
async fn udp_is_denied_unless_allowed() {
    if !is_able() {
        return;
    }

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let port = socket.local_addr().unwrap().port();
    let send = format!("echo hello > /dev/udp/127.0.0.1/{port}");
    let mut buffer = [0; 16];
    Confined::new().refused(&send).await;
    Confined::with(|sandbox| sandbox.tcp_connect([1]))
        .refused(&send)
        .await;
    let silent = socket.recv(&mut buffer).unwrap_err();
    assert_eq!(silent.kind(), ErrorKind::WouldBlock);
    let open = Confined::with(Sandbox::udp);
    assert!(open.run(&send).await.is_success());
    assert_eq!(socket.recv(&mut buffer).unwrap(), 6);
}

/// Returns `true` if Perl is installed, which creates sockets of other kinds.
fn has_perl() -> bool {
    let is_installed = Path::new("/usr/bin/perl").exists();
    if !is_installed {
        eprintln!("skipped: no /usr/bin/perl");
    }
    is_installed
}

#[tokio::test]
async fn unix_sockets_are_denied_unless_allowed() {
    if !is_able() || !has_perl() {
        return;
    }

    let connect = "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or die \"$!\\n\"; \
        connect(S, sockaddr_un(\"socket\")) or die \"$!\\n\"'";
    let confined = Confined::new();
    let listener = UnixListener::bind(confined.workspace.root.join("socket")).unwrap();
    listener.set_nonblocking(true).unwrap();
    confined.refused(connect).await;
    assert!(listener.accept().is_err());
    let open = confined.workspace.backend.clone();
    let sandbox = Sandbox::workspace(&confined.workspace.root).unix_sockets();
    let open = super::Confined {
        workspace: confined.workspace,
        backend: open.with_sandbox(sandbox),
    };

    let output = open.run(connect).await;
    assert!(output.is_success(), "{}", output.stderr.text());
    assert!(listener.accept().is_ok());

    // Socket pairs within a command do not reach other processes.
    let pair = "perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die \"$!\\n\"'";
    assert!(Confined::new().run(pair).await.is_success());
}

#[tokio::test]
async fn other_protocols_cannot_bypass_the_port_limit() {
    if !is_able() || !has_perl() {
        return;
    }

    let (listener, port) = listener();
    let (_allowed, allowed_port) = self::listener();
    let confined = Confined::with(|sandbox| sandbox.tcp_connect([allowed_port]));

    // Other protocols, raw sockets, connections by `sendto` and implicit ports.
    for (what, code) in [
        (
            "MPTCP",
            "socket(S, AF_INET, SOCK_STREAM, 262) or die \"$!\\n\"",
        ),
        (
            "SCTP",
            "socket(S, AF_INET, SOCK_STREAM, 132) or die \"$!\\n\"",
        ),
        ("raw", "socket(S, AF_INET, SOCK_RAW, 1) or die \"$!\\n\""),
        ("ping", "socket(S, AF_INET, SOCK_DGRAM, 1) or die \"$!\\n\""),
        ("netlink", "socket(S, 16, SOCK_RAW, 0) or die \"$!\\n\""),
        ("vsock", "socket(S, 40, SOCK_STREAM, 0) or die \"$!\\n\""),
        (
            "fast open",
            "socket(S, AF_INET, SOCK_STREAM, 6) or die \"socket: $!\\n\"; \
             send(S, \"x\", 0x20000000, sockaddr_in(PORT, inet_aton(\"127.0.0.1\"))) \
             or die \"$!\\n\"",
        ),
        (
            "listen",
            "socket(S, AF_INET, SOCK_STREAM, 6) or die \"socket: $!\\n\"; \
             listen(S, 1) or die \"$!\\n\"",
        ),
        (
            "bind",
            "socket(S, AF_INET, SOCK_STREAM, 0) or die \"socket: $!\\n\"; \
             bind(S, sockaddr_in(0, inet_aton(\"127.0.0.1\"))) or die \"$!\\n\"",
        ),
    ] {
        let code = code.replace("PORT", &port.to_string());
        let output = confined.run(&format!("perl -MSocket -e '{code}'")).await;
        let errors = output.stderr.text();
        assert_eq!(errors, "Permission denied\n", "{what}");
    }

    assert!(is_silent(&listener));
    let server = Confined::with(|sandbox| sandbox.tcp_bind([0]));
    let code = "socket(S, AF_INET, SOCK_STREAM, 0) or die \"$!\\n\"; \
        bind(S, sockaddr_in(0, inet_aton(\"127.0.0.1\"))) or die \"$!\\n\"; \
        listen(S, 1) or die \"$!\\n\"";
    let output = server.run(&format!("perl -MSocket -e '{code}'")).await;
    assert_eq!(output.stderr.text(), "");
}
