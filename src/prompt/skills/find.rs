//! The search for `SKILL.md` files.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend, EntryKind, entry_path, is_not_found, workspace_path};
use crate::util::front_matter;
use crate::util::text::is_hidden;

use super::catalog::{FrontMatter, Skill};

const FILE: &str = "SKILL.md";
/// The maximum depth of folders below a given one; deeper ones are not entered.
const MAX_DEPTH: usize = 8;
/// The maximum number of folders of a search.
const MAX_FOLDERS: usize = 2_000;
/// The maximum number of entries of folders of a search.
const MAX_ENTRIES: usize = 200_000;
/// The maximum number of skills that a search finds.
const MAX_SKILLS: usize = 500;
/// The time after which a search visits no more folders. In a container, each takes a process.
const MAX_TIME: Duration = Duration::from_secs(120);
/// The maximum size of the front matter of a file, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// The maximum number of warnings; beyond it they are only counted.
const MAX_WARNINGS: usize = 20;
/// Folders that are never entered: large, and without skills.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// The result of a search: the skills, by the order of the searched folders and then by path, and
/// warnings about problems.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) skills: Vec<Skill>,
    pub(crate) warnings: Vec<String>,
    suppressed_warnings: usize,
    folders: usize,
    entries: usize,
    /// The files read so far: folders may be given twice, or one below another.
    files: BTreeSet<String>,
}

/// A folder to look into.
struct Folder {
    path: String,
    depth: usize,
    /// True for a link. Only the `SKILL.md` of the folder that it leads to is read, because links
    /// may lead in circles or to large folders.
    is_link: bool,
}

/// Searches folders, and those below them, for skills. Problems are warnings of the result.
pub(crate) async fn find(backend: &dyn Backend, paths: &[String]) -> Search {
    let mut search = Search::default();
    let deadline = Instant::now() + MAX_TIME;
    for path in paths {
        let mut stack = vec![Folder {
            path: workspace_path(backend, path),
            depth: 0,
            is_link: false,
        }];
        while let Some(folder) = stack.pop() {
            search.folders += 1;
            if search.folders > MAX_FOLDERS || search.skills.len() >= MAX_SKILLS {
                search.warn(format_args!(
                    "the search ended at {}: more than {MAX_FOLDERS} folders or {MAX_SKILLS} skills",
                    folder.path
                ));
                return search.with_warning_count();
            }

            let folder_path = folder.path.clone();
            if Instant::now() >= deadline {
                search.warn(format_args!(
                    "the search ended before {folder_path}: it took more than {} s",
                    MAX_TIME.as_secs()
                ));
                return search.with_warning_count();
            }
            search.visit(backend, folder, path, &mut stack).await;
            if search.entries > MAX_ENTRIES {
                search.warn(format_args!(
                    "the search ended at {folder_path}: more than {MAX_ENTRIES} entries"
                ));
                return search.with_warning_count();
            }
        }
    }

    search.with_warning_count()
}

impl Search {
    /// Reads the skill of a folder that a link leads to, without listing the folder.
    async fn follow(&mut self, backend: &dyn Backend, folder: &str, source: &str) {
        // Links to files, broken links and links out of the workspace have no such file.
        let Ok(metadata) = backend.stat(&entry_path(folder, FILE)).await else {
            return;
        };
        if metadata.kind == EntryKind::File {
            self.read(backend, folder, source).await;
        }
    }

    /// Visits a folder below `source`.
    async fn visit(
        &mut self,
        backend: &dyn Backend,
        folder: Folder,
        source: &str,
        stack: &mut Vec<Folder>,
    ) {
        if folder.is_link {
            return self.follow(backend, &folder.path, source).await;
        }
        let entries = match backend.list(&folder.path).await {
            Ok(entries) => entries,
            Err(error) if is_not_found(&error) => return,
            Err(error) => {
                return self.warn(format_args!("{} was not searched: {error}", folder.path));
            }
        };

        self.entries += entries.len();
        if self.entries > MAX_ENTRIES {
            return;
        }

        let is_file = |kind| matches!(kind, EntryKind::File | EntryKind::Symlink);
        if entries.iter().any(|e| e.name == FILE && is_file(e.kind)) {
            self.read(backend, &folder.path, source).await;
        }

        let folder_entries = entries.iter().filter(|entry| {
            matches!(entry.kind, EntryKind::Dir | EntryKind::Symlink)
                && entry.name != FILE
                && !SKIPPED.contains(&&*entry.name)
        });

        if folder.depth == MAX_DEPTH {
            for entry in folder_entries {
                let path = entry_path(&folder.path, &entry.name);
                self.warn(format_args!("{path} was not searched: it lies too deep"));
            }
            return;
        }

        // The number of folders that are still taken from the stack, with the one at which the
        // search ends.
        let room = (MAX_FOLDERS + 1).saturating_sub(self.folders);
        let folders: Vec<_> = folder_entries
            .take(room)
            .map(|entry| Folder {
                path: entry_path(&folder.path, &entry.name),
                depth: folder.depth + 1,
                is_link: entry.kind == EntryKind::Symlink,
            })
            .collect();
        // The search ends before it reaches the bottom of a longer stack.
        let excess = (stack.len() + folders.len()).saturating_sub(room);
        stack.drain(..excess.min(stack.len()));
        // The first entry is pushed last, so that it is visited first.
        stack.extend(folders.into_iter().rev());
    }

    async fn read(&mut self, backend: &dyn Backend, folder: &str, source: &str) {
        let path = entry_path(folder, FILE);
        if !self.files.insert(path.clone()) {
            return;
        }

        if path.contains(|c: char| c.is_control() || is_hidden(c)) {
            return self.warn(format_args!(
                "{path:?} is left out: its path has characters that do not show"
            ));
        }

        let content = match backend.read_range(&path, 0, MAX_HEAD).await {
            Ok(content) => content,
            Err(error) => return self.warn(format_args!("{path} was not read: {error}")),
        };

        let front_matter: FrontMatter = match front_matter::read(&content) {
            Ok(front_matter) => front_matter,
            Err(wrong) => return self.warn(format_args!("{path} is left out: {wrong}")),
        };

        let name = folder.rsplit('/').next().unwrap_or_default();
        let mut complaints = Vec::new();
        let skill = Skill::new(path, name, source, &front_matter, &mut complaints);
        for complaint in complaints {
            self.warn(format_args!("{}: {complaint}", skill.path));
        }

        match self.skills.iter().find(|other| other.name == skill.name) {
            None => self.skills.push(skill),
            Some(first) => {
                let text = format!(
                    "{} is left out: {} has the name {:?}, too",
                    skill.path, first.path, skill.name
                );
                self.warn(text);
            }
        }
    }

    fn warn(&mut self, text: impl Display) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(text.to_string());
        } else {
            self.suppressed_warnings += 1;
        }
    }

    fn with_warning_count(mut self) -> Self {
        if self.suppressed_warnings > 0 {
            self.warnings
                .push(format!("{} more warnings", self.suppressed_warnings));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::backend::{DirEntry, MemoryBackend, Metadata};
    use crate::error::Result;

    /// A backend whose lists take a second each.
    #[derive(Debug)]
    struct SlowLists(MemoryBackend);

    #[async_trait::async_trait]
    impl Backend for SlowLists {
        fn root(&self) -> &str {
            self.0.root()
        }

        async fn read(&self, path: &str) -> Result<Bytes> {
            self.0.read(path).await
        }

        async fn stat(&self, path: &str) -> Result<Metadata> {
            self.0.stat(path).await
        }

        async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
            self.0.write(path, content).await
        }

        async fn list(&self, path: &str) -> Result<Vec<DirEntry>> {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.0.list(path).await
        }

        async fn remove(&self, path: &str) -> Result<()> {
            self.0.remove(path).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn search_in_a_slow_backend_ends_with_the_skills_that_were_found() {
        let files = MemoryBackend::new();
        for number in 0..200 {
            let path = format!("skills/s{number:03}/SKILL.md");
            let text = format!("---\nname: s{number:03}\ndescription: x\n---\n");
            files.write(&path, text.as_bytes()).await.unwrap();
        }
        let start = Instant::now();
        let search = find(&SlowLists(files), &["skills".to_owned()]).await;
        assert!(start.elapsed() <= MAX_TIME + Duration::from_secs(1));
        assert!((118..=121).contains(&search.skills.len()));
        assert!(search.warnings[0].contains("more than 120 s"));
    }

    #[tokio::test]
    async fn search_remembers_no_more_folders_than_it_visits() {
        let backend = MemoryBackend::new();
        for number in 0..MAX_FOLDERS + 500 {
            let path = format!("skills/a{number:04}/x");
            backend.write(&path, b"").await.unwrap();
        }

        let folder = |path: &str| Folder {
            path: path.to_owned(),
            depth: 1,
            is_link: false,
        };
        let mut search = Search {
            folders: 10,
            ..Search::default()
        };
        let mut stack = vec![folder("last")];
        let visited = folder("skills");
        search.visit(&backend, visited, "skills", &mut stack).await;
        assert_eq!(stack.len(), MAX_FOLDERS + 1 - 10);
        assert_eq!(stack.last().unwrap().path, "skills/a0000");
    }
}
