//! Servers that a test starts, kills and restarts.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::real::Kind;

/// The time limit for the start of a server.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns the command that starts a server on a port.
type Start = Box<dyn Fn(u16) -> Command + Send + Sync>;

/// A kind of server whose programs may be installed.
pub trait Startable: Kind {
    /// Prepares the folder of a server. Returns the command that starts it, or `None` without its
    /// programs.
    fn prepare(folder: &Path) -> Option<Start>;

    /// Adds the arguments of a server that accepts only TLS, with `key.pem` and `cert.pem` of the
    /// folder.
    fn secure(command: &mut Command, folder: &Path, port: u16);

    fn url_at(port: u16) -> String;

    fn secure_url_at(port: u16) -> String;
}

/// A server of one test, which is killed when this is dropped.
#[derive(Clone)]
pub struct Own(Arc<Inner>);

struct Inner {
    port: u16,
    start: Start,
    child: Mutex<Option<Child>>,
    folder: TempDir,
}

impl Own {
    /// Starts a server. Without its programs, prints a line and returns `None`.
    pub fn start<K: Startable>() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let Some(start) = K::prepare(folder.path()) else {
            eprintln!("skipped: the programs of the server are not on this machine");
            return None;
        };
        Some(Self::with(folder, start))
    }

    /// Starts a server whose certificate was issued by `ca.pem` of its folder.
    #[cfg(feature = "tls")]
    pub fn start_secure<K: Startable>() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let Some(start) = K::prepare(folder.path()).filter(|_| certify(folder.path())) else {
            eprintln!("skipped: the programs of the server or openssl are not on this machine");
            return None;
        };

        let path = folder.path().to_owned();
        let start: Start = Box::new(move |port| {
            let mut command = start(port);
            K::secure(&mut command, &path, port);
            command
        });

        Some(Self::with(folder, start))
    }

    fn with(folder: TempDir, start: Start) -> Self {
        let own = Self(Arc::new(Inner {
            port: free_port(),
            start,
            child: Mutex::new(None),
            folder,
        }));
        own.restart();
        own
    }

    pub fn port(&self) -> u16 {
        self.0.port
    }

    #[cfg(any(feature = "tls", feature = "postgres"))]
    pub fn folder(&self) -> &Path {
        self.0.folder.path()
    }

    pub fn kill(&self) {
        self.0.kill();
    }

    /// Starts the server until it accepts connections: the remains of a killed one may prevent a
    /// start.
    pub fn restart(&self) {
        let began = Instant::now();
        let mut child = self.0.child.lock().unwrap();
        loop {
            if child
                .as_mut()
                .is_none_or(|child| child.try_wait().unwrap().is_some())
            {
                *child = Some((self.0.start)(self.0.port).spawn().unwrap());
            }

            if TcpStream::connect(("127.0.0.1", self.0.port)).is_ok() {
                return;
            }

            assert!(began.elapsed() < LONGEST, "the server does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Returns a free port outside the range from which the system assigns ports. Connections and
/// servers of other tests use that range, and within it a connection to a missing server could
/// connect to itself.
fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Inner {
    fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
            // Processes that the server has started notice its end a moment later, and answer until
            // then.
            let began = Instant::now();
            while lives_in(self.folder.path()) && began.elapsed() < LONGEST {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Returns `true` if a process has its working directory in this folder. Always `false` on systems
/// other than Linux.
fn lives_in(folder: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|process| {
        let place = std::fs::read_link(process.path().join("cwd"));
        place.is_ok_and(|place| place.starts_with(folder))
    })
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Creates a key and a certificate for `localhost`. Returns `false` without openssl.
#[cfg(feature = "tls")]
fn certify(folder: &Path) -> bool {
    let openssl = |arguments: &str| {
        let mut command = quiet(Command::new("openssl"));
        command.args(arguments.split(' ')).current_dir(folder);
        command.status().is_ok_and(|status| status.success())
    };

    let new = "-newkey rsa:2048 -nodes -days 2";
    let is_made = openssl(&format!(
        "req -x509 {new} -keyout ca-key.pem -out ca.pem -subj /CN=tests"
    )) && openssl(&format!(
        "req -x509 {new} -keyout key.pem -out cert.pem -subj /CN=localhost -CA ca.pem -CAkey \
         ca-key.pem -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE"
    ));
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(folder).unwrap());
    is_made && std::os::unix::fs::chown(folder.join("key.pem"), Some(owner), None).is_ok()
}

fn quiet(mut command: Command) -> Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Finds a program in these folders.
fn find(name: &str, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut places = folders.into_iter().map(|folder| folder.join(name));
    places.find(|place| place.is_file())
}

fn path() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

#[cfg(feature = "redis")]
impl Startable for agentcore::session::RedisStore {
    fn prepare(folder: &Path) -> Option<Start> {
        let program = find("redis-server", path())?;
        let folder = folder.to_owned();
        Some(Box::new(move |port| {
            let mut command = Command::new(&program);
            command
                .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
                .args(["--appendonly", "yes", "--appendfsync", "always"])
                .args(["--save", "", "--dir"])
                .arg(&folder);
            quiet(command)
        }))
    }

    fn secure(command: &mut Command, folder: &Path, port: u16) {
        command.args(["--port", "0", "--tls-port", &port.to_string()]);
        for (option, file) in [
            ("--tls-cert-file", "cert.pem"),
            ("--tls-key-file", "key.pem"),
            ("--tls-ca-cert-file", "ca.pem"),
        ] {
            command.arg(option).arg(folder.join(file));
        }
        command.args(["--tls-auth-clients", "no"]);
    }

    fn url_at(port: u16) -> String {
        format!("redis://127.0.0.1:{port}")
    }

    fn secure_url_at(port: u16) -> String {
        format!("rediss://localhost:{port}")
    }
}

#[cfg(feature = "postgres")]
impl Startable for agentcore::session::PostgresStore {
    fn prepare(folder: &Path) -> Option<Start> {
        let versions = std::fs::read_dir("/usr/lib/postgresql");
        let versions = versions.into_iter().flatten().flatten();
        let mut folders: Vec<_> = versions.map(|entry| entry.path().join("bin")).collect();
        folders.extend(path());
        let initdb = find("initdb", folders.clone())?;
        let program = find("postgres", folders)?;

        // PostgreSQL refuses to run as root, so it runs as the user of its package.
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        let as_user = move |program: &Path| {
            if !is_root {
                return Command::new(program);
            }

            let mut command = Command::new("setpriv");
            command
                .args([
                    "--reuid",
                    "postgres",
                    "--regid",
                    "postgres",
                    "--init-groups",
                ])
                .arg(program)
                .current_dir("/");
            command
        };

        if is_root {
            let owned = quiet(Command::new("chown"))
                .arg("postgres")
                .arg(folder)
                .status();
            if !owned.is_ok_and(|status| status.success()) {
                return None;
            }
        }

        let data = folder.join("data");
        let mut make = quiet(as_user(&initdb));
        make.arg("-D")
            .arg(&data)
            .args(["-U", "kit", "-A", "trust", "-E", "UTF8", "-N"]);
        assert!(make.status().unwrap().success(), "initdb failed");
        let folder = folder.to_owned();
        Some(Box::new(move |port| {
            let mut command = as_user(&program);
            command
                .arg("-D")
                .arg(&data)
                .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k"])
                .arg(&folder);
            quiet(command)
        }))
    }

    fn secure(command: &mut Command, folder: &Path, _: u16) {
        command.args(["-c", "ssl=on"]);
        for (option, file) in [("ssl_cert_file", "cert.pem"), ("ssl_key_file", "key.pem")] {
            let file = folder.join(file);
            command
                .arg("-c")
                .arg(format!("{option}={}", file.display()));
        }
    }

    fn secure_url_at(port: u16) -> String {
        format!("postgres://kit@localhost:{port}/postgres?sslmode=require")
    }

    fn url_at(port: u16) -> String {
        format!("postgres://kit@127.0.0.1:{port}/postgres")
    }
}
