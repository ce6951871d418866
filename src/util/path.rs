//! Paths as text, without asking any file system.

/// `path` without `.`, `..` and repeated slashes. `..` at the beginning of a relative path stays.
pub(crate) fn lexical(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => match names.last() {
                Some(&"..") | None => {
                    if !absolute {
                        names.push("..");
                    }
                }
                Some(_) => {
                    names.pop();
                }
            },
            name => names.push(name),
        }
    }
    let joined = names.join("/");
    match (absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}
