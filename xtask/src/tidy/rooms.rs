//! The table of rooms, and every `Cargo.toml` held against it.

use toml::{Table, Value};

use super::Finding;
use crate::tree::{self, File};

/// The document that holds the table.
pub(super) const TABLE: &str = "docs/ARCHITECTURE.md";
/// The first cells of the table's head, by which it is found.
const HEAD: [&str; 6] = ["floor", "room", "purpose", "uses", "from outside", "may touch"];
/// The crates from outside that a pure room may take at all: values, arithmetic and memory, no state of the world.
const PURE_OUTSIDE: [&str; 7] = ["arrayvec", "bytes", "crc32c", "memmap2", "serde", "siphasher", "toml"];

/// What a pure room may touch by `unsafe` code: instructions that not every processor has, and memory that some read while one
/// writes beside them.
const PURE_UNSAFE: [&str; 2] = ["processor instructions", "shared memory"];

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Room {
    name: String,
    uses: Vec<String>,
    /// Crates from outside; `None` is any.
    outside: Option<Vec<String>>,
    touches: String,
}

impl Room {
    /// The name, as in `crates/<name>`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether what the room does depends on its arguments alone.
    pub(super) fn is_pure(&self) -> bool {
        matches!(self.touches.as_str(), "nothing" | "virtual time") || self.is_pure_unsafe()
    }

    /// Whether it is pure and may hold `unsafe` code.
    pub(super) fn is_pure_unsafe(&self) -> bool {
        PURE_UNSAFE.contains(&self.touches.as_str())
    }

    /// Whether the wall called `what` is open for this room.
    pub(super) fn may_touch(&self, what: &str) -> bool {
        self.touches.contains(what)
    }
}

/// The rows of the table in `text`.
pub(super) fn parse(text: &str) -> Result<Vec<Room>, String> {
    let mut rows = text.lines().map(cells).skip_while(|cells| !cells.iter().map(String::as_str).eq(HEAD));
    if rows.next().is_none() {
        return Err(format!("{TABLE}: has no table with the head | {} |", HEAD.join(" | ")));
    }
    let rooms: Vec<Room> = rows.skip(1).take_while(|cells| cells.len() == HEAD.len()).map(room).collect();
    if rooms.is_empty() {
        return Err(format!("{TABLE}: the table of rooms is empty"));
    }
    Ok(rooms)
}

fn cells(line: &str) -> Vec<String> {
    let Some(inner) = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
        return Vec::new();
    };
    inner.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
}

fn room(cells: Vec<String>) -> Room {
    let list = |cell: &str| match cell {
        "–" | "" => Vec::new(),
        _ => cell.split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect(),
    };
    Room {
        uses: list(&cells[3]),
        outside: if cells[4] == "any" { None } else { Some(list(&cells[4])) },
        touches: cells[5].clone(),
        name: cells.into_iter().nth(1).unwrap_or_default(),
    }
}

/// Holds every room's `Cargo.toml` and wall against the table.
pub(super) fn check(rooms: &[Room], files: &[File]) -> Vec<Finding> {
    let mut findings = check_order(rooms);
    for room in rooms {
        match tree::find(files, &format!("crates/{}/Cargo.toml", room.name)) {
            Ok(manifest) => findings.extend(check_manifest(room, manifest)),
            Err(_) => findings.push(Finding::new(TABLE, format!("the room `{}` has no crate", room.name))),
        }
        findings.extend(check_wall(room, rooms, files));
    }
    let manifests = files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    for manifest in manifests {
        let Some(name) = manifest.room() else { continue };
        if manifest.path == format!("crates/{name}/Cargo.toml") && !rooms.iter().any(|room| room.name == name)
        {
            findings.push(Finding::new(&manifest.path, format!("is of no room in the table of {TABLE}")));
        }
    }
    findings
}

/// Arrows only go down: a room stands below those that use it, and a pure room uses only pure rooms.
fn check_order(rooms: &[Room]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, room) in rooms.iter().enumerate() {
        for used in &room.uses {
            match rooms.iter().position(|other| other.name == *used) {
                None => findings.push(Finding::new(TABLE, format!("`{}` uses `{used}`, no room", room.name))),
                Some(below) if below >= index => findings.push(Finding::new(
                    TABLE,
                    format!("`{}` uses `{used}`, which is not below it", room.name),
                )),
                Some(below) if room.is_pure() && !rooms[below].is_pure() => findings.push(Finding::new(
                    TABLE,
                    format!("the pure room `{}` uses `{used}`, not pure", room.name),
                )),
                Some(_) => {}
            }
        }
        for crate_name in room.outside.iter().flatten().filter(|_| room.is_pure()) {
            if !PURE_OUTSIDE.contains(&crate_name.as_str()) {
                findings
                    .push(Finding::new(TABLE, format!("the pure room `{}` takes `{crate_name}`", room.name)));
            }
        }
    }
    findings
}

fn check_manifest(room: &Room, manifest: &File) -> Vec<Finding> {
    let table = match manifest.text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => return vec![Finding::new(&manifest.path, format!("cannot be read: {error}"))],
    };
    let mut findings = Vec::new();
    let mut complain = |message: String| findings.push(Finding::new(&manifest.path, message));
    if text_at(&table, &["package", "name"]) != Some(&format!("weft-{}", room.name)) {
        complain(format!("the package is not named weft-{}", room.name));
    }
    if !matches!(at(&table, &["lints", "workspace"]), Some(Value::Boolean(true))) {
        complain("does not take [lints] from the workspace".to_owned());
    }
    for dependency in dependencies(&table) {
        match dependency.strip_prefix("weft-") {
            Some(used) if !room.uses.iter().any(|name| name == used) => {
                complain(format!("uses `{used}`, which its line in {TABLE} does not list"));
            }
            None if room.outside.as_ref().is_some_and(|names| !names.contains(&dependency)) => {
                complain(format!(
                    "takes `{dependency}` from outside, which its line in {TABLE} does not list"
                ));
            }
            _ => {}
        }
    }
    findings
}

/// Names under `[dependencies]` and `[build-dependencies]`, also those of one target only.
fn dependencies(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let per_target = targets.into_iter().flat_map(|targets| targets.values().filter_map(Value::as_table));
    let mut names = Vec::new();
    for table in std::iter::once(manifest).chain(per_target) {
        for section in ["dependencies", "build-dependencies"] {
            let section = table.get(section).and_then(Value::as_table);
            names.extend(section.into_iter().flat_map(|section| section.keys().cloned()));
        }
    }
    names
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (last, folders) = path.split_last()?;
    let mut table = table;
    for folder in folders {
        table = table.get(*folder)?.as_table()?;
    }
    table.get(*last)
}

fn text_at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a str> {
    at(table, path)?.as_str()
}

/// Every pure room carries the same wall, and no other room carries it.
fn check_wall(room: &Room, rooms: &[Room], files: &[File]) -> Vec<Finding> {
    let path = |name: &str| format!("crates/{name}/clippy.toml");
    let own = tree::find(files, &path(&room.name)).ok();
    let first =
        rooms.iter().find(|room| room.is_pure()).and_then(|room| tree::find(files, &path(&room.name)).ok());
    let complaint = match (room.is_pure(), own, first) {
        (true, None, _) => "a pure room without its wall",
        (true, Some(own), Some(first)) if own.text != first.text => {
            "differs from the wall of the other pure rooms"
        }
        (true, Some(own), _) if !own.text.contains("disallowed-types") => "disallows nothing",
        _ => return Vec::new(),
    };
    vec![Finding::new(&path(&room.name), complaint)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    const DOCUMENT: &str = "\
text

| floor | room | purpose | uses | from outside | may touch |
|--|--|--|--|--|--|
| 0 | `base` | values | – | – | nothing |
| 0 | `wire` | bytes | base | bytes | nothing |
| 1 | `link` | frames | base | libc | system calls, clock |
| 7 | `tools` | weft | link, base | any | the terminal |

| other | table |
";
    const WALL: &str = "disallowed-types = []";

    fn rooms() -> Vec<Room> {
        parse(DOCUMENT).unwrap()
    }

    fn manifest(room: &str, dependencies: &str) -> File {
        let text = format!(
            "[package]\nname = \"weft-{room}\"\n[lints]\nworkspace = true\n[dependencies]\n{dependencies}"
        );
        file(&format!("crates/{room}/Cargo.toml"), &text)
    }

    fn tree() -> Vec<File> {
        vec![
            manifest("base", ""),
            manifest("wire", "weft-base.workspace = true\nbytes.workspace = true\n"),
            manifest("link", "libc = \"0.2\"\n"),
            manifest("tools", "clap = \"4\"\nweft-link.workspace = true\n"),
            file("crates/base/clippy.toml", WALL),
            file("crates/wire/clippy.toml", WALL),
        ]
    }

    fn complaints(files: &[File]) -> Vec<String> {
        check(&rooms(), files).iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn assert_one(files: &[File], part: &str) {
        let found = complaints(files);
        assert!(found.len() == 1 && found[0].contains(part), "{found:?} is not one complaint of {part:?}");
    }

    #[test]
    fn the_table_is_read_up_to_its_end() {
        let rooms = rooms();
        assert_eq!(rooms.iter().map(Room::name).collect::<Vec<_>>(), ["base", "wire", "link", "tools"]);
        assert!(rooms[0].is_pure() && !rooms[2].is_pure());
        assert!(rooms[2].may_touch("clock") && !rooms[3].may_touch("clock"));
        assert_eq!(rooms[3].outside, None);
    }

    #[test]
    fn a_document_without_the_table_is_an_error() {
        assert!(parse("| floor | room |\n").unwrap_err().contains("no table"));
    }

    #[test]
    fn a_tree_that_keeps_the_table_passes() {
        assert_eq!(complaints(&tree()), [""; 0]);
    }

    #[test]
    fn an_arrow_that_the_table_lacks_is_found() {
        let mut files = tree();
        files[2] = manifest("link", "weft-wire.workspace = true\n");
        assert_one(&files, "uses `wire`");
    }

    #[test]
    fn a_dependency_of_one_target_is_found() {
        let mut files = tree();
        files[0] = manifest("base", "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n");
        assert_one(&files, "takes `libc`");
    }

    #[test]
    fn a_development_dependency_is_free() {
        let mut files = tree();
        files[0] = manifest("base", "[dev-dependencies]\nproptest = \"1\"\n");
        assert_eq!(complaints(&files), [""; 0]);
    }

    #[test]
    fn a_wall_that_is_missing_or_lower_is_found() {
        let mut files = tree();
        files.pop();
        assert_one(&files, "without its wall");
        files.push(file("crates/wire/clippy.toml", "disallowed-types = [1]"));
        assert_one(&files, "differs");
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let mut files = tree();
        files.push(manifest("cellar", ""));
        assert_one(&files, "is of no room");
        files.remove(0);
        files.pop();
        assert_one(&files, "`base` has no crate");
    }

    #[test]
    fn lints_and_name_are_demanded() {
        let mut files = tree();
        files[0] = file("crates/base/Cargo.toml", "[package]\nname = \"weft-base\"\n");
        assert_one(&files, "[lints]");
        files[0] = file("crates/base/Cargo.toml", "[package]\nname = \"base\"\n[lints]\nworkspace = true\n");
        assert_one(&files, "not named");
    }

    #[test]
    fn arrows_that_go_up_or_out_of_purity_are_found_in_the_table() {
        let up = DOCUMENT.replace("| values | – | – |", "| values | wire | – |");
        assert!(check_order(&parse(&up).unwrap())[0].message.contains("not below"));
        let out = DOCUMENT.replace("| bytes | base | bytes |", "| bytes | base | libc |");
        assert!(check_order(&parse(&out).unwrap())[0].message.contains("takes `libc`"));
    }
}
