//! C programs, compiled with the system's compiler, linked with either library, and run.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::cc::{self, Library};

fn runs(source: &str, library: Library) {
    let folder = TempDir::new().expect("a folder for temporary files");
    let program = cc::program(&folder, &cc::home().join(source), library);
    let output = cc::run(&mut Command::new(program));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with(": ok\n"));
}

#[test]
fn wrong_use_is_refused_with_its_errno_by_the_static_library() {
    runs("tests/c/wrong.c", Library::Static);
}

#[test]
fn wrong_use_is_refused_with_its_errno_by_the_shared_library() {
    runs("tests/c/wrong.c", Library::Shared);
}

#[test]
fn every_call_works_in_the_static_library() {
    runs("tests/c/calls.c", Library::Static);
}

#[test]
fn every_call_works_in_the_shared_library() {
    runs("tests/c/calls.c", Library::Shared);
}

#[test]
fn names_of_a_cluster_file_work_in_the_static_library() {
    runs("tests/c/names.c", Library::Static);
}

#[test]
fn names_of_a_cluster_file_work_in_the_shared_library() {
    runs("tests/c/names.c", Library::Shared);
}

#[test]
fn every_call_for_fibers_works_in_the_static_library() {
    runs("tests/c/fibers.c", Library::Static);
}

#[test]
fn every_call_for_fibers_works_in_the_shared_library() {
    runs("tests/c/fibers.c", Library::Shared);
}

#[test]
fn sockets_wait_on_their_fibers_in_the_static_library() {
    runs("tests/c/fiber_sockets.c", Library::Static);
}

#[test]
fn sockets_wait_on_their_fibers_in_the_shared_library() {
    runs("tests/c/fiber_sockets.c", Library::Shared);
}

#[test]
fn the_example_of_fibers_runs() {
    let folder = TempDir::new().expect("a folder for temporary files");
    let program = cc::program(&folder, &cc::home().join("examples/fibers.c"), Library::Shared);
    let output = cc::run(&mut Command::new(program));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "volume 42\nlaps 10\n");
}

/// A child that does not outlive its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn example_runs_between_two_processes(library: Library) {
    let folder = TempDir::new().expect("a folder for temporary files");
    let program = cc::program(&folder, &cc::home().join("examples/echo.c"), library);
    let mut serve = Command::new(&program);
    serve.args(["serve", "127.0.0.1:0", "0"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Server(serve.spawn().expect("the server starts"));
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("a line of the server");
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["port", port, "udp", udp] = words[..] else { panic!("the server said {line:?}") };
    for question in ["good morning", "bye"] {
        let output =
            cc::run(Command::new(&program).args(["ask", &format!("127.0.0.1:{port}"), udp, question]));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), question);
    }
    assert!(server.0.wait().expect("the end of the server").success());
}

#[test]
fn the_example_runs_between_two_processes_with_the_static_library() {
    example_runs_between_two_processes(Library::Static);
}

#[test]
fn the_example_runs_between_two_processes_with_the_shared_library() {
    example_runs_between_two_processes(Library::Shared);
}
