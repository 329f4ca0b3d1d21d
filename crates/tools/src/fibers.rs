//! What `weft stat` says of a runtime of fibers.

use std::time::Duration;

use serde_json::Value;

use crate::stat::{array, number, text};
use crate::units;

/// A runtime for people; its fibers, one a line, if they are asked for.
pub(crate) fn lines(name: &str, runtime: &Value, with_fibers: bool) -> Vec<String> {
    let count = |key: &str| number(&runtime[key]);
    let mut lines = vec![format!(
        "{name}  {} fibers on {} workers: {} run, {} ready, {} wait; {} spawned so far",
        count("live"),
        count("workers"),
        count("running"),
        count("ready"),
        count("waiting"),
        count("spawned"),
    )];
    if with_fibers {
        for fiber in array(&runtime["fibers"]) {
            lines.push(line(fiber));
            lines.extend(array(&fiber["frames"]).iter().filter(|frame| !is_of_std(frame)).map(frame_line));
            let reason = fiber["no_frames"].as_str();
            lines.extend(reason.map(|reason| format!("        no frames: {reason}")));
        }
        if count("left_out") > 0 {
            lines.push(format!("    and {} more", count("left_out")));
        }
    }
    lines
}

fn line(fiber: &Value) -> String {
    let name = match text(&fiber["name"]) {
        "" => text(&fiber["id"]).to_owned(),
        name => format!("{name:?} ({})", text(&fiber["id"])),
    };
    let mut line = format!("    {name:<24}  {}", text(&fiber["state"]));
    if let Some(awaited) = fiber["awaited"].as_str() {
        line += &format!(" for {awaited}");
    }
    if let Some(object) = fiber["object"].as_str() {
        line += &format!(" at {object}");
    }
    if let Some(nanos) = fiber["waited_ns"].as_u64() {
        line += &format!(", for {}", units::duration(Duration::from_nanos(nanos)));
    }
    if fiber["has_deadline"].as_bool() == Some(true) {
        line += ", with a deadline";
    }
    if let Some(worker) = fiber["worker"].as_u64() {
        line += &format!(", worker {worker}");
    }
    if number(&fiber["joiners"]) > 0 {
        line += &format!(", {} joiners", number(&fiber["joiners"]));
    }
    let stack = |key: &str| units::bytes(number(&fiber["stack"][key]));
    line + &format!(", stack {} of {}, at most {}", stack("used"), stack("size"), stack("high_water"))
}

/// Whether a call is of Rust's standard library, which was built elsewhere.
fn is_of_std(frame: &Value) -> bool {
    frame["file"].as_str().is_some_and(|file| file.starts_with("/rustc/"))
}

/// A call on a fiber's stack.
fn frame_line(frame: &Value) -> String {
    let function = frame["function"].as_str().unwrap_or_else(|| text(&frame["address"]));
    let place = frame["file"].as_str().map(|file| format!(" at {file}:{}", number(&frame["line"])));
    format!("        {function}{}", place.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_shown_with_its_fibers_if_they_are_asked_for() {
        let runtime = serde_json::json!({
            "workers": 2, "live": 3, "spawned": 9, "running": 1, "ready": 0, "waiting": 2, "left_out": 1,
            "fibers": [
                {"id": "1.7", "name": "echo", "state": "waits", "awaited": "something to receive", "object": "0x7f00",
                 "waited_ns": 1_500_000, "has_deadline": true, "worker": 1, "joiners": 2,
                 "stack": {"size": 57_344, "used": 1024, "high_water": 2048},
                 "frames": [{"address": "0x10", "function": "serve", "file": "echo.rs", "line": 7}, {"address": "0x20"},
                            {"address": "0x30", "function": "catch_unwind", "file": "/rustc/1/panic.rs", "line": 3}]},
                {"id": "0.3", "name": "", "state": "runs", "worker": 0, "joiners": 0, "stack": {}, "no_frames": "it runs"},
            ],
        });
        assert_eq!(
            lines("job", &runtime, false),
            ["job  3 fibers on 2 workers: 1 run, 0 ready, 2 wait; 9 spawned so far"]
        );
        let all = lines("job", &runtime, true).join("\n");
        assert!(!all.contains("catch_unwind"), "{all}");
        for part in [
            "\"echo\" (1.7)",
            "waits for something to receive at 0x7f00, for 1.50 ms, with a deadline, worker 1, 2 joiners",
            "stack 1.00 KiB of 56.0 KiB, at most 2.00 KiB",
            "0.3                       runs, worker 0",
            "\n        serve at echo.rs:7\n        0x20\n",
            "\n        no frames: it runs\n",
            "and 1 more",
        ] {
            assert!(all.contains(part), "{part:?} is not in\n{all}");
        }
    }
}
