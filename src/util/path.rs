//! Paths as text, without asking any file system.

/// `path` without `.`, `..` and repeated slashes. `..` at the beginning of a relative path stays.
pub(crate) fn lexical(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => match names.last() {
                Some(&"..") | None => {
                    if !is_absolute {
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

    let output = names.join("/");
    match (is_absolute, output.is_empty()) {
        (true, _) => format!("/{output}"),
        (false, true) => ".".to_owned(),
        (false, false) => output,
    }
}
