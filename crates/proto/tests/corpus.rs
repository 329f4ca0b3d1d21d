//! Replays the committed corpus of the fuzz target `connection` (see `fuzz/README.md`).

use std::path::Path;

#[path = "../../../fuzz/drivers/connection.rs"]
mod driver;

#[test]
fn the_corpus_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/connection");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus is committed")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 8, "{} inputs", paths.len());
    for path in paths {
        println!("{}", path.display());
        driver::run(&std::fs::read(&path).expect("it can be read"));
    }
}
