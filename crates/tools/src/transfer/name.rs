//! Which names and links a receiver takes from a stranger.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a temporary file of an unfinished transfer is called: the name and this.
pub const PART_SUFFIX: &str = ".weft-part";
/// Longest name of an entry, in bytes, separators included.
pub const NAME_BYTES_MAX: usize = 4096;
/// Longest component of a name, in bytes.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Why a name is not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("the name is empty")]
    Empty,
    /// More than [`NAME_BYTES_MAX`], or a component of more than [`COMPONENT_BYTES_MAX`].
    #[error("the name is too long")]
    Long,
    /// It begins with a slash.
    #[error("the name is absolute")]
    Absolute,
    /// It has an empty, `.` or `..` component, or a NUL.
    #[error("the name leads out of the destination or has a component that is no name")]
    Traversal,
    /// It ends like a temporary file of ours.
    #[error("the name ends in .weft-part, which is kept for unfinished transfers")]
    Reserved,
    /// A symbolic link that leads out of what is transferred.
    #[error("the symbolic link leads out of the transferred directory")]
    LinkEscapes,
}

/// Checks a name as it came from the wire and returns it as a relative path.
///
/// ```
/// use weft_tools::transfer::name::{check, NameError};
///
/// assert!(check(b"photos/2024/a.jpg").is_ok());
/// assert_eq!(check(b"../../etc/passwd"), Err(NameError::Traversal));
/// ```
///
/// # Errors
/// [`NameError`] for each name that is not a plain way down into the destination.
pub fn check(name: &[u8]) -> Result<&Path, NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::Long);
    }
    if name[0] == b'/' {
        return Err(NameError::Absolute);
    }
    for component in name.split(|&byte| byte == b'/') {
        if component.is_empty() || component == b"." || component == b".." || component.contains(&0) {
            return Err(NameError::Traversal);
        }
        if component.len() > COMPONENT_BYTES_MAX {
            return Err(NameError::Long);
        }
        if component.ends_with(PART_SUFFIX.as_bytes()) {
            return Err(NameError::Reserved);
        }
    }
    Ok(Path::new(OsStr::from_bytes(name)))
}

/// Checks that the symbolic link `name` → `target` stays inside the top directory that `name` lies in.
///
/// # Errors
/// [`NameError::LinkEscapes`] for absolute targets and for those that climb too high.
pub fn check_link(name: &[u8], target: &[u8]) -> Result<(), NameError> {
    if target.is_empty() || target[0] == b'/' || target.contains(&0) || target.len() > NAME_BYTES_MAX {
        return Err(NameError::LinkEscapes);
    }
    // Directories that the link may climb: those between the top one and itself. `..` counts only at the front: after
    // a name it would climb from wherever that name leads, which another link decides.
    let climbs_max = name.iter().filter(|&&byte| byte == b'/').count().checked_sub(1);
    let components = || target.split(|&byte| byte == b'/').filter(|c| !c.is_empty() && *c != b".");
    let climbs = components().take_while(|c| *c == b"..").count();
    let is_inside = climbs_max.is_some_and(|most| climbs <= most);
    if is_inside && !components().skip(climbs).any(|c| c == b"..") {
        Ok(())
    } else {
        Err(NameError::LinkEscapes)
    }
}

/// The directory part of a checked name; empty for a name at the top.
#[must_use]
pub fn parent(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => &name[..slash],
        None => &[],
    }
}

/// The name of the temporary file beside the final file `file_name` (one component).
#[must_use]
pub fn part_name(file_name: &[u8]) -> Vec<u8> {
    let mut part = file_name.to_vec();
    if part.len() + PART_SUFFIX.len() > COMPONENT_BYTES_MAX {
        part = blake3::hash(file_name).to_hex().as_bytes().to_vec();
    }
    part.extend_from_slice(PART_SUFFIX.as_bytes());
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_out_of_the_destination_are_refused() {
        for (name, why) in [
            (&b""[..], NameError::Empty),
            (b"/etc/passwd", NameError::Absolute),
            (b"..", NameError::Traversal),
            (b"a/../../b", NameError::Traversal),
            (b"a/./b", NameError::Traversal),
            (b"a//b", NameError::Traversal),
            (b"a/", NameError::Traversal),
            (b"a\0b", NameError::Traversal),
            (b"a.weft-part", NameError::Reserved),
            (b"a.weft-part/b", NameError::Reserved),
            (&[b'x'; 256], NameError::Long),
            (&[b'x'; 5000], NameError::Long),
        ] {
            assert_eq!(check(name), Err(why), "{:?}", String::from_utf8_lossy(name));
        }
    }

    #[test]
    fn odd_but_harmless_names_are_taken() {
        for name in [&b"a"[..], b"...", b"..a/b..", b" ", b"\xff\xfe", b"a\nb", b"-rf", &[b'x'; 255]] {
            assert!(check(name).is_ok(), "{:?}", String::from_utf8_lossy(name));
        }
    }

    #[test]
    fn a_link_stays_inside_its_top_directory() {
        assert_eq!(check_link(b"top/link", b"file"), Ok(()));
        assert_eq!(check_link(b"top/a/link", b"../file"), Ok(()));
        assert_eq!(check_link(b"top/a/b/link", b"./../../file"), Ok(()));
        for (name, target) in [
            (&b"top/link"[..], &b"../x"[..]),
            (b"top/a/link", b"../../x"),
            (b"top/a/link", b"/etc/passwd"),
            (b"top/a/link", b""),
            (b"link", b"x"),
            (b"top/link", b"a/../../x"),
            (b"top/a/link", b"b/../x"),
            (b"top/link", b"a\0"),
        ] {
            assert_eq!(check_link(name, target), Err(NameError::LinkEscapes));
        }
    }

    #[test]
    fn the_temporary_name_always_fits() {
        assert_eq!(part_name(b"a.txt"), b"a.txt.weft-part");
        assert!(part_name(&[b'x'; 255]).len() <= COMPONENT_BYTES_MAX);
        assert_eq!(parent(b"a/b/c"), b"a/b");
        assert_eq!(parent(b"a"), b"");
    }
}
