//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file, by its path from the root with `/` between the parts.
#[derive(Debug)]
pub struct File {
    pub path: String,
    pub text: String,
}

/// Returns the folder of `Cargo.toml`.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every file in these places (folders or files, some of which may not exist) with one of
/// these extensions, sorted.
pub fn files(places: &[&str], extensions: &[&str]) -> Vec<File> {
    let mut files = Vec::new();
    for place in places {
        collect(&root().join(place), extensions, &mut files);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Returns the sources of the library.
pub fn sources() -> Vec<File> {
    let sources = files(&["src"], &["rs"]);
    assert!(
        sources.len() > 50,
        "the sources are not where they should be"
    );
    sources
}

fn collect(place: &Path, extensions: &[&str], files: &mut Vec<File>) {
    if place.is_dir() {
        for entry in fs::read_dir(place).unwrap() {
            collect(&entry.unwrap().path(), extensions, files);
        }

        return;
    }

    let extension = place.extension().and_then(|text| text.to_str());
    if place.is_file() && extension.is_some_and(|text| extensions.contains(&text)) {
        let path = place.strip_prefix(root()).unwrap();
        let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
        files.push(File {
            path: parts.join("/"),
            text: fs::read_to_string(place).unwrap(),
        });
    }
}
