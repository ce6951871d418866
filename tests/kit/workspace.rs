//! A temporary workspace, and a folder next to it that no tool may reach.

use std::path::{Path, PathBuf};

use agentcore::backend::LocalBackend;
use tempfile::TempDir;

pub struct Workspace {
    _held: TempDir,
    pub root: PathBuf,
    pub out: PathBuf,
    pub backend: LocalBackend,
}

impl Workspace {
    /// Creates `a/in.txt` with `inside` in it, and `out/secret` next to the root.
    pub fn new() -> Self {
        let held = tempfile::tempdir().unwrap();
        let base = held.path().canonicalize().unwrap();
        let (root, out) = (base.join("ws"), base.join("out"));
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::create_dir_all(&out).unwrap();
        std::fs::write(root.join("a/in.txt"), "inside\n").unwrap();
        std::fs::write(out.join("secret"), "TOP SECRET\n").unwrap();
        Self {
            backend: LocalBackend::new(&root).unwrap(),
            _held: held,
            root,
            out,
        }
    }

    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn get(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.root.join(path)).unwrap()
    }

    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        std::os::unix::fs::symlink(target, self.root.join(path)).unwrap();
    }

    pub fn fifo(&self, path: &str) {
        let status = std::process::Command::new("mkfifo")
            .arg(self.root.join(path))
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Returns the temporary files that writes have left.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else if entry
                    .file_name()
                    .to_string_lossy()
                    .starts_with(".agentcore-")
                {
                    paths.push(entry.path());
                }
            }
        }

        paths
    }
}
