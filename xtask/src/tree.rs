//! The tree as text: every file of the repository that a person wrote, read once.

use std::fs;
use std::path::Path;

/// A file of the repository.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Path from the root, with `/` between its parts.
    pub(crate) path: String,
    /// What it holds.
    pub(crate) text: String,
}

impl File {
    /// The room whose crate the file belongs to: `crates/wire/src/lib.rs` is of `wire`.
    pub(crate) fn room(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether the whole file is test code: under `tests/`, `benches/` or `fuzz/`, or named for tests.
    pub(crate) fn is_test(&self) -> bool {
        let mut parts: Vec<&str> = self.path.split('/').collect();
        let name = parts.pop().unwrap_or_default();
        parts.iter().any(|part| matches!(*part, "tests" | "benches" | "fuzz" | "test"))
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
    }

    /// Whether it is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Folders that hold what was built or measured, not what was written.
const BUILT: [&str; 5] = ["target", ".git", "out", "corpus", "node_modules"];
/// Endings of the files that are read.
const READ: [&str; 10] = [".rs", ".toml", ".md", ".c", ".h", ".sh", ".lua", ".in", ".py", ".yml"];

/// Every written file under `root`, sorted by path.
pub(crate) fn read(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    read_folder(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: cannot be listed: {e}", folder.display()))?;
    for entry in entries {
        let entry = entry.map_err(|e| format!("{}: cannot be listed: {e}", folder.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().map_err(|e| format!("{path}: {e}"))?;
        if kind.is_dir() && !BUILT.contains(&name.as_str()) {
            read_folder(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && (READ.iter().any(|end| name.ends_with(end)) || path == ".ci/run") {
            let bytes = fs::read(entry.path()).map_err(|e| format!("{path}: cannot be read: {e}"))?;
            let text = String::from_utf8(bytes).map_err(|_| format!("{path}: is not UTF-8"))?;
            files.push(File { path, text });
        }
    }
    Ok(())
}

/// The file at `path`.
pub(crate) fn find<'a>(files: &'a [File], path: &str) -> Result<&'a File, String> {
    files.iter().find(|file| file.path == path).ok_or_else(|| format!("{path}: is missing"))
}

#[cfg(test)]
pub(crate) fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_its_room() {
        assert_eq!(file("crates/wire/src/lib.rs", "").room(), Some("wire"));
        assert_eq!(file("xtask/src/main.rs", "").room(), None);
    }

    #[test]
    fn test_files_are_told_by_folder_and_by_name() {
        for path in [
            "crates/wire/tests/vectors.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/src/loom_tests.rs",
            "fuzz/x.rs",
        ] {
            assert!(file(path, "").is_test(), "{path}");
        }
        for path in ["crates/testnet/src/lib.rs", "crates/a/src/attests.rs"] {
            assert!(!file(path, "").is_test(), "{path}");
        }
    }

    #[test]
    fn the_tree_holds_this_file_and_nothing_built() {
        let files = read(&crate::root()).unwrap();
        assert!(find(&files, "xtask/src/tree.rs").is_ok());
        assert!(find(&files, "no/such/file.rs").is_err());
        assert!(files.iter().all(|file| !file.path.starts_with("target/")));
    }
}
