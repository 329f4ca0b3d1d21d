//! Parts that are read-only files in the end.

use std::fs;
use std::path::Path;

use cap_std::ambient_authority;

use super::super::manifest::Kind;
use super::*;

fn part(dir: &Path) -> Part {
    let dir = Dir::open_ambient_dir(dir, ambient_authority()).unwrap();
    Part::open(dir, OsStr::new("f")).unwrap()
}

fn entry(mode: u32) -> Entry {
    Entry { name: b"f".to_vec(), kind: Kind::File { size: 3 }, mode, mtime_s: 1_234_567_891, mtime_ns: 0 }
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_part_can_be_opened_again_also_if_the_file_is_to_be_read_only() {
    let root = tempfile::tempdir().unwrap();
    let mut interrupted = part(root.path());
    interrupted.write(b"abc").unwrap();
    fs::write(root.path().join("f"), b"in the way").unwrap();
    let error = interrupted.finish(&entry(0o444), false).unwrap_err();
    assert!(matches!(error, PartError::Exists), "{error:?}");
    assert_eq!(mode_of(&root.path().join("f.weft-part")), 0o644);

    fs::remove_file(root.path().join("f")).unwrap();
    part(root.path()).finish(&entry(0o444), false).unwrap();
    let finished = fs::metadata(root.path().join("f")).unwrap();
    assert_eq!((finished.mode() & 0o7777, finished.len(), finished.mtime()), (0o444, 3, 1_234_567_891));
}

#[test]
fn a_part_that_is_read_only_already_is_made_writable() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f.weft-part");
    let leave = || {
        fs::write(&path, b"abc").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    };
    leave();
    if File::options().write(true).open(&path).is_ok() {
        weft_skip::skipped!("this user may write everything; run as another user than root");
        return;
    }
    assert_eq!(part(root.path()).len, 3);
    fs::remove_file(&path).unwrap();
    // This one is finished, and has got its name already.
    leave();
    fs::hard_link(&path, root.path().join("f")).unwrap();
    assert_eq!(part(root.path()).len, 0);
    assert_eq!((mode_of(&root.path().join("f")), mode_of(&path)), (0o444, 0o600));
}

/// In a directory that several share somebody may have made it beforehand.
#[test]
fn a_part_that_others_may_write_to_is_not_gone_on_with() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f.weft-part");
    let open = || {
        let dir = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        Part::open(dir, OsStr::new("f"))
    };
    fs::write(&path, b"abc").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(open(), Err(PartError::Foreign)));
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(open().unwrap().len, 3);
    match std::os::unix::fs::chown(&path, Some(12_345), None) {
        Ok(()) => assert!(matches!(open(), Err(PartError::Foreign))),
        Err(error) => weft_skip::skipped!("this user cannot give files away ({error}); run as root"),
    }
}

/// Who gives the directory is told that it is gone, not that somebody else writes there.
#[test]
fn a_directory_that_is_gone_is_told_so() {
    let root = tempfile::tempdir().unwrap();
    let gone = root.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let dir = Dir::open_ambient_dir(&gone, ambient_authority()).unwrap();
    fs::remove_dir(&gone).unwrap();
    let error = Part::open(dir, OsStr::new("f")).err().unwrap();
    assert!(matches!(&error, PartError::Io(error) if error.kind() == io::ErrorKind::NotFound), "{error:?}");
}
