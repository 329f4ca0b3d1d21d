//! `weft stat` of a program that runs fibers: this one.

#[cfg(test)]
mod support;

use std::time::Duration;

use support::weft;
use weft_fiber::{Runtime, Spawn, Waiter};
use weft_socket::stat::{self, Detail};

#[test]
fn a_program_tells_of_its_fibers() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let handle = runtime.handle();
    let name = format!("fibers-{}", std::process::id());
    let offer = stat::offer_detailed(&name, move |detail| match detail {
        Detail::Frames => handle.to_json_with_frames(),
        Detail::Usual | _ => handle.to_json(),
    });
    let offer = offer.unwrap();
    let gate = Waiter::new();
    let theirs = gate.clone();
    let fiber =
        Spawn::new().name("the \"late\" one").spawn_on(&runtime.handle(), move || theirs.wait()).unwrap();
    while !runtime.handle().list().iter().any(|it| matches!(it.state, weft_fiber::State::Waiting(_))) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let text = weft(&["stat", &name]).out;
    assert!(text.contains("1 fibers on 2 workers: 0 run, 0 ready, 1 wait"), "{text}");
    let text = weft(&["stat", "--fibers", &name]).out;
    assert!(text.contains("waits for an unpark at 0x") && text.contains(" of 5"), "{text}");
    let json = weft(&["stat", "--fibers", "--json", &name]).json();
    let shown = &json["fibers"][0];
    assert_eq!(shown["name"], "the \"late\" one");
    assert_eq!(shown["awaited"], "an unpark");
    for size in ["used", "high_water"] {
        let bytes = shown["stack"][size].as_u64().unwrap();
        assert!((64..=shown["stack"]["size"].as_u64().unwrap()).contains(&bytes), "{json}");
    }
    assert!(shown["frames"].is_null(), "{json}");
    // A worker that gets no processor for a second has not come, and is told as busy.
    let asked = |more: &[&str]| loop {
        let done = weft(&[&["stat", "--fibers", "--frames", &name], more].concat());
        if !done.out.contains("was busy") {
            break done;
        }
    };
    let text = asked(&[]).out;
    assert!(text.contains("a_program_tells_of_its_fibers") || text.contains("{closure#0} at "), "{text}");
    let json = asked(&["--json"]).json();
    let frames = json["fibers"][0]["frames"].as_array().unwrap();
    assert!(
        frames.iter().any(|frame| frame["file"].as_str().unwrap().ends_with("tests/fibers.rs")),
        "{json}"
    );
    gate.wake();
    fiber.join().unwrap();
    drop(offer);
    let gone = weft(&["stat", "--fibers", &name]);
    assert!(gone.code == 13 && gone.err.contains("no node is called"), "{gone:?}");
}
