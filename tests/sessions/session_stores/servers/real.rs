//! Stores on a real server, with separate data for each test.

use std::collections::HashMap;
use std::fmt::Debug;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::session::ServerOptions;
use agentcore::session::{Lease, Record, SessionInfo, StoredSession};
use agentcore::{AgentState, Result, SessionStore, async_trait};

use crate::session_stores::crash::FOLDER;
use crate::session_stores::places::Place;

/// A kind of server, with functions that read and change its data without the store.
pub trait Kind: SessionStore + Clone + Debug + Sized {
    const VARIABLE: &str;
    const EXAMPLE: &str;
    /// The place of damaged parts, as reports of damage name it.
    const ASIDE: &str;
    /// The size from which a log gets a snapshot, in bytes.
    const SNAPSHOT_AFTER: usize;

    fn open(url: &str, options: ServerOptions) -> Result<Self>;

    /// Removes all data with this prefix.
    fn clear(url: &str, prefix: &str);

    /// Returns the number of rows of sessions, or of keys, with this prefix.
    fn count(url: &str, prefix: &str) -> usize;

    fn log(url: &str, prefix: &str, id: &str) -> Vec<u8>;

    fn put(url: &str, prefix: &str, id: &str, bytes: &[u8]);

    fn aside(url: &str, prefix: &str, id: &str) -> Vec<(u64, Vec<u8>)>;

    fn forget_aside(url: &str, prefix: &str, id: &str);

    /// Makes a lease expire.
    fn expire(url: &str, prefix: &str, id: &str);

    /// Changes the data to the version of a later release.
    fn make_newer(url: &str, prefix: &str);
}

pub fn is_there<K: Kind>() -> bool {
    let is_there = std::env::var(K::VARIABLE).is_ok();
    if !is_there {
        let (variable, example) = (K::VARIABLE, K::EXAMPLE);
        // `eprintln` would be captured unless the test fails.
        let mut out = std::io::stderr().lock();
        writeln!(
            out,
            "skipped: set {variable}, such as {example:?}, to run this test"
        )
        .unwrap();
    }
    is_there
}

pub fn url<K: Kind>() -> String {
    std::env::var(K::VARIABLE).unwrap()
}

/// The data of one test on a server. The last clone clears it when dropped.
pub struct Space<K: Kind> {
    pub url: String,
    pub prefix: String,
    _kind: std::marker::PhantomData<K>,
}

/// The number of clones for each prefix.
static SPACES: Mutex<Option<HashMap<String, usize>>> = Mutex::new(None);

impl<K: Kind> Space<K> {
    pub fn new() -> Self {
        Self::at(
            url::<K>(),
            format!("test_{}", uuid::Uuid::new_v4().simple()),
        )
    }

    pub fn at(url: String, prefix: String) -> Self {
        let mut spaces = SPACES.lock().unwrap();
        *spaces
            .get_or_insert_default()
            .entry(prefix.clone())
            .or_default() += 1;
        Self {
            url,
            prefix,
            _kind: std::marker::PhantomData,
        }
    }

    pub fn options(&self) -> ServerOptions {
        ServerOptions::default()
            .prefix(&self.prefix)
            .max_retry_time(Duration::from_secs(60))
    }

    /// Opens a store, as another machine would.
    pub fn store(&self) -> K {
        self.store_with(self.options())
    }

    pub fn store_with(&self, options: ServerOptions) -> K {
        K::open(&self.url, options).unwrap()
    }

    pub fn expire(&self, id: &str) {
        K::expire(&self.url, &self.prefix, id);
    }
}

impl<K: Kind> Clone for Space<K> {
    fn clone(&self) -> Self {
        Self::at(self.url.clone(), self.prefix.clone())
    }
}

impl<K: Kind> Drop for Space<K> {
    fn drop(&mut self) {
        let mut spaces = SPACES
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = spaces
            .get_or_insert_default()
            .entry(self.prefix.clone())
            .or_default();
        *count = count.saturating_sub(1);
        // A child shares the data of its parent, which reads it later.
        if *count == 0 && std::env::var_os(FOLDER).is_none() {
            K::clear(&self.url, &self.prefix);
        }
    }
}

/// A store whose prefix is derived from a folder, for tests of stores in folders.
#[derive(Clone)]
pub struct Real<K: Kind> {
    store: K,
    space: Arc<Space<K>>,
}

#[async_trait]
impl<K: Kind> SessionStore for Real<K> {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        self.store.load(id).await
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        self.store.append(lease, records).await
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        self.store.save(lease, state).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        self.store.list().await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        self.store.delete(id).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        self.store.lease(id).await
    }

    async fn create(&self, id: &str, session: StoredSession) -> Result<()> {
        self.store.create(id, session).await
    }

    async fn fork_at(&self, from: &str, to: &str, messages: usize) -> Result<()> {
        self.store.fork_at(from, to, messages).await
    }

    async fn prune(&self, older_than: Duration) -> Result<usize> {
        self.store.prune(older_than).await
    }
}

impl<K: Kind> Real<K> {
    pub fn open_with_lease_time(folder: &Path, lease_time: Duration) -> Self {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let name = name
            .replace(|c: char| !c.is_ascii_alphanumeric(), "_")
            .to_lowercase();
        let space = Space::at(url::<K>(), format!("test_{name}"));
        let store = space.store_with(space.options().lease_time(lease_time));
        let space = Arc::new(space);
        Self { store, space }
    }
}

impl<K: Kind> Place for Real<K> {
    const ASIDE: &str = K::ASIDE;
    const STEP: usize = 29;
    const SNAPSHOT_AFTER: usize = K::SNAPSHOT_AFTER;

    /// Leases are short, because those of killed processes must expire.
    fn open(folder: &Path) -> Self {
        Self::open_with_lease_time(folder, Duration::from_millis(300))
    }

    fn log(&self, id: &str) -> Vec<u8> {
        K::log(&self.space.url, &self.space.prefix, id)
    }

    fn put(&self, id: &str, bytes: &[u8]) {
        K::put(&self.space.url, &self.space.prefix, id, bytes);
    }

    fn aside(&self, id: &str) -> Vec<(u64, Vec<u8>)> {
        K::aside(&self.space.url, &self.space.prefix, id)
    }

    fn forget_aside(&self, id: &str) {
        K::forget_aside(&self.space.url, &self.space.prefix, id);
    }
}
