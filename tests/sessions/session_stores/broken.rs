//! Stores that break the contract: the conformance suite reports the check that fails.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentcore::session::{Lease, Record, SessionInfo, StoredSession};
use agentcore::testing::conformance;
use agentcore::{
    AgentState, Error, ErrorKind, Message, Messages, Result, SessionStore, ThreadStore, async_trait,
};
use tokio::task::yield_now;

use crate::kit::spied_store::{Spied, Spy};

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
    SavesNoQuestions,
    SavesNoInputs,
    KeepsInputIds,
    CountsAnewWhenOpened,
    BreaksLines,
    KeepsForeignIds,
    CreatesNoId,
    CreatesTwice,
    CreatesWhatIsHeld,
    BeginsFromTheOld,
    TakesAnyEnd,
    ListsEmptyWrites,
    LoadsNoId,
    RetitlesWhatIsCut,
    ImportsAnyVersion,
    ExcludesOnlyItself,
    CountsEachForItself,
}

/// A store in memory with a fault.
struct Broken {
    inner: ThreadStore,
    fault: Fault,
    /// The difference between the tokens of the inner store and those of this store's leases.
    behind: u64,
    /// Input ids, ended calls and foreign thread ids that `load` returns although it must not.
    wrong: Mutex<HashMap<String, StoredSession>>,
    /// True while the store itself holds a lease.
    held: Arc<AtomicBool>,
    /// Records that were acknowledged but are not stored yet.
    late: Mutex<Vec<(String, Vec<Record>)>>,
    /// The sources and ids of forks.
    forks: Mutex<Vec<(String, String)>>,
}

impl Broken {
    fn on(inner: ThreadStore, fault: Fault) -> Self {
        Self {
            inner,
            fault,
            behind: 0,
            wrong: Mutex::default(),
            held: Arc::default(),
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
            for record in &mut records {
                if let Record::About { cwd, .. } = record {
                    *cwd = None;
                }
            }
        }

        if self.fault == Fault::KeepsMessagesOnly {
            records.retain(|record| !matches!(record, Record::Todos { .. } | Record::File { .. }));
        }

        if self.fault == Fault::BeginsFromTheOld {
            let is_about = |record: &Record| matches!(record, Record::About { .. });
            let first = records.iter().position(is_about);
            let mut at = 0..;
            records.retain(|record| at.next() == first || !is_about(record));
        }

        if self.fault == Fault::BreaksLines {
            let is_line =
                |message: &Message| !serde_json::to_string(message).unwrap().contains('\n');
            records.retain(|record| match record {
                Record::Message { message, .. } => is_line(message),
                _ => true,
            });
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

    /// Adds data that `load` must not return.
    fn wrong(&self, id: &str, f: impl FnOnce(&mut StoredSession)) {
        f(self.wrong.lock().unwrap().entry(id.to_owned()).or_default());
    }

    /// Returns the lease with the token of the inner store.
    fn below(&self, lease: &Lease) -> Lease {
        let token = lease.token() + self.behind;
        Lease::new(lease.session_id().clone(), token, || {})
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
        if self.fault == Fault::LoadsNoId && id.is_empty() {
            return Err(Error::new(ErrorKind::InvalidRequest, "no id"));
        }

        let mut session = self.inner.load(&self.id(id)).await?;
        if let (Some(session), Some(wrong)) = (&mut session, self.wrong.lock().unwrap().get(id)) {
            session.input_ids.extend(wrong.input_ids.iter().cloned());
            session.ended.extend(wrong.ended.iter().cloned());
            if !wrong.state.thread_id.is_empty() {
                session.state.thread_id = wrong.state.thread_id.clone();
            }
        }

        Ok(session)
    }

    async fn append(&self, lease: &Lease, records: Vec<Record>) -> Result<()> {
        let id = lease.session_id().clone();
        let lease = &self.below(lease);
        if self.fault == Fault::ListsEmptyWrites && records.is_empty() {
            self.inner.load_or_create(&id);
        }

        for record in &records {
            match (self.fault, record) {
                (Fault::TakesAnyEnd, Record::ToolEnded { result })
                    if result.as_tool_result().is_none() =>
                {
                    self.wrong(&id, |wrong| wrong.ended.push(result.clone()));
                }
                _ => {}
            }
        }

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
        let id = lease.session_id().clone();
        let lease = &self.below(lease);
        let mut state = state.clone();
        if self.fault == Fault::SavesNoFiles {
            state.files = Arc::default();
        }

        if self.fault == Fault::SavesNoQuestions {
            state.pending.clear();
        }

        if self.fault == Fault::SavesNoInputs {
            let mut json = serde_json::to_value(&state)?;
            json.as_object_mut().unwrap().remove("inputs");
            state = serde_json::from_value(json)?;
        }

        if self.fault == Fault::KeepsForeignIds {
            let foreign = state.thread_id.clone();
            self.wrong(&id, |wrong| wrong.state.thread_id = foreign);
        }

        if self.fault == Fault::KeepsInputIds {
            let input_ids = self.inner.load(&id).await?.unwrap_or_default().input_ids;
            self.wrong(&id, |wrong| wrong.input_ids = input_ids);
        }

        if self.fault == Fault::SavesInSteps {
            let mut half = state.clone();
            half.files = Arc::default();
            half.messages = Messages::default();
            SessionStore::save(&self.inner, lease, &half).await?;
            yield_now().await;
        }

        let former = match self.fault {
            Fault::KeepsWhatStarted => self.inner.load(lease.session_id()).await?,
            _ => None,
        };

        SessionStore::save(&self.inner, lease, &state).await?;
        let former = former.map(|found| found.started).unwrap_or_default();
        let records = former.into_iter();
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

        if self.fault == Fault::RetitlesWhatIsCut {
            for info in &mut list {
                let state = self.inner.get(&info.id).unwrap_or_default();
                let first = state
                    .messages
                    .iter()
                    .next()
                    .map(|message| message.text().into());
                info.title = state.title.or(first);
            }
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

        if self.fault == Fault::ExcludesOnlyItself {
            let lease = self.inner.lease(&id).await;
            if lease.is_err() && self.held.load(Ordering::Relaxed) {
                return lease;
            }

            let token = lease.as_ref().map_or(0, Lease::token);
            let held = self.held.clone();
            held.store(true, Ordering::Relaxed);
            return Ok(Lease::new(id, token, move || {
                held.store(false, Ordering::Relaxed);
                drop(lease);
            }));
        }

        let lease = ManuallyDrop::new(self.inner.lease(&id).await?);
        if self.behind > 0 {
            let lease = ManuallyDrop::into_inner(lease);
            let token = lease.token() - self.behind;
            return Ok(Lease::new(id, token, || drop(lease)));
        }

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
                let old = session.state.thread_id.clone();
                self.wrong(id, |wrong| wrong.state.thread_id = old);
                self.inner.create(id, session).await
            }
            Fault::OverwritesWithForks => {
                let mut session = session;
                session.state.thread_id = id.into();
                self.inner.save(id, session.state);
                Ok(())
            }
            Fault::CreatesNoId if id.is_empty() => Ok(()),
            Fault::CreatesTwice => {
                if self.inner.get(id).is_some() {
                    return Err(Error::new(ErrorKind::Conflict, "it exists"));
                }

                drop(self.inner.lease(id).await?);
                yield_now().await;
                self.inner.save(id, session.state);
                Ok(())
            }
            Fault::CreatesWhatIsHeld if self.inner.get(id).is_none() => {
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
            let messages_before = state.messages.as_slice()[..messages].iter().cloned();
            state.messages = messages_before.collect::<Messages>();
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

    async fn import(&self, id: &str, json: &[u8]) -> Result<()> {
        if self.fault != Fault::ImportsAnyVersion {
            return self.inner.import(id, json).await;
        }
        let json = String::from_utf8_lossy(json).replace("\"v\":2", "\"v\":1");
        self.inner.import(id, json.as_bytes()).await
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

        let mut broken = Broken::on(inner, fault);
        if fault == Fault::CountsAnewWhenOpened {
            broken.behind = broken.inner.lease("newest").await.unwrap().token();
        }

        broken
    };

    match conformance::session_store(make, reopen).await {
        Ok(()) => String::new(),
        Err(error) => error.text().to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn suite_reports_each_store_fault_by_its_check() {
    assert_eq!(report(Fault::None).await, "");
    for (fault, check) in [
        (Fault::LosesTheLastRecord, "appending"),
        (Fault::LosesInputIds, "appending"),
        (Fault::LosesInputIds, "reopening"),
        (Fault::SavesNoFiles, "saving"),
        (Fault::KeepsWhatStarted, "calls that had started"),
        (Fault::KnowsNoDirectory, "data about a run"),
        (Fault::KeepsMessagesOnly, "data other than the history"),
        (Fault::CutsLongTexts, "large messages"),
        (Fault::IgnoresCase, "ids"),
        (Fault::TakesNoId, "ids"),
        (Fault::SharesLeases, "leases"),
        (Fault::WritesWithStaleLeases, "writers that were replaced"),
        (Fault::WritesOneByOne, "concurrent writes"),
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
        (Fault::ForgetsOnOpening, "reopening"),
        (Fault::AcknowledgesTooSoon, "reopening"),
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
        (Fault::SavesNoQuestions, "saving"),
        (Fault::SavesNoInputs, "saving"),
        (Fault::KeepsInputIds, "saving"),
        (Fault::CountsAnewWhenOpened, "reopening"),
        (Fault::BreaksLines, "blocks of a provider"),
        (Fault::KeepsForeignIds, "ids of others"),
        (Fault::CreatesNoId, "ids"),
        (Fault::CreatesTwice, "creating"),
        (Fault::CreatesWhatIsHeld, "creating"),
        (Fault::BeginsFromTheOld, "data about a run"),
        (Fault::TakesAnyEnd, "calls that had ended"),
        (Fault::ListsEmptyWrites, "appending"),
        (Fault::LoadsNoId, "ids"),
        (Fault::RetitlesWhatIsCut, "listing"),
        (Fault::ImportsAnyVersion, "export and import"),
    ] {
        let report = report(fault).await;
        let is_named = |line: &str| line.starts_with(&format!("{check}: "));
        assert!(report.lines().any(is_named), "{fault:?}: {report:?}");
    }
}

async fn report_of_two(fault: Fault) -> String {
    let make = || async move {
        let store = ThreadStore::new();
        let mut other = Broken::on(store.clone(), fault);
        if fault == Fault::CountsEachForItself {
            drop(store.lease("first").await.unwrap());
            other.behind = 1;
        }

        (Broken::on(store, fault), other)
    };

    match conformance::shared_session_store(make).await {
        Ok(()) => String::new(),
        Err(error) => error.text().to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn shared_suite_reports_each_fault_between_two_stores() {
    assert_eq!(report_of_two(Fault::None).await, "");
    for (fault, check) in [
        (Fault::ExcludesOnlyItself, "leases of two stores"),
        (Fault::CountsEachForItself, "turns of two stores"),
        (Fault::OverwritesWithForks, "made by two stores"),
    ] {
        let report = report_of_two(fault).await;
        let is_named = |line: &str| line.starts_with(&format!("{check}: "));
        assert!(report.lines().any(is_named), "{fault:?}: {report:?}");
    }
}

/// A spy that does nothing, so that the store uses the provided methods of the trait.
struct Nothing;

impl Spy for Nothing {}

#[tokio::test]
async fn provided_store_methods_pass_the_suite() {
    let make = || async { Spied(ThreadStore::new(), Nothing) };
    conformance::session_store(make, |store| async { store })
        .await
        .unwrap();
}
