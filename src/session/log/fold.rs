//! A stored session, as its records make it.

use std::sync::Arc;

use crate::message::{Message, Todo};
use crate::session::{AgentState, Files, OpenCalls, StoredSession, title_of};

use super::line::Info;
use crate::session::record::{About, Change, MessageAdded};

/// A task list and files.
pub(in crate::session) type Beside = (Arc<Vec<Todo>>, Arc<Files>);

/// The session that results from the records so far.
#[derive(Clone, Debug)]
pub(in crate::session) struct Folded {
    state: AgentState,
    started: Vec<Arc<str>>,
    ended: Vec<Arc<Message>>,
    open_calls: OpenCalls,
    /// The ids of inputs appended since the last save, with the position of the message that each
    /// was stored with.
    inputs: Vec<(Option<usize>, Arc<str>)>,
    /// The first input of the user; a title stays when the history is cut.
    said_first: Option<Arc<str>>,
    /// The numbers of messages that were lost, with the position each loss precedes. Later records
    /// were written without knowledge of it, and count them.
    lost: Vec<(usize, usize)>,
    /// The position of a requested message, and the other state when it was added.
    moment: Option<(usize, Beside)>,
    /// The time of the first record, in milliseconds since the Unix epoch.
    pub(in crate::session) created: u64,
    /// The time of the last record.
    pub(in crate::session) at: u64,
    /// The number of the last record.
    pub(in crate::session) seq: u64,
    /// The highest fencing token.
    pub(in crate::session) token: u64,
}

impl Folded {
    pub(in crate::session) fn new(id: &str) -> Self {
        Self {
            state: AgentState::new(id),
            started: Vec::new(),
            ended: Vec::new(),
            open_calls: OpenCalls::default(),
            inputs: Vec::new(),
            said_first: None,
            lost: Vec::new(),
            moment: None,
            created: 0,
            at: 0,
            seq: 0,
            token: 0,
        }
    }

    /// Captures the moment when the message at this position is added.
    pub(in crate::session) fn look_at(mut self, message: usize) -> Self {
        self.moment = Some((message, Beside::default()));
        self
    }

    /// The task list and the files at the requested moment.
    pub(in crate::session) fn beside(self) -> Beside {
        self.moment.map(|(_, beside)| beside).unwrap_or_default()
    }

    /// Returns `true` if any record was written.
    pub(in crate::session) fn exists(&self) -> bool {
        self.seq > 0
    }

    pub(in crate::session) fn state(&self) -> &AgentState {
        &self.state
    }

    pub(in crate::session) fn has_open_calls(&self) -> bool {
        !self.started.is_empty() || !self.ended.is_empty()
    }

    pub(in crate::session) fn has_inputs(&self) -> bool {
        !self.inputs.is_empty()
    }

    pub(in crate::session) fn session(&self) -> StoredSession {
        let mut session = StoredSession::new(self.state.clone());
        session.started = self.started.clone();
        session.ended = self.ended.clone();
        for (place, id) in &self.inputs {
            session.input_ids.push(id.clone());
            if let Some(at) = *place {
                session.state.inputs.begin(id.clone(), at..at + 1);
            }
        }
        session
    }

    pub(in crate::session) fn apply(&mut self, change: Change) {
        if let Change::Message(MessageAdded { message, .. }) | Change::Ended(message) = &change
            && let Some(result) = message.as_tool_result()
        {
            let id = &result.tool_call_id;
            self.open_calls
                .remove(&mut self.started, &mut self.ended, id);
        }
        let state = &mut self.state;
        match change {
            Change::Message(added) => {
                if self.said_first.is_none() {
                    self.said_first = title(&added.message);
                }
                let len = state.messages.len();
                if let Some((_, beside)) = self.moment.as_mut().filter(|(at, _)| *at == len) {
                    *beside = (state.todos.clone(), state.files.clone());
                }
                let place = Some(len);
                self.inputs.extend(added.input_id.map(|id| (place, id)));
                state.messages.push(added.message);
            }
            Change::Info(info) => state.inform(info),
            Change::Keep(len) => self.keep(len),
            Change::Started(id) => self.open_calls.start(&mut self.started, id),
            Change::Ended(result) if result.as_tool_result().is_some() => {
                self.open_calls.end(&mut self.ended, result);
            }
            Change::Ended(_) => {}
            Change::Settled => {
                self.started.clear();
                self.ended.clear();
            }
            Change::Input(id) => self.inputs.push((None, id)),
            Change::Inputs(changed) => {
                state.inputs.apply(changed);
                self.inputs.clear();
                self.forget_what_is_behind_a_loss();
            }
            Change::About(about) => {
                state.user_id = about.user_id;
                state.title = about.title;
                state.cwd = about.cwd;
            }
            Change::Todos(todos) => state.todos = todos,
            Change::File(file) => {
                let files = Arc::make_mut(&mut state.files);
                match file.content {
                    Some(content) => drop(files.insert(file.path, content)),
                    None => drop(files.remove(&file.path)),
                }
            }
            Change::Compaction(compaction) => {
                state.compaction = compaction;
                self.forget_what_is_behind_a_loss();
            }
            Change::Pending(pending) => state.pending = pending,
            // Who wrote this had seen what is lost, and counts what is there.
            Change::Checked => self.lost.clear(),
        }
    }

    /// Applies a write from which records are missing: before the change number `hole`, or at its
    /// end. There were so many `messages` when it was done, where that is known.
    pub(in crate::session) fn apply_broken(
        &mut self,
        mut changes: Vec<Change>,
        hole: usize,
        messages: Option<usize>,
    ) {
        let mut rest = changes.split_off(hole);
        // The message it is about is what is missing.
        rest.drain(
            ..rest
                .iter()
                .take_while(|change| matches!(change, Change::Info(_)))
                .count(),
        );
        self.apply_loosely(changes);
        let cuts = rest.iter().any(|change| matches!(change, Change::Keep(_)));
        // A cut says itself where it is.
        if let Some(messages) = messages.filter(|_| !cuts) {
            let added = |change: &&Change| matches!(change, Change::Message(_));
            let before = messages.saturating_sub(rest.iter().filter(added).count());
            if before == self.state.messages.len() {
                // Whoever wrote this had seen an earlier loss, and what said so is lost.
                self.lost.clear();
            }
            self.keep(before);
            self.forget_from(self.state.messages.len());
        }
        self.apply_loosely(rest);
    }

    /// Also drops the data that a cut would have dropped, for the record of that may be missing.
    fn apply_loosely(&mut self, changes: Vec<Change>) {
        for change in changes {
            let cuts = matches!(change, Change::Keep(_));
            self.apply(change);
            if cuts {
                self.forget_from(self.state.messages.len());
            }
        }
    }

    /// Cuts the history to what is left of its first `len` messages, as they were counted when
    /// none was lost.
    fn keep(&mut self, len: usize) {
        let mut lost = 0;
        self.lost.retain_mut(|(place, count)| {
            *count = (*count).min(len.saturating_sub(place.saturating_add(lost)));
            lost = lost.saturating_add(*count);
            *count > 0
        });
        let left = len.saturating_sub(lost);
        let messages = self.state.messages.as_mut_vec();
        if let Some(more) = left.checked_sub(messages.len()).filter(|more| *more > 0) {
            self.lost.push((messages.len(), more));
            return;
        }
        messages.truncate(left);
        self.state.infos.keep(left);
        self.inputs
            .retain(|(place, _)| place.is_none_or(|place| place < left));
    }

    fn forget_what_is_behind_a_loss(&mut self) {
        if let Some((place, _)) = self.lost.first() {
            self.forget_from(*place);
        }
    }

    /// Forgets what names messages by their places, from this one on.
    fn forget_from(&mut self, place: usize) {
        let state = &mut self.state;
        state.inputs.forget_from(place);
        let compaction = state.compaction.as_ref();
        if compaction.is_some_and(|made| made.through_message > place) {
            state.compaction = None;
        }
    }

    /// The info for lists once `changes` are written at the time `at`.
    pub(super) fn info_after(&self, changes: &[Change], at: u64) -> Info {
        let mut messages = self.state.messages.len();
        let mut said_first = self.said_first.clone();
        let mut about = About::of(&self.state);
        for change in changes {
            match change {
                Change::Message(added) => {
                    messages += 1;
                    said_first = said_first.or_else(|| title(&added.message));
                }
                Change::Keep(len) => messages = messages.min(*len),
                Change::About(changed) => about = changed.clone(),
                _ => {}
            }
        }
        Info {
            messages,
            created: if self.exists() { self.created } else { at },
            title: about.title.or(said_first),
            user_id: about.user_id,
            cwd: about.cwd,
        }
    }
}

fn title(message: &Message) -> Option<Arc<str>> {
    match message {
        Message::User(_) => title_of(message),
        _ => None,
    }
}
