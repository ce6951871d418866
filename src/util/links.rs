//! Symbolic links in paths of which a part may be missing.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The maximum number of links that are followed in one path, as on Linux; more are considered a
/// cycle.
pub(crate) const MAX_LINKS: usize = 40;

/// Follows all links of an absolute path, even a link whose target is missing, because a write
/// creates the target. Returns `None` after too many links.
///
/// `read_link` returns the target of a link, and `None` for an entry that is no link. Everything
/// below a missing component is missing as well, so it is not looked up. The stack does not grow
/// with the path, which may have any length.
///
/// # Errors
///
/// Returns the errors of `read_link`, except [`NotFound`](io::ErrorKind::NotFound).
pub(crate) fn follow_links(
    path: &Path,
    mut read_link: impl FnMut(&Path) -> io::Result<Option<PathBuf>>,
) -> io::Result<Option<PathBuf>> {
    let mut real_path = PathBuf::new();
    let mut missing_components = 0_usize;
    let mut links = 0;
    let mut pending = Vec::new();
    push_components(&mut pending, path);
    while let Some(component) = pending.pop() {
        match Path::new(&component).components().next() {
            None | Some(Component::CurDir) => continue,
            Some(Component::ParentDir) => {
                real_path.pop();
                missing_components = missing_components.saturating_sub(1);
                continue;
            }
            Some(Component::RootDir | Component::Prefix(_)) => {
                real_path.push(&component);
                missing_components = 0;
                continue;
            }
            Some(Component::Normal(name)) => real_path.push(name),
        }

        if missing_components > 0 {
            missing_components += 1;
            continue;
        }

        match read_link(&real_path) {
            Ok(None) => {}
            Ok(Some(target)) => {
                links += 1;
                if links > MAX_LINKS {
                    return Ok(None);
                }
                real_path.pop();
                push_components(&mut pending, &target);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing_components = 1,
            Err(error) => return Err(error),
        }
    }

    Ok(Some(real_path))
}

/// Adds the components of a path to the components that are to be followed, the first one last.
fn push_components(pending: &mut Vec<OsString>, path: &Path) {
    let components = path.components().rev();
    pending.extend(components.map(|component| component.as_os_str().to_owned()));
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Follows a path of a tree of links and folders; what is in neither is missing.
    fn follow(path: &str, links: &[(&str, &str)], folders: &[&str]) -> Option<String> {
        let links: HashMap<_, _> = links.iter().copied().collect();
        let real_path = follow_links(Path::new(path), |path| {
            let path = path.to_str().unwrap();
            match links.get(path) {
                Some(target) => Ok(Some(PathBuf::from(target))),
                None if folders.contains(&path) => Ok(None),
                None => Err(io::ErrorKind::NotFound.into()),
            }
        });
        real_path.unwrap().map(|path| path.to_str().unwrap().into())
    }

    #[test]
    fn links_are_followed_from_their_folder() {
        let links = [("/a/l", "../b/m"), ("/b/m", "/c"), ("/c/n", "x/y")];
        let folders = ["/a", "/b", "/c"];
        let cases = [
            ("/a/l", "/c"),
            ("/a/l/n", "/c/x/y"),
            ("/a/l/..", "/"),
            ("/a/l/new/file", "/c/new/file"),
            ("/a/missing/../l/./z", "/c/z"),
            ("/a/missing/l/../../../..", "/"),
        ];
        for (path, real_path) in cases {
            assert_eq!(
                follow(path, &links, &folders).as_deref(),
                Some(real_path),
                "{path}"
            );
        }
    }

    #[test]
    fn circle_of_links_leads_nowhere() {
        let links = [("/a", "/b"), ("/b", "a")];
        assert_eq!(follow("/a/x", &links, &[]), None);
    }

    #[test]
    fn path_of_any_length_is_followed_on_a_small_stack() {
        let deep = format!("/{}f", "r/".repeat(200_000));
        let target = format!("{}x", "../m/".repeat(100_000));
        let follow_both = move || {
            assert_eq!(follow(&deep, &[], &[]).unwrap().len(), deep.len());
            let real_path = follow("/d/l/y", &[("/d/l", &target)], &["/d"]);
            assert_eq!(real_path.as_deref(), Some("/m/x/y"));
        };
        let thread = std::thread::Builder::new().stack_size(256 * 1024);
        thread.spawn(follow_both).unwrap().join().unwrap();
    }
}
