//! The newest sessions of a list.

use std::cmp::Reverse;
use std::collections::HashSet;

use crate::session::SessionInfo;

/// The maximum number of sessions in a list.
pub(super) const MAX_COUNT: usize = 100_000;
/// The maximum size of the texts of a list, in bytes.
pub(super) const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The sessions that were written last, of all that are added.
pub(super) struct Newest {
    infos: Vec<SessionInfo>,
    bytes: usize,
    max_count: usize,
    max_bytes: usize,
}

impl Newest {
    pub(super) fn new(max_count: usize, max_bytes: usize) -> Self {
        Self {
            infos: Vec::new(),
            bytes: 0,
            max_count,
            max_bytes,
        }
    }

    pub(super) fn add(&mut self, info: SessionInfo) {
        self.bytes += text_bytes(&info);
        self.infos.push(info);
        // Only at twice the limits, so that few additions cause a sort.
        if self.infos.len() > 2 * self.max_count || self.bytes > 2 * self.max_bytes {
            self.cut();
        }
    }

    /// Returns the sessions, newest first.
    pub(super) fn into_list(mut self) -> Vec<SessionInfo> {
        self.cut();
        self.infos
    }

    /// Removes duplicates, and the oldest sessions over the limits.
    fn cut(&mut self) {
        self.infos.sort_by_key(|info| Reverse(info.updated_at));
        let mut ids = HashSet::new();
        self.infos.retain(|info| ids.insert(info.id.clone()));
        self.infos.truncate(self.max_count);
        self.bytes = 0;
        let mut count = 0;
        for info in &self.infos {
            let bytes = self.bytes + text_bytes(info);
            if bytes > self.max_bytes {
                break;
            }
            self.bytes = bytes;
            count += 1;
        }
        self.infos.truncate(count);
    }
}

fn text_bytes(info: &SessionInfo) -> usize {
    let (title, user_id, cwd) = (&info.title, &info.user_id, &info.cwd);
    let texts = [title, user_id, cwd, &info.parent, &info.problem]
        .into_iter()
        .flatten();
    info.id.len() + texts.map(|text| text.len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn list(max_count: usize, max_bytes: usize, infos: &[(u64, &str)]) -> Vec<String> {
        let mut newest = Newest::new(max_count, max_bytes);
        for (time, id) in infos {
            let mut info = SessionInfo::new(*id, 1);
            info.updated_at = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(*time));
            newest.add(info);
            assert!(newest.infos.len() <= 2 * max_count && newest.bytes <= 2 * max_bytes);
        }
        newest
            .into_list()
            .into_iter()
            .map(|info| info.id.to_string())
            .collect()
    }

    #[test]
    fn list_has_the_newest_within_its_limits() {
        let ids: Vec<String> = (0..20).map(|number| format!("{number:02}")).collect();
        let times = (0..20).map(|number| number * 7 % 20);
        let infos: Vec<_> = times.zip(ids.iter().map(String::as_str)).collect();
        let mut expected = infos.clone();
        expected.sort_by_key(|(time, _)| Reverse(*time));
        let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
        assert_eq!(list(100, 1000, &infos), expected);
        assert_eq!(list(3, 1000, &infos), expected[..3]);
        assert_eq!(list(100, 11, &infos), expected[..5]);
    }

    #[test]
    fn session_that_is_added_twice_is_listed_once() {
        assert_eq!(list(9, 99, &[(1, "a"), (2, "b"), (3, "a")]), ["a", "b"]);
    }
}
