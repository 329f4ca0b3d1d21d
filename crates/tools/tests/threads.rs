//! Servers that cannot have a thread: they say so, and go on.

#[cfg(test)]
mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use support::{Server, World, weft};

/// Lets `server` have `more` bytes of memory, which is less than a thread takes, or as much as it likes.
#[cfg(test)]
fn limit(server: &Server, more: Option<u64>) {
    let current = more.map(|more| settled_bytes(server) + more);
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    prlimit(pid, Resource::As, Rlimit { current, maximum: None }).unwrap();
}

/// The address space of `server` when it has done with its beginning, in which threads reserve some and give it back.
#[cfg(test)]
fn settled_bytes(server: &Server) -> u64 {
    let pages = || {
        thread::sleep(Duration::from_millis(50));
        let sizes = fs::read_to_string(format!("/proc/{}/statm", server.pid())).unwrap();
        sizes.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let (mut before, mut now) = (pages(), pages());
    while now != before {
        (before, now) = (now, pages());
    }
    now * rustix::param::page_size() as u64
}

#[test]
fn a_server_of_measurements_that_cannot_have_a_thread_says_so_and_goes_on() {
    let mut server = Server::start(&["perf", "--server", "--port", "0"]);
    let target = server.target();
    let words = ["perf", &target, "--peer-underlay", &server.underlay.clone(), "--time=50ms"];
    limit(&server, Some(1 << 20));
    let done = weft(&words);
    assert_ne!(done.code, 0, "{done:?}");
    let told = server.event("test");
    assert!(told["error"].as_str().unwrap().contains("cannot start a thread"), "{told}");
    limit(&server, None);
    let done = weft(&words);
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn a_receiver_of_files_that_cannot_have_a_thread_says_so_and_goes_on() {
    let world = World::new();
    fs::write(world.from("f"), b"x").unwrap();
    let (from, to) = (world.from("f"), world.to(""));
    let mut server = Server::start(&["recv", to.to_str().unwrap(), "--port", "0"]);
    let target = server.target();
    let words = ["send", from.to_str().unwrap(), &target, "--peer-underlay", &server.underlay.clone()];
    limit(&server, Some(1 << 20));
    let done = weft(&words);
    assert!(done.code == 1 && done.err.contains("cannot start a thread"), "{done:?}");
    assert!(server.event("error")["message"].as_str().unwrap().contains("cannot start a thread"));
    limit(&server, None);
    let done = weft(&words);
    assert_eq!(done.code, 0, "{done:?}");
}
