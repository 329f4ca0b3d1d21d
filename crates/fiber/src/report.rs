//! A runtime's state as JSON, for `weft stat --fibers` and whoever else watches from another process.

use serde_json::{Value, json};

use crate::block::Block;
use crate::frames::{Frame, NoFrames};
use crate::listing::{self, Listed, State};
use crate::runtime::Handle;

/// Fibers that are told one by one. To find a stack's high-water mark its pages are read, which takes a while.
const TOLD_MAX: usize = 1_000;

impl Handle {
    /// The runtime's workers and counts, and up to 1,000 of its fibers: names, states, what each waits for and since when,
    /// stacks. A JSON object on one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.json_of(listing::fibers(&self.0))
    }

    /// The same with the calls on the stacks, as [`list_with_frames`](Self::list_with_frames) has them: for each fiber either an
    /// array `frames`, or `no_frames` with the reason.
    #[must_use]
    pub fn to_json_with_frames(&self) -> String {
        self.json_of(listing::fibers_with_frames(&self.0))
    }

    fn json_of<'a>(&self, listed: impl Iterator<Item = (Listed, &'a Block)>) -> String {
        let mut counts = [0_u64; 3];
        let mut fibers = Vec::new();
        let mut left_out = 0;
        for (fiber, block) in listed {
            counts[match fiber.state {
                State::Running => 0,
                State::Ready => 1,
                State::Waiting(_) => 2,
            }] += 1;
            if fibers.len() == TOLD_MAX {
                left_out += 1;
                continue;
            }
            fibers.push(json_of(&fiber, block.region.usable(), block.region.high_water()));
        }
        let [running, ready, waiting] = counts;
        json!({
            "workers": self.workers(),
            "live": running + ready + waiting,
            "spawned": self.0.spawned(),
            "running": running,
            "ready": ready,
            "waiting": waiting,
            "left_out": left_out,
            "fibers": fibers,
        })
        .to_string()
    }
}

/// A fiber; what is not known of it is left out.
fn json_of(fiber: &Listed, stack_size: usize, high_water: usize) -> Value {
    let state = match fiber.state {
        State::Running => "runs",
        State::Ready => "is ready",
        State::Waiting(_) => "waits",
    };
    let mut out = json!({
        "id": listing::number(fiber.id),
        "name": fiber.name,
        "state": state,
        "joiners": fiber.joiners,
        "stack": { "size": stack_size, "used": fiber.stack_used, "high_water": high_water },
    });
    if let State::Waiting(why) = fiber.state {
        out["awaited"] = why.words().into();
        out["has_deadline"] = fiber.has_deadline.into();
    }
    if let Some(object) = fiber.object.filter(|&object| object != 0) {
        out["object"] = format!("{object:#x}").into();
    }
    if let Some(waited) = fiber.waited {
        out["waited_ns"] = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX).into();
    }
    if let Some(worker) = fiber.worker {
        out["worker"] = worker.into();
    }
    match &fiber.frames {
        Ok(frames) => out["frames"] = frames.iter().map(json_of_frame).collect(),
        Err(NoFrames::NotAsked) => {}
        Err(why) => out["no_frames"] = why.to_string().into(),
    }
    out
}

fn json_of_frame(frame: &Frame) -> Value {
    let mut out = json!({ "address": format!("{:#x}", frame.address) });
    if let Some(function) = &frame.function {
        out["function"] = function.as_str().into();
    }
    if let Some((file, line)) = &frame.place {
        out["file"] = file.as_str().into();
        out["line"] = (*line).into();
    }
    out
}
