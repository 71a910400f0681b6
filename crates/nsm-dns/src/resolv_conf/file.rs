//! The file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use super::{ResolvConf, original_of};

/// Why the file does not say what it should.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", .path.display())]
pub(crate) struct FileError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// A resolv.conf file. Nothing of it is remembered: what stands there is the truth, so that whoever
/// comes after a kill finds all there is to know.
#[derive(Clone, Debug)]
pub(crate) struct ResolvConfFile {
    path: PathBuf,
}

impl ResolvConfFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// What the file said before it became ours. A file that is missing says nothing.
    pub(crate) fn original(&self) -> Result<ResolvConf, FileError> {
        Ok(ResolvConf::parse(&self.original_text()?))
    }

    /// Names the proxy in the file, and domains to search besides.
    pub(crate) fn take(&self, proxy: IpAddr, domains: &[String]) -> Result<(), FileError> {
        let original = self.original_text()?;
        self.write(&ResolvConf::ours(&original, proxy, domains))
    }

    /// Brings back what stood there, and tells whether there was anything to do. A file that is not
    /// ours, because it never was or because somebody else has written it, stays.
    pub(crate) fn restore(&self) -> Result<bool, FileError> {
        match original_of(&self.read()?) {
            Some(original) => self.write(&original).map(|()| true),
            None => Ok(false),
        }
    }

    fn original_text(&self) -> Result<Vec<u8>, FileError> {
        let text = self.read()?;
        Ok(original_of(&text).unwrap_or(text))
    }

    fn read(&self) -> Result<Vec<u8>, FileError> {
        match fs::read(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(self.error("read", source)),
        }
    }

    fn write(&self, text: &[u8]) -> Result<(), FileError> {
        if self.read().is_ok_and(|standing| standing == text) {
            return Ok(());
        }
        // A link stays a link: what it points to is written.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        // In a pod the file is a mount, which nothing can be renamed over, and its folder may be one
        // that nothing can be made in.
        replace(&path, text)
            .or_else(|_| overwrite(&path, text))
            .map_err(|source| self.error("write", source))
    }

    fn error(&self, operation: &'static str, source: io::Error) -> FileError {
        FileError {
            operation,
            path: self.path.clone(),
            source,
        }
    }
}

/// Puts a file of that text in the place of the one that stands, which readers never see half.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(format!(".nsm-{}", std::process::id()));
    let beside = path.with_file_name(name);
    let standing = fs::metadata(path).ok();
    let written = write_new(&beside, text, standing.as_ref());
    let renamed = written.and_then(|()| fs::rename(&beside, path));
    if renamed.is_err() {
        // It may never have been there.
        let _ = fs::remove_file(&beside);
    }
    renamed
}

fn write_new(path: &Path, text: &[u8], standing: Option<&fs::Metadata>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)?;
    if let Some(standing) = standing {
        if (standing.uid(), standing.gid()) != owner(&file)? {
            fchown(&file, Some(standing.uid()), Some(standing.gid()))?;
        }
        file.set_permissions(standing.permissions())?;
    }
    file.write_all(text)?;
    file.sync_all()
}

fn owner(file: &File) -> io::Result<(u32, u32)> {
    let made = file.metadata()?;
    Ok((made.uid(), made.gid()))
}

/// Writes over what stands, in one write: a process that is killed leaves the old or the new. Blank
/// lines cover what the old is longer, until it is cut off.
fn overwrite(path: &Path, text: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let standing = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut covering = text.to_vec();
    covering.resize(text.len().max(standing.min(text.len() + (1 << 16))), b'\n');
    file.write_all_at(&covering, 0)?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const ORIGINAL: &str = "nameserver 10.96.0.10\nsearch cluster.local\n";

    /// A folder of its own for a test, gone with this value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("nsm-dns-{test}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            fs::write(path.join("resolv.conf"), ORIGINAL).unwrap();
            Self(path)
        }

        fn file(&self) -> ResolvConfFile {
            ResolvConfFile::new(self.0.join("resolv.conf"))
        }

        fn text(&self) -> String {
            fs::read_to_string(self.0.join("resolv.conf")).unwrap()
        }

        fn names(&self) -> Vec<OsString> {
            let entries = fs::read_dir(&self.0).unwrap();
            entries.map(|it| it.unwrap().file_name()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn proxy() -> IpAddr {
        IpAddr::from([127, 0, 0, 1])
    }

    #[test]
    fn the_file_is_taken_changed_and_given_back() {
        let folder = Folder::new("taken");
        fs::set_permissions(folder.0.join("resolv.conf"), Permissions::from_mode(0o640)).unwrap();
        let file = folder.file();

        file.take(proxy(), &["a.example".to_owned()]).unwrap();
        assert!(folder.text().contains("\nsearch cluster.local a.example\n"));
        file.take(proxy(), &["b.example".to_owned()]).unwrap();
        assert!(folder.text().contains("\nsearch cluster.local b.example\n"));
        assert_eq!(
            file.original().unwrap(),
            ResolvConf::parse(ORIGINAL.as_bytes())
        );

        assert!(file.restore().unwrap());
        assert_eq!(folder.text(), ORIGINAL);
        let mode = fs::metadata(folder.0.join("resolv.conf")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(!file.restore().unwrap(), "there is nothing to do any more");
        assert_eq!(folder.names(), ["resolv.conf"], "nothing is left beside it");
    }

    #[test]
    fn a_successor_finds_the_original_after_a_kill() {
        let folder = Folder::new("killed");
        folder.file().take(proxy(), &[]).unwrap();

        assert!(folder.file().restore().unwrap());

        assert_eq!(folder.text(), ORIGINAL);
    }

    #[test]
    fn what_somebody_else_has_written_stays() {
        let folder = Folder::new("others");
        folder.file().take(proxy(), &[]).unwrap();
        fs::write(folder.0.join("resolv.conf"), "nameserver 10.0.0.9\n").unwrap();

        assert!(!folder.file().restore().unwrap());

        assert_eq!(folder.text(), "nameserver 10.0.0.9\n");
    }

    #[test]
    fn a_file_that_nothing_can_be_renamed_over_is_written_in_place() {
        let folder = Folder::new("mount");
        let path = folder.0.join("resolv.conf");
        let inode = fs::metadata(&path).unwrap().ino();
        for text in ["longer than what stands\n".repeat(20), "short\n".to_owned()] {
            overwrite(&path, text.as_bytes()).unwrap();
            assert_eq!(folder.text(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = Folder::new("link");
        let link = folder.0.join("link.conf");
        symlink("resolv.conf", &link).unwrap();
        let file = ResolvConfFile::new(link.clone());

        file.take(proxy(), &[]).unwrap();

        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(folder.text().contains("nameserver 127.0.0.1"));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let file = ResolvConfFile::new(PathBuf::from("/proc/version"));

        let error = file.take(proxy(), &[]).unwrap_err();

        assert_eq!(error.to_string(), "cannot write /proc/version");
    }
}
