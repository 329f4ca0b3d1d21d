//! A runtime's state as JSON, for `weft stat --fibers` and whoever else watches from another process.

use std::fmt::Write;

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
        let mut fibers = String::new();
        let mut told = 0;
        let mut left_out = 0;
        for (fiber, block) in listed {
            counts[match fiber.state {
                State::Running => 0,
                State::Ready => 1,
                State::Waiting(_) => 2,
            }] += 1;
            if told == TOLD_MAX {
                left_out += 1;
                continue;
            }
            told += 1;
            let comma = if fibers.is_empty() { "" } else { "," };
            let stack = (block.region.usable(), block.region.high_water());
            // Writing to a `String` cannot fail.
            let _ = write!(fibers, "{comma}{}", json_of(&fiber, stack));
        }
        let [running, ready, waiting] = counts;
        format!(
            "{{\"workers\":{},\"live\":{},\"spawned\":{},\"running\":{running},\"ready\":{ready},\"waiting\":{waiting},\
             \"left_out\":{left_out},\"fibers\":[{fibers}]}}",
            self.workers(),
            running + ready + waiting,
            self.0.spawned(),
        )
    }
}

fn json_of(fiber: &Listed, (size, high_water): (usize, usize)) -> String {
    let mut out = format!("{{\"id\":\"{}\",\"name\":{}", listing::number(fiber.id), quoted(&fiber.name));
    let state = match fiber.state {
        State::Running => "runs",
        State::Ready => "is ready",
        State::Waiting(_) => "waits",
    };
    // Writing to a `String` cannot fail.
    let _ = write!(out, ",\"state\":\"{state}\"");
    if let State::Waiting(why) = fiber.state {
        let _ = write!(out, ",\"awaited\":\"{}\",\"has_deadline\":{}", why.words(), fiber.has_deadline);
    }
    if let Some(object) = fiber.object.filter(|&object| object != 0) {
        let _ = write!(out, ",\"object\":\"{object:#x}\"");
    }
    if let Some(waited) = fiber.waited {
        let _ = write!(out, ",\"waited_ns\":{}", waited.as_nanos());
    }
    if let Some(worker) = fiber.worker {
        let _ = write!(out, ",\"worker\":{worker}");
    }
    let used = fiber.stack_used.map_or("null".to_owned(), |used| used.to_string());
    let _ = write!(
        out,
        ",\"joiners\":{},\"stack\":{{\"size\":{size},\"used\":{used},\"high_water\":{high_water}}}",
        fiber.joiners
    );
    match &fiber.frames {
        Ok(frames) => {
            let frames: Vec<String> = frames.iter().map(json_of_frame).collect();
            let _ = write!(out, ",\"frames\":[{}]", frames.join(","));
        }
        Err(NoFrames::NotAsked) => {}
        Err(why) => {
            let _ = write!(out, ",\"no_frames\":{}", quoted(&why.to_string()));
        }
    }
    out + "}"
}

fn json_of_frame(frame: &Frame) -> String {
    let mut out = format!("{{\"address\":\"{:#x}\"", frame.address);
    // Writing to a `String` cannot fail.
    if let Some(function) = &frame.function {
        let _ = write!(out, ",\"function\":{}", quoted(function));
    }
    if let Some((file, line)) = &frame.place {
        let _ = write!(out, ",\"file\":{},\"line\":{line}", quoted(file));
    }
    out + "}"
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("a \"b\" \\ \n ä"), "\"a \\\"b\\\" \\\\ \\u000a ä\"");
    }
}
