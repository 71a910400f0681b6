//! How a path leads to its file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// How many links the kernel follows in one path (path_resolution(7)).
const LINKS: usize = 40;

/// The directories on the way to a file in which a change may lead to another file, or change it,
/// and the names in them that matter: each link on the way, and the file itself. Where the way ends
/// early it is the name that is missing.
///
/// The file of a Kubernetes volume is `/etc/policies/config.yaml`, a link to `..data/config.yaml`,
/// where `..data` is a link that is replaced when the volume changes: what matters is
/// `config.yaml` and `..data` in the one directory, and `config.yaml` in the one behind the links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) names: BTreeMap<PathBuf, BTreeSet<OsString>>,
    /// The directory and the name of the file itself, whether it is there or not.
    pub(super) file: Option<(PathBuf, OsString)>,
}

impl Way {
    /// The way from the root along an absolute path, as it is now.
    pub(super) fn along(path: &Path) -> Self {
        let mut way = Self::default();
        let mut at = PathBuf::from("/");
        let mut rest = components(path);
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == OsStr::new("..") {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let link = fs::read_link(&next);
            let is_last = rest.is_empty();
            if link.is_ok() || is_last || fs::symlink_metadata(&next).is_err() {
                way.names
                    .entry(at.clone())
                    .or_default()
                    .insert(name.clone());
            }
            match link {
                Ok(target) => {
                    links += 1;
                    if links > LINKS {
                        return way;
                    }
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    let mut behind = components(&target);
                    behind.append(&mut rest);
                    rest = behind;
                }
                Err(_) if is_last => way.file = Some((at.clone(), name)),
                Err(_) if !next.is_dir() => return way,
                Err(_) => at = next,
            }
        }
        way
    }
}

/// What a path is made of, without what stands for nothing.
fn components(path: &Path) -> VecDeque<OsString> {
    let components = path
        .components()
        .filter(|component| matches!(component, Component::Normal(_) | Component::ParentDir));
    components.map(|it| it.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// The way along a path of a folder with these links, as `directory/name`s below the folder.
    fn way(links: &[(&str, &str)], path: &str) -> (Vec<String>, Option<String>) {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = format!("nsm-endpoint-way-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("a/b")).unwrap();
        for (target, name) in links {
            let target = target.replace("HERE", folder.to_str().unwrap());
            symlink(target, folder.join(name)).unwrap();
        }
        let way = Way::along(&folder.join(path));
        fs::remove_dir_all(&folder).unwrap();

        let below = |directory: &Path, name: &OsString| {
            let path = directory.join(name);
            path.strip_prefix(&folder)
                .map(|it| it.display().to_string())
        };
        let all = way.names.iter();
        let names = all.flat_map(|(at, names)| names.iter().map(|it| below(at, it)));
        let file = way.file.map(|(at, name)| below(&at, &name).unwrap());
        (names.collect::<Result<_, _>>().unwrap(), file)
    }

    #[test]
    fn of_a_plain_file_its_name_matters_whether_it_is_there_or_not() {
        assert_eq!(
            way(&[], "a/b/file"),
            (vec!["a/b/file".into()], Some("a/b/file".into()))
        );
        assert_eq!(
            way(&[], "a/./b/../file"),
            (vec!["a/file".into()], Some("a/file".into()))
        );
    }

    #[test]
    fn what_is_missing_matters_where_it_is_missing() {
        assert_eq!(way(&[], "a/c/d/file"), (vec!["a/c".into()], None));
    }

    #[test]
    fn each_link_matters_and_what_is_behind_the_last() {
        let volume = [("b", "a/..data"), ("..data/file", "a/file")];
        let names = ["a/..data", "a/file", "a/b/file"].map(str::to_owned);
        assert_eq!(
            way(&volume, "a/file"),
            (names.to_vec(), Some("a/b/file".into()))
        );

        let absolute = [("HERE/a", "link"), ("../a/b/./file", "a/one")];
        let names = ["link", "a/one", "a/b/file"].map(str::to_owned);
        assert_eq!(
            way(&absolute, "link/one"),
            (names.to_vec(), Some("a/b/file".into()))
        );
    }

    #[test]
    fn a_link_to_itself_has_no_end_and_no_file() {
        let (names, file) = way(&[("two", "a/one"), ("one", "a/two")], "a/one");

        assert_eq!(names, ["a/one", "a/two"]);
        assert_eq!(file, None);
    }
}
