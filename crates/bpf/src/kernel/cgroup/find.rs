//! Directories of cgroups, of version 2.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, fstatfs};

/// True if a directory is a cgroup's.
pub(super) fn is_cgroup(directory: &File) -> bool {
    fstatfs(directory).is_ok_and(|system| system.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

/// The first place where this process sees them. Of a system that has version 1 as well it is often
/// `/sys/fs/cgroup/unified`.
pub(in crate::kernel) fn mount_point() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
    let of_cgroups = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let path = words.next()?;
        (words.next() == Some("cgroup2")).then(|| unescaped(path))
    };
    mounts.lines().find_map(of_cgroups)
}

/// A path of /proc/mounts, which has spaces and the like as three octal digits.
fn unescaped(path: &str) -> PathBuf {
    ["\\040", "\\011", "\\012"]
        .iter()
        .zip([" ", "\t", "\n"])
        .fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
        .replace("\\134", "\\")
        .into()
}

/// The directories of all cgroups, which are looked for once.
#[derive(Default)]
pub(super) struct Paths {
    all: OnceCell<BTreeMap<u64, PathBuf>>,
}

impl Paths {
    /// That of one; 0 stands for one that was removed.
    pub(super) fn of(&self, id: u64) -> Option<PathBuf> {
        let all = self.all.get_or_init(|| {
            let mut all = BTreeMap::new();
            if let Some(root) = mount_point() {
                if let Ok(metadata) = fs::metadata(&root) {
                    all.insert(std::os::unix::fs::MetadataExt::ino(&metadata), root.clone());
                }
                collect(&root, &mut all);
            }
            all
        });
        all.get(&id).cloned()
    }
}

/// All below a directory.
fn collect(directory: &Path, all: &mut BTreeMap<u64, PathBuf>) {
    // One may be removed meanwhile.
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.insert(entry.ino(), entry.path());
            collect(&entry.path(), all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_table_of_mounts_is_read() {
        assert_eq!(unescaped("/sys/fs/cgroup"), Path::new("/sys/fs/cgroup"));
        assert_eq!(unescaped("/a\\040b\\134x2d"), Path::new("/a b\\x2d"));
    }
}
