//! A store that breaks its contract fails the suite, by the check it should.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::state::{Lease, Record, SessionInfo, StoredSession};
use agentcore::testing::conformance;
use agentcore::{
    AgentState, Error, ErrorKind, Message, Messages, Result, SessionStore, ThreadStore, async_trait,
};
use tokio::task::yield_now;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    LosesTheLastRecord,
    LosesInputIds,
    SavesNoFiles,
    KeepsWhatStarted,
    KnowsNoDirectory,
    KeepsMessagesOnly,
    CutsLongTexts,
    IgnoresCase,
    TakesNoId,
    SharesLeases,
    WritesWithStaleLeases,
    WritesOneByOne,
    LeaksLeases,
    ForksUnderTheOldId,
    OverwritesWithForks,
    PartsCalls,
    ExportsNoStarts,
    ListsByName,
    ListsLeased,
    DeletesWhatIsHeld,
    PrunesTheYoung,
    TakesAnyDirectory,
    ForgetsOnOpening,
    AcknowledgesTooSoon,
    SavesInSteps,
    ForksInSteps,
    SharesForks,
    LeavesRests,
    CountsLeasesAnew,
    ListsOneTooFew,
    CountsTooFew,
}

/// Memory with a fault.
struct Broken {
    inner: ThreadStore,
    fault: Fault,
    /// What was acknowledged and is not in the store yet.
    late: Mutex<Vec<(String, Vec<Record>)>>,
    /// Which sessions were made of which.
    forks: Mutex<Vec<(String, String)>>,
}

impl Broken {
    fn on(inner: ThreadStore, fault: Fault) -> Self {
        Self {
            inner,
            fault,
            late: Mutex::default(),
            forks: Mutex::default(),
        }
    }

    fn id(&self, id: &str) -> String {
        match self.fault {
            Fault::IgnoresCase => id.to_lowercase(),
            Fault::TakesNoId if id.is_empty() => "nobody".into(),
            _ => id.to_owned(),
        }
    }

    fn spoil(&self, mut records: Vec<Record>) -> Vec<Record> {
        if self.fault == Fault::LosesTheLastRecord && records.len() > 1 {
            records.pop();
        }
        if self.fault == Fault::KnowsNoDirectory {
            records.retain(|record| !matches!(record, Record::Began { .. }));
        }
        if self.fault == Fault::KeepsMessagesOnly {
            records.retain(|record| !matches!(record, Record::Todos { .. } | Record::File { .. }));
        }
        for record in &mut records {
            let Record::Message { message, input_id } = record else {
                continue;
            };
            if self.fault == Fault::LosesInputIds {
                *input_id = None;
            }
            if self.fault == Fault::CutsLongTexts && message.text().len() > 100_000 {
                *message = Arc::new(Message::human("too long"));
            }
        }
        records
    }

    fn write_late(&self) {
        for (id, records) in std::mem::take(&mut *self.late.lock().unwrap()) {
            self.overwrite(&id, records);
        }
    }

    fn overwrite(&self, id: &str, records: Vec<Record>) {
        let mut state = self.inner.get(id).unwrap_or_default();
        for record in records {
            if let Record::Message { message, .. } = record {
                state.messages.push(message);
            }
        }
        self.inner.save(id, state);
    }
}

#[async_trait]
impl SessionStore for Broken {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        self.write_late();
        self.inner.load(&self.id(id)).await
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        let records = self.spoil(records);
        let is_said = |record: &Record| matches!(record, Record::Message { .. });
        if self.fault == Fault::AcknowledgesTooSoon && records.iter().all(is_said) {
            let id = lease.session_id().to_string();
            self.late.lock().unwrap().push((id, records));
            return Ok(());
        }
        let forks = self.forks.lock().unwrap().clone();
        for (from, to) in forks {
            if self.fault == Fault::SharesForks && *to == **lease.session_id() {
                self.overwrite(&from, records.clone());
            }
        }
        if self.fault == Fault::WritesOneByOne {
            for record in records {
                self.inner.append(lease, vec![record]).await?;
                yield_now().await;
            }
            return Ok(());
        }
        match self.inner.append(lease, records.clone()).await {
            Err(error)
                if self.fault == Fault::WritesWithStaleLeases
                    && error.kind() == ErrorKind::Conflict =>
            {
                self.overwrite(lease.session_id(), records);
                Ok(())
            }
            outcome => outcome,
        }
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        let mut state = state.clone();
        if self.fault == Fault::SavesNoFiles {
            state.files = Arc::default();
        }
        if self.fault == Fault::SavesInSteps {
            let mut half = state.clone();
            half.files = Arc::default();
            half.messages = Messages::default();
            SessionStore::save(&self.inner, lease, &half).await?;
            yield_now().await;
        }
        let started = match self.fault {
            Fault::KeepsWhatStarted => self.inner.load(lease.session_id()).await?,
            _ => None,
        };
        SessionStore::save(&self.inner, lease, &state).await?;
        let started = started.map(|found| found.started).unwrap_or_default();
        let records = started.into_iter();
        let records = records.map(|call_id| Record::ToolStarted { call_id });
        self.inner.append(lease, records.collect()).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        self.write_late();
        let mut list = self.inner.list().await?;
        if self.fault == Fault::ListsOneTooFew {
            list.pop();
        }
        if self.fault == Fault::CountsTooFew {
            list.iter_mut().for_each(|info| info.messages = 1);
        }
        if self.fault == Fault::ListsByName {
            list.sort_by_key(|info| info.id.clone());
        }
        Ok(list)
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        if self.fault == Fault::DeletesWhatIsHeld {
            return Ok(self.inner.delete(id));
        }
        if self.fault == Fault::LeavesRests {
            let Some(mut rest) = self.inner.get(id) else {
                return Ok(false);
            };
            rest.messages = Messages::default();
            let is_new = rest.files.is_empty();
            let deleted = SessionStore::delete(&self.inner, id).await?;
            if !is_new {
                self.inner.save(id, rest);
            }
            return Ok(deleted);
        }
        SessionStore::delete(&self.inner, &self.id(id)).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        let id = self.id(id);
        self.write_late();
        if self.fault == Fault::CountsLeasesAnew {
            let lease = self.inner.lease(&id).await?;
            return Ok(Lease::new(id, 1, || drop(lease)));
        }
        if self.fault == Fault::ListsLeased {
            self.inner.load_or_create(&id);
        }
        if self.fault == Fault::SharesLeases {
            let lease = self.inner.lease(&id).await;
            let token = lease.as_ref().map_or(1, Lease::token);
            return Ok(Lease::new(id, token, || drop(lease)));
        }
        let lease = ManuallyDrop::new(self.inner.lease(&id).await?);
        if self.fault == Fault::LeaksLeases {
            yield_now().await;
        }
        Ok(ManuallyDrop::into_inner(lease))
    }

    async fn create(&self, id: &str, session: StoredSession) -> Result<()> {
        match self.fault {
            Fault::ForksInSteps => {
                let lease = self.inner.lease(id).await?;
                let mut state = session.state;
                state.thread_id = id.into();
                let mut half = state.clone();
                half.todos = Arc::default();
                SessionStore::save(&self.inner, &lease, &half).await?;
                yield_now().await;
                SessionStore::save(&self.inner, &lease, &state).await
            }
            Fault::ForksUnderTheOldId => {
                self.inner.create(id, session.clone()).await?;
                self.inner.save(id, session.state);
                Ok(())
            }
            Fault::OverwritesWithForks => {
                let mut session = session;
                session.state.thread_id = id.into();
                self.inner.save(id, session.state);
                Ok(())
            }
            _ => self.inner.create(id, session).await,
        }
    }

    async fn fork(&self, from: &str, to: &str) -> Result<()> {
        self.write_late();
        let session = self.inner.load(from).await?;
        let session = session.ok_or_else(|| Error::new(ErrorKind::SessionNotFound, "no such"))?;
        self.create(to, session).await?;
        let names = (from.to_owned(), to.to_owned());
        self.forks.lock().unwrap().push(names);
        Ok(())
    }

    async fn fork_at(&self, from: &str, to: &str, messages: usize) -> Result<()> {
        self.inner.fork_at(from, to, messages).await?;
        if self.fault == Fault::PartsCalls {
            let mut state = self.inner.get(to).unwrap_or_default();
            let kept = state.messages.as_slice()[..messages].iter().cloned();
            state.messages = kept.collect::<Messages>();
            self.inner.save(to, state);
        }
        Ok(())
    }

    async fn export(&self, id: &str) -> Result<String> {
        let json = self.inner.export(id).await?;
        if self.fault != Fault::ExportsNoStarts {
            return Ok(json);
        }
        let state: AgentState = serde_json::from_str(&json)?;
        Ok(serde_json::to_string(&state)?)
    }

    async fn prune(&self, older_than: Duration) -> Result<usize> {
        let older_than = match self.fault {
            Fault::PrunesTheYoung => Duration::ZERO,
            _ => older_than,
        };
        self.inner.prune(older_than).await
    }

    async fn latest(&self, cwd: &str) -> Result<Option<SessionInfo>> {
        if self.fault == Fault::TakesAnyDirectory {
            return Ok(self.inner.list().await?.into_iter().next());
        }
        self.inner.latest(cwd).await
    }
}

async fn report(fault: Fault) -> String {
    let make = || async move { Broken::on(ThreadStore::new(), fault) };
    let reopen = |store: Broken| async move {
        let inner = match fault {
            Fault::ForgetsOnOpening => ThreadStore::new(),
            _ => store.inner,
        };
        Broken::on(inner, fault)
    };
    match conformance::session_store(make, reopen).await {
        Ok(()) => String::new(),
        Err(error) => error.text().to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_is_found_by_its_check() {
    assert_eq!(report(Fault::None).await, "");
    for (fault, check) in [
        (Fault::LosesTheLastRecord, "appending"),
        (Fault::LosesInputIds, "appending"),
        (Fault::LosesInputIds, "opening anew"),
        (Fault::SavesNoFiles, "saving"),
        (Fault::KeepsWhatStarted, "calls that had started"),
        (Fault::KnowsNoDirectory, "what belongs to a run"),
        (Fault::KeepsMessagesOnly, "what stands beside the history"),
        (Fault::CutsLongTexts, "large messages"),
        (Fault::IgnoresCase, "ids"),
        (Fault::TakesNoId, "ids"),
        (Fault::SharesLeases, "leases"),
        (Fault::WritesWithStaleLeases, "writers that were replaced"),
        (Fault::WritesOneByOne, "writes side by side"),
        (Fault::WritesOneByOne, "futures that are dropped"),
        (Fault::LeaksLeases, "futures that are dropped"),
        (Fault::ForksUnderTheOldId, "forking"),
        (Fault::OverwritesWithForks, "forking"),
        (Fault::PartsCalls, "forking at a message"),
        (Fault::ExportsNoStarts, "export and import"),
        (Fault::ListsByName, "listing"),
        (Fault::ListsLeased, "leases"),
        (Fault::DeletesWhatIsHeld, "deleting"),
        (Fault::PrunesTheYoung, "pruning"),
        (Fault::TakesAnyDirectory, "the latest of a directory"),
        (Fault::ForgetsOnOpening, "opening anew"),
        (Fault::AcknowledgesTooSoon, "opening anew"),
        (
            Fault::SavesInSteps,
            "saves, copies and removals that are dropped",
        ),
        (
            Fault::ForksInSteps,
            "saves, copies and removals that are dropped",
        ),
        (Fault::SharesForks, "forking"),
        (Fault::LeavesRests, "deleting"),
        (Fault::CountsLeasesAnew, "leases"),
        (Fault::ListsOneTooFew, "listing"),
        (Fault::CountsTooFew, "listing"),
    ] {
        let report = report(fault).await;
        let is_named = |line: &str| line.starts_with(&format!("{check}: "));
        assert!(report.lines().any(is_named), "{fault:?}: {report:?}");
    }
}

/// Only the six methods that a store cannot do without.
struct Small(ThreadStore);

#[async_trait]
impl SessionStore for Small {
    async fn load(&self, id: &str) -> Result<Option<StoredSession>> {
        self.0.load(id).await
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        self.0.append(lease, records).await
    }

    async fn save(&self, lease: &Lease, state: &AgentState) -> Result<()> {
        SessionStore::save(&self.0, lease, state).await
    }

    async fn list(&self) -> Result<Vec<SessionInfo>> {
        self.0.list().await
    }

    async fn delete(&self, id: &str) -> Result<bool> {
        SessionStore::delete(&self.0, id).await
    }

    async fn lease(&self, id: &str) -> Result<Lease> {
        self.0.lease(id).await
    }
}

#[tokio::test]
async fn the_provided_methods_keep_the_contract() {
    let make = || async { Small(ThreadStore::new()) };
    conformance::session_store(make, |store| async { store })
        .await
        .unwrap();
}
