//! Replays the committed corpus of the fuzz target `parse` (see `fuzz/README.md`), and keeps the vectors in it.

use std::path::{Path, PathBuf};

#[path = "../../../fuzz/drivers/parse.rs"]
mod driver;

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/parse");
    let mut inputs: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus is committed")
        .map(|entry| entry.expect("it can be listed").path())
        .map(|path| (path.clone(), std::fs::read(path).expect("it can be read")))
        .collect();
    inputs.sort();
    inputs
}

#[test]
fn the_corpus_passes() {
    let inputs = corpus();
    assert!(inputs.len() >= 32, "{} inputs", inputs.len());
    for (path, data) in inputs {
        println!("{}", path.display());
        driver::run(&data);
    }
}

/// Each packet that the specification writes out in full is a seed.
#[test]
fn the_corpus_holds_the_vectors() {
    let spec = include_str!("../../../docs/spec/cdp.md");
    let block = spec.split("```vectors\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let mut packets: Vec<String> = vec![String::new()];
    for line in block.lines() {
        match line.strip_prefix("  ") {
            Some(digits) => packets.last_mut().expect("one is open").extend(digits.split_whitespace()),
            None => packets.push(String::new()),
        }
    }
    let inputs = corpus();
    let written: Vec<String> = packets.into_iter().filter(|packet| !packet.is_empty()).collect();
    assert_eq!(written.len(), 21);
    for packet in written {
        let is_seed =
            |data: &[u8]| data.iter().map(|byte| format!("{byte:02x}")).collect::<String>() == packet;
        assert!(inputs.iter().any(|(_, data)| is_seed(data)), "no seed holds {packet}");
    }
}
