//! Whole transfers over a socket pair: what arrives, what is refused, what a broken one leaves behind.

#[allow(dead_code, reason = "the tests of sockets use the rest")]
#[path = "../../../socket/tests/stopwatch/mod.rs"]
mod stopwatch;

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use stopwatch::{Stopwatch, judge};

use super::destination::Destination;
use super::frame::{Frame, VERSION};
use super::manifest::{Entry, Kind, Links, Manifest};
use super::receiver::receive;
use super::sender::send;
use super::*;

struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("from")).unwrap();
        fs::create_dir(root.path().join("to")).unwrap();
        Self { root }
    }

    fn from(&self, name: &str) -> PathBuf {
        self.root.path().join("from").join(name)
    }

    fn to(&self, name: &str) -> PathBuf {
        self.root.path().join("to").join(name)
    }

    fn destination(&self, overwrite: bool) -> Destination {
        Destination::open(&self.to(""), overwrite).unwrap()
    }

    /// One transfer of `names`; both ends' results.
    fn transfer(
        &self,
        names: &[&str],
        overwrite: bool,
    ) -> (std::result::Result<Report, Error>, std::result::Result<Report, Error>) {
        let paths: Vec<PathBuf> = names.iter().map(|name| self.from(name)).collect();
        let manifest = Manifest::collect(&paths, Links::Keep).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        let destination = self.destination(overwrite);
        thread::scope(|scope| {
            let receiver = scope.spawn(move || receive(&there, &destination, &()));
            let sent = send(&here, &manifest, &());
            drop(here);
            (sent, receiver.join().unwrap())
        })
    }

    /// A transfer that is cut after `bytes` of the sender's stream.
    fn broken_transfer(&self, name: &str, bytes: i64) -> (Error, Error) {
        let manifest = Manifest::collect(&[self.from(name)], Links::Keep).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        let cut = Cut { stream: here, left: AtomicI64::new(bytes) };
        let destination = self.destination(false);
        thread::scope(|scope| {
            let receiver = scope.spawn(move || receive(&there, &destination, &()));
            let sent = send(&cut, &manifest, &()).unwrap_err();
            (sent, receiver.join().unwrap().unwrap_err())
        })
    }

    fn nothing_arrived(&self) -> bool {
        fs::read_dir(self.to("")).unwrap().next().is_none()
    }
}

/// A stream whose sending side dies after so many bytes, as if the process were killed.
struct Cut {
    stream: UnixStream,
    left: AtomicI64,
}

impl Write for &Cut {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let len = i64::try_from(data.len()).unwrap();
        if self.left.fetch_sub(len, Ordering::Relaxed) < len {
            self.stream.shutdown(std::net::Shutdown::Both)?;
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        (&self.stream).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &Cut {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.stream).read(buffer)
    }
}

#[derive(Default)]
struct Counting {
    advanced: AtomicU64,
    present: AtomicU64,
}

impl Observer for Counting {
    fn planned(&self, _: u64, _: u64, present_bytes: u64) {
        self.present.store(present_bytes, Ordering::Relaxed);
    }

    fn differing(&self, bytes: u64) {
        self.present.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn advanced(&self, bytes: u64) {
        self.advanced.fetch_add(bytes, Ordering::Relaxed);
    }
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut output = vec![0; len];
    blake3::Hasher::new().update(&seed.to_be_bytes()).finalize_xof().fill(&mut output);
    output
}

fn failure_of(error: Error) -> Failure {
    error.into_failure("peer")
}

#[test]
fn a_tree_arrives_with_contents_modes_times_and_links() {
    let world = World::new();
    fs::create_dir_all(world.from("top/sub")).unwrap();
    fs::write(world.from("top/empty"), b"").unwrap();
    fs::write(world.from("top/sub/big"), noise(3_000_000, 1)).unwrap();
    symlink("sub/big", world.from("top/link")).unwrap();
    fs::set_permissions(world.from("top/sub/big"), Permissions::from_mode(0o741)).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1_234_567_891_500);
    File::open(world.from("top/sub/big")).unwrap().set_modified(old).unwrap();
    fs::set_permissions(world.from("top/sub"), Permissions::from_mode(0o500)).unwrap();

    let (sent, received) = world.transfer(&["top"], false);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!((sent.files, sent.bytes, sent.present_bytes), (2, 3_000_000, 0));
    assert_eq!((received.files, received.bytes), (2, 3_000_000));
    assert_eq!(sent.digest, received.digest);
    assert_eq!(fs::read(world.to("top/sub/big")).unwrap(), noise(3_000_000, 1));
    assert_eq!(fs::read(world.to("top/empty")).unwrap(), b"");
    assert_eq!(fs::read_link(world.to("top/link")).unwrap(), Path::new("sub/big"));
    let big = fs::metadata(world.to("top/sub/big")).unwrap();
    assert_eq!((big.mode() & 0o7777, big.mtime(), big.mtime_nsec()), (0o741, 1_234_567_891, 500_000_000));
    assert_eq!(fs::metadata(world.to("top/sub")).unwrap().mode() & 0o7777, 0o500);
    assert!(fs::read_dir(world.to("top/sub")).unwrap().count() == 1, "no temporary file is left");
}

#[test]
fn an_interrupted_file_goes_on_where_it_stopped() {
    let world = World::new();
    fs::write(world.from("big"), noise(4_000_000, 2)).unwrap();
    let (sent, received) = world.broken_transfer("big", 2_000_000);
    assert_eq!((failure_of(sent).code, failure_of(received).code), (Code::Lost, Code::Lost));
    assert!(!world.to("big").exists(), "no partial file under the final name");
    let part_len = fs::metadata(world.to("big.weft-part")).unwrap().len();
    assert!(part_len > 1_000_000, "{part_len} bytes were kept");

    let (sent, received) = world.transfer(&["big"], false);
    assert_eq!(sent.unwrap().present_bytes, part_len);
    assert_eq!(received.unwrap().present_bytes, part_len);
    assert_eq!(fs::read(world.to("big")).unwrap(), noise(4_000_000, 2));
    assert!(!world.to("big.weft-part").exists());
}

#[test]
fn directories_of_an_interrupted_transfer_get_their_modes_and_times_in_the_end() {
    let world = World::new();
    fs::create_dir_all(world.from("top/sub")).unwrap();
    fs::write(world.from("top/sub/big"), noise(4_000_000, 12)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_234_567_891);
    for name in ["top/sub", "top"] {
        fs::set_permissions(world.from(name), Permissions::from_mode(0o755)).unwrap();
        File::open(world.from(name)).unwrap().set_modified(old).unwrap();
    }
    world.broken_transfer("top", 2_000_000);
    assert_eq!(fs::metadata(world.to("top/sub")).unwrap().mode() & 0o7777, 0o700);
    world.transfer(&["top"], false).0.unwrap();
    for name in ["top", "top/sub"] {
        let made = fs::metadata(world.to(name)).unwrap();
        assert_eq!((made.mode() & 0o7777, made.mtime()), (0o755, 1_234_567_891), "{name}");
        assert_eq!(fs::read_dir(world.to(name)).unwrap().count(), 1, "nothing else is left in {name}");
    }
    // One that is finished is somebody's, and stays as it is.
    fs::set_permissions(world.to("top"), Permissions::from_mode(0o750)).unwrap();
    world.transfer(&["top"], false).0.unwrap();
    assert_eq!(fs::metadata(world.to("top")).unwrap().mode() & 0o7777, 0o750);
}

#[test]
fn a_part_of_another_file_is_not_gone_on_with() {
    let world = World::new();
    fs::write(world.from("big"), noise(1_000_000, 3)).unwrap();
    for part in [noise(500_000, 4), noise(2_000_000, 4)] {
        fs::write(world.to("big.weft-part"), part).unwrap();
        let (sent, received) = world.transfer(&["big"], true);
        assert_eq!(sent.unwrap().present_bytes, 0);
        received.unwrap();
        assert_eq!(fs::read(world.to("big")).unwrap(), noise(1_000_000, 3));
        fs::remove_file(world.to("big")).unwrap();
    }
}

/// A shorter file of that name has no part in it: nothing is told of the part, and it goes only when data comes in its place.
#[test]
fn a_part_is_neither_told_nor_cut_for_a_file_that_is_shorter() {
    let world = World::new();
    fs::write(world.from("big"), noise(1_000, 3)).unwrap();
    fs::write(world.to("big.weft-part"), noise(500_000, 4)).unwrap();
    let manifest = Manifest::collect(&[world.from("big")], Links::Keep).unwrap();
    fs::remove_file(world.from("big")).unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let (watch, destination) = (Counting::default(), world.destination(false));
    thread::scope(|scope| {
        scope.spawn(|| receive(&there, &destination, &()).unwrap());
        assert_eq!(send(&here, &manifest, &watch).unwrap().failures.count, 1);
    });
    assert_eq!(watch.present.into_inner(), 0);
    assert!(fs::read(world.to("big.weft-part")).unwrap() == noise(500_000, 4), "it is as it was");
}

/// What somebody puts in the place of a listed file is not read.
#[test]
fn another_file_in_the_place_of_one_that_was_listed_is_not_sent() {
    let world = World::new();
    for name in ["link", "file", "pipe"] {
        let path = world.from(name);
        fs::write(&path, b"listed").unwrap();
        let manifest = Manifest::collect(std::slice::from_ref(&path), Links::Keep).unwrap();
        // the inode stays in use, so that no other file gets it
        fs::rename(&path, world.from(&format!("{name}.old"))).unwrap();
        match name {
            "link" => symlink("/etc/hostname", &path).unwrap(),
            "file" => fs::write(&path, b"of others").unwrap(),
            _ => rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap(),
        }
        let (here, there) = UnixStream::pair().unwrap();
        let (watch, destination) = (Counting::default(), world.destination(false));
        thread::scope(|scope| {
            scope.spawn(|| receive(&there, &destination, &()).unwrap());
            let report = send(&here, &manifest, &watch).unwrap();
            assert!(report.failures.first.as_ref().unwrap().what.contains("changed"), "{name}");
        });
        assert_eq!(watch.advanced.into_inner(), 0, "{name}");
        assert!(!world.to(name).exists());
    }
}

/// Who has connected has his manifest, and takes up a turn.
#[test]
fn who_is_busy_for_ever_before_the_manifest_is_not_waited_for() {
    let world = World::new();
    let (here, there) = UnixStream::pair().unwrap();
    let destination = world.destination(false);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&there, &destination, &()).unwrap_err());
        while !receiving.is_finished() && Frame::Busy.write(&mut &here).is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
        let failure = failure_of(receiving.join().unwrap());
        assert!(failure.what.contains("does not begin"), "{failure}");
    });
}

/// A connection that has ended says so each time it is written to, and none of them is a pause.
#[test]
fn who_waits_for_a_turn_on_a_connection_that_has_ended_ends() {
    struct Ended;
    impl Read for &Ended {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
    impl Write for &Ended {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::TimedOut.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let world = World::new();
    let destination = world.destination(false);
    let wait = || thread::sleep(Duration::from_millis(1_200));
    let error = super::receiver::receive_in_turn(&Ended, &destination, &(), wait).unwrap_err();
    assert_eq!(failure_of(error).code, Code::NoAnswer);
}

/// Of a directory that others may not write to, something could not be read: who repeats the transfer puts it there.
#[test]
fn a_directory_that_something_is_missing_of_can_still_be_written_to() {
    let world = World::new();
    fs::create_dir_all(world.from("top/sub")).unwrap();
    fs::write(world.from("top/sub/late"), b"to come").unwrap();
    fs::write(world.from("top/whole"), b"whole").unwrap();
    fs::create_dir(world.from("top/other")).unwrap();
    for name in ["top/sub", "top/other", "top"] {
        fs::set_permissions(world.from(name), Permissions::from_mode(0o555)).unwrap();
    }
    let manifest = Manifest::collect(&[world.from("top")], Links::Keep).unwrap();
    let late = fs::read(world.from("top/sub/late")).unwrap();
    fs::write(world.from("top/sub/late"), b"longer than listed").unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let destination = world.destination(false);
    thread::scope(|scope| {
        scope.spawn(|| receive(&there, &destination, &()).unwrap());
        assert_eq!(send(&here, &manifest, &()).unwrap().failures.count, 1);
    });
    let mode = |name| fs::metadata(world.to(name)).unwrap().mode() & 0o777;
    assert_eq!((mode("top"), mode("top/sub"), mode("top/other")), (0o700, 0o700, 0o555));
    fs::write(world.from("top/sub/late"), late).unwrap();
    world.transfer(&["top"], false).1.unwrap();
    assert_eq!((mode("top"), mode("top/sub")), (0o555, 0o555));
    assert_eq!(fs::read(world.to("top/sub/late")).unwrap(), b"to come");
}

/// Who was stopped between the final name and the end of the part's.
#[test]
fn a_second_name_of_a_finished_file_goes_with_the_next_transfer() {
    let world = World::new();
    fs::write(world.from("f"), b"finished").unwrap();
    world.transfer(&["f"], false).1.unwrap();
    fs::hard_link(world.to("f"), world.to("f.weft-part")).unwrap();
    world.transfer(&["f"], false).1.unwrap();
    assert!(!world.to("f.weft-part").exists() && world.to("f").exists());
}

#[test]
fn a_complete_part_needs_no_byte_of_data() {
    let world = World::new();
    fs::write(world.from("f"), noise(500_000, 5)).unwrap();
    fs::write(world.to("f.weft-part"), noise(500_000, 5)).unwrap();
    let manifest = Manifest::collect(&[world.from("f")], Links::Keep).unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let (watch, destination) = (Counting::default(), world.destination(false));
    thread::scope(|scope| {
        scope.spawn(move || receive(&there, &destination, &()).unwrap());
        send(&here, &manifest, &watch).unwrap();
    });
    assert_eq!(watch.advanced.into_inner(), 0);
    assert_eq!(watch.present.into_inner(), 500_000);
    assert_eq!(fs::read(world.to("f")).unwrap(), noise(500_000, 5));
}

/// Neither end counts what it had to send or to store as there.
#[test]
fn what_is_there_under_the_name_and_differs_is_not_counted_as_there() {
    let world = World::new();
    fs::write(world.from("f"), noise(500_000, 5)).unwrap();
    for there in ["f", "f.weft-part"] {
        fs::write(world.to(there), noise(500_000, 6)).unwrap();
        let manifest = Manifest::collect(&[world.from("f")], Links::Keep).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        let (watch, watch_there, destination) =
            (Counting::default(), Counting::default(), world.destination(true));
        thread::scope(|scope| {
            scope.spawn(|| receive(&there, &destination, &watch_there).unwrap());
            send(&here, &manifest, &watch).unwrap();
        });
        for watch in [watch, watch_there] {
            assert_eq!((watch.present.into_inner(), watch.advanced.into_inner()), (0, 500_000));
        }
        fs::remove_file(world.to("f")).unwrap();
    }
}

#[test]
fn what_exists_already_and_is_the_same_is_left_alone() {
    let world = World::new();
    fs::create_dir(world.from("top")).unwrap();
    fs::write(world.from("top/a"), noise(100_000, 6)).unwrap();
    fs::write(world.from("top/b"), noise(100_000, 7)).unwrap();
    world.transfer(&["top"], false).1.unwrap();
    fs::remove_file(world.to("top/b")).unwrap();
    let before = fs::metadata(world.to("top/a")).unwrap().ino();
    let (sent, received) = world.transfer(&["top"], false);
    assert_eq!((sent.unwrap().present_bytes, received.unwrap().present_bytes), (100_000, 100_000));
    assert_eq!(fs::metadata(world.to("top/a")).unwrap().ino(), before);
    assert!(world.to("top/b").exists());
}

#[test]
fn a_different_file_of_that_name_is_refused_or_replaced_on_request() {
    let world = World::new();
    fs::write(world.from("f"), b"new contents").unwrap();
    for old in [&b"old contents"[..], b"old"] {
        fs::write(world.to("f"), old).unwrap();
        let (sent, received) = world.transfer(&["f"], false);
        assert_eq!(failure_of(received.unwrap_err()).code, Code::Exists);
        let failure = failure_of(sent.unwrap_err());
        assert_eq!(failure.code, Code::Exists);
        assert!(failure.to_string().contains("--overwrite"), "{failure}");
        assert_eq!(fs::read(world.to("f")).unwrap(), old, "the existing file is untouched");
        assert!(!world.to("f.weft-part").exists(), "nothing else is left");
    }
    world.transfer(&["f"], true).0.unwrap();
    assert_eq!(fs::read(world.to("f")).unwrap(), b"new contents");
}

#[test]
fn a_directory_never_gives_way_to_a_file_nor_the_other_way_round() {
    let world = World::new();
    fs::write(world.from("a"), b"file").unwrap();
    fs::create_dir(world.from("b")).unwrap();
    fs::create_dir(world.to("a")).unwrap();
    fs::write(world.to("b"), b"file").unwrap();
    for name in ["a", "b"] {
        assert_eq!(failure_of(world.transfer(&[name], true).0.unwrap_err()).code, Code::Exists);
    }
}

/// Plays a sender that says `frames`; what the receiver makes of it.
fn play(world: &World, frames: &[Frame]) -> Failure {
    let (mut here, there) = UnixStream::pair().unwrap();
    let destination = world.destination(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(move || receive(&there, &destination, &()));
        for frame in frames {
            if frame.write(&mut here).is_err() {
                break;
            }
        }
        here.shutdown(std::net::Shutdown::Write).unwrap();
        failure_of(receiver.join().unwrap().unwrap_err())
    })
}

fn entry(name: &[u8], kind: Kind) -> Frame {
    Frame::Entry(Entry { name: name.to_vec(), kind, mode: 0o644, mtime_s: 0, mtime_ns: 0 })
}

#[test]
fn names_that_lead_out_of_the_destination_are_refused_before_anything_is_written() {
    let hello = Frame::Hello { version: VERSION };
    for name in [&b"../evil"[..], b"/etc/evil", b"a/../../evil", b"", b"x.weft-part"] {
        let world = World::new();
        let failure = play(&world, &[hello.clone(), entry(name, Kind::File { size: 1 })]);
        assert_eq!(failure.code, Code::Protocol, "{failure}");
        assert!(world.nothing_arrived());
    }
    let world = World::new();
    let escape = Kind::Link { target: b"/etc".to_vec() };
    let frames = [hello.clone(), entry(b"d", Kind::Directory), entry(b"d/link", escape)];
    assert!(play(&world, &frames).what.contains("leads out"));
    let link = Kind::Link { target: b"sub".to_vec() };
    let through = [
        hello,
        entry(b"d", Kind::Directory),
        entry(b"d/link", link),
        entry(b"d/link/file", Kind::File { size: 1 }),
    ];
    assert!(play(&world, &through).what.contains("lies in no directory"));
    assert!(world.nothing_arrived());
}

#[test]
fn a_symbolic_link_in_the_destination_is_not_followed_out_of_it() {
    let world = World::new();
    fs::create_dir(world.from("sub")).unwrap();
    fs::write(world.from("sub/f"), b"evil").unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), world.to("sub")).unwrap();
    let failure = failure_of(world.transfer(&["sub"], true).1.unwrap_err());
    assert_eq!(failure.code, Code::Exists);
    // Nor is one that stands where the temporary file goes.
    let world = World::new();
    fs::write(world.from("f"), b"evil").unwrap();
    symlink(outside.path().join("f"), world.to("f.weft-part")).unwrap();
    assert_eq!(failure_of(world.transfer(&["f"], true).1.unwrap_err()).code, Code::Destination);
    assert!(fs::read_dir(outside.path()).unwrap().next().is_none(), "nothing was written outside");
}

#[test]
fn frames_out_of_turn_and_strangers_are_told_apart_from_senders() {
    let world = World::new();
    let hello = Frame::Hello { version: VERSION };
    let end = Frame::ManifestEnd { entries: 1 };
    let file = entry(b"f", Kind::File { size: 3 });
    let (start, fail) =
        (Frame::Start { index: 0, offset: 0 }, Frame::FileFail(Failure::new(Code::Source, "it went", "")));
    for frames in [
        vec![Frame::Hello { version: 99 }],
        vec![Frame::PlanEnd],
        vec![hello.clone(), Frame::ManifestEnd { entries: 5 }],
        vec![hello.clone(), file.clone(), file.clone()],
        vec![hello.clone(), file.clone(), end.clone(), Frame::Start { index: 9, offset: 0 }],
        vec![hello.clone(), file.clone(), end.clone(), Frame::Start { index: 0, offset: 7 }],
        vec![hello.clone(), file.clone(), end.clone(), Frame::Skip { index: 0 }],
        vec![hello.clone(), file.clone(), end.clone(), Frame::Done { index: 0 }],
        [&[hello, file, end][..], &[start.clone(), fail.clone(), start, fail]].concat(),
    ] {
        let failure = play(&world, &frames);
        assert_eq!(failure.code, Code::Protocol, "{frames:?}: {failure}");
    }
    assert!(world.nothing_arrived());
}

/// What a sender keeps of what it hears is bounded by its own manifest.
#[test]
fn a_receiver_speaks_of_the_files_of_the_manifest_and_of_each_once() {
    let (done, fail) = (Frame::Done { index: 0 }, Failure::new(Code::Destination, "no room", ""));
    let fail = |index| Frame::Failed { index, failure: fail.clone() };
    for frames in [
        vec![Frame::Have { index: 9, offset: 0, digest: [0; 32] }],
        vec![Frame::Exists { index: 1, digest: [0; 32] }],
        vec![Frame::PlanEnd, fail(9)],
        vec![Frame::PlanEnd, fail(0), fail(0)],
        vec![Frame::PlanEnd, done.clone(), done],
    ] {
        let world = World::new();
        fs::write(world.from("f"), b"x").unwrap();
        let manifest = Manifest::collect(&[world.from("f")], Links::Keep).unwrap();
        let (here, mut there) = UnixStream::pair().unwrap();
        frames.iter().for_each(|frame| frame.write(&mut there).unwrap());
        there.shutdown(std::net::Shutdown::Write).unwrap();
        let failure = failure_of(send(&here, &manifest, &()).unwrap_err());
        assert_eq!(failure.code, Code::Protocol, "{frames:?}: {failure}");
    }
}

#[test]
fn a_wrong_digest_keeps_the_file_from_its_final_name() {
    let world = World::new();
    let (mut here, there) = UnixStream::pair().unwrap();
    let destination = world.destination(false);
    thread::scope(|scope| {
        let receiver = scope.spawn(move || receive(&there, &destination, &()));
        for frame in [
            Frame::Hello { version: VERSION },
            entry(b"f", Kind::File { size: 3 }),
            Frame::ManifestEnd { entries: 1 },
            Frame::Start { index: 0, offset: 0 },
        ] {
            frame.write(&mut here).unwrap();
        }
        here.write_all(&frame::data_head(3)).unwrap();
        here.write_all(b"abd").unwrap();
        Frame::FileEnd { digest: *blake3::hash(b"abc").as_bytes() }.write(&mut here).unwrap();
        let mut whole = super::resume::Whole::default();
        whole.add(0, blake3::hash(b"abc").as_bytes());
        Frame::End { digest: *whole.digest().as_bytes() }.write(&mut here).unwrap();
        let report = receiver.join().unwrap().unwrap();
        assert_eq!(report.failures.count, 1);
        assert_eq!(report.failures.first.unwrap().code, Code::Digest);
    });
    assert!(world.nothing_arrived());
}

#[test]
fn a_source_that_vanishes_fails_alone() {
    let world = World::new();
    fs::create_dir(world.from("top")).unwrap();
    fs::write(world.from("top/a"), b"a").unwrap();
    fs::write(world.from("top/b"), b"b").unwrap();
    let manifest = Manifest::collect(&[world.from("top")], Links::Keep).unwrap();
    fs::remove_file(world.from("top/a")).unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let destination = world.destination(false);
    let report = thread::scope(|scope| {
        scope.spawn(move || receive(&there, &destination, &()).unwrap());
        send(&here, &manifest, &()).unwrap()
    });
    assert_eq!((report.files, report.failures.count), (1, 1));
    assert_eq!(report.failures.first.unwrap().code, Code::Source);
    assert!(!world.to("top/a").exists() && !world.to("top/a.weft-part").exists());
    assert_eq!(fs::read(world.to("top/b")).unwrap(), b"b");
}

#[test]
fn a_source_that_changed_since_it_was_listed_fails_alone() {
    for (len, seed) in [(99_999, 8), (100_001, 8), (100_000, 9)] {
        let world = World::new();
        fs::write(world.from("f"), noise(100_000, 8)).unwrap();
        let manifest = Manifest::collect(&[world.from("f")], Links::Keep).unwrap();
        fs::write(world.from("f"), noise(len, seed)).unwrap();
        // A file system may count time in steps as long as all this takes.
        let later = SystemTime::now() + Duration::from_secs(1);
        File::options().write(true).open(world.from("f")).unwrap().set_modified(later).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        let destination = world.destination(false);
        let report = thread::scope(|scope| {
            scope.spawn(move || receive(&there, &destination, &()).unwrap());
            send(&here, &manifest, &()).unwrap()
        });
        let failure = report.failures.first.unwrap();
        assert!(failure.what.contains("changed while it was sent"), "{failure}");
        assert!(!world.to("f").exists());
    }
}

/// Neither a part that could go on nor the rest of the transfer suffers from a file that cannot be read any more.
#[test]
fn what_the_receiver_has_of_a_source_that_vanished_stays() {
    let world = World::new();
    fs::create_dir(world.from("top")).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(world.from(&format!("top/{name}")), noise(10_000, 1)).unwrap();
    }
    let manifest = Manifest::collect(&[world.from("top")], Links::Keep).unwrap();
    fs::remove_file(world.from("top/a")).unwrap();
    fs::remove_file(world.from("top/b")).unwrap();
    fs::create_dir(world.to("top")).unwrap();
    fs::write(world.to("top/a.weft-part"), &noise(10_000, 1)[..4_000]).unwrap();
    fs::write(world.to("top/b"), noise(10_000, 2)).unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    let destination = world.destination(false);
    let report = thread::scope(|scope| {
        scope.spawn(move || receive(&there, &destination, &()).unwrap());
        send(&here, &manifest, &()).unwrap()
    });
    assert_eq!((report.files, report.failures.count), (1, 2));
    assert_eq!(fs::read(world.to("top/a.weft-part")).unwrap(), noise(10_000, 1)[..4_000]);
    assert_eq!(fs::read(world.to("top/b")).unwrap(), noise(10_000, 2));
    assert_eq!(fs::read(world.to("top/c")).unwrap(), noise(10_000, 1));
}

/// A transfer that was killed when its file had the final name, and still the other.
#[test]
fn a_finished_file_is_not_written_through_the_name_of_its_part() {
    for overwrite in [false, true] {
        let world = World::new();
        fs::write(world.from("f"), noise(30_000, 3)).unwrap();
        fs::write(world.to("f.weft-part"), noise(20_000, 4)).unwrap();
        fs::hard_link(world.to("f.weft-part"), world.to("kept")).unwrap();
        let (sent, received) = world.transfer(&["f"], overwrite);
        assert_eq!((sent.unwrap().files, received.unwrap().files), (1, 1));
        assert_eq!(fs::read(world.to("kept")).unwrap(), noise(20_000, 4));
        assert_eq!(fs::read(world.to("f")).unwrap(), noise(30_000, 3));
        assert!(!world.to("f.weft-part").exists());
    }
}

/// [`super::receiver`] holds all of it in memory.
#[test]
fn a_manifest_of_long_links_is_refused() {
    let world = World::new();
    let target = "x/".repeat(2_000);
    let link = |n| entry(format!("d/{n}").as_bytes(), Kind::Link { target: target.clone().into() });
    let begin = [Frame::Hello { version: VERSION }, entry(b"d", Kind::Directory)];
    let frames: Vec<_> = begin.into_iter().chain((0..2_000).map(link)).collect();
    let failure = play(&world, &frames);
    assert!(failure.to_string().contains("names and links of more"), "{failure}");
}

#[test]
fn two_transfers_do_not_write_one_file() {
    let world = World::new();
    fs::write(world.from("f"), noise(10_000, 9)).unwrap();
    fs::write(world.to("f.weft-part"), b"x").unwrap();
    let held = File::open(world.to("f.weft-part")).unwrap();
    held.lock().unwrap();
    let failure = failure_of(world.transfer(&["f"], false).0.unwrap_err());
    assert!(failure.to_string().contains("another transfer is writing"), "{failure}");
}

#[test]
fn many_small_files_arrive() {
    let world = World::new();
    fs::create_dir(world.from("many")).unwrap();
    for number in 0..200 {
        fs::write(world.from(&format!("many/{number}")), number.to_string()).unwrap();
    }
    let (sent, received) = world.transfer(&["many"], false);
    assert_eq!((sent.unwrap().files, received.unwrap().files), (200, 200));
    assert_eq!(fs::read(world.to("many/199")).unwrap(), b"199");
}

#[test]
fn a_destination_that_is_none_is_told_by_name() {
    let failure = Destination::open(Path::new("/no/such/dir"), false).err().unwrap();
    assert_eq!(failure.code, Code::Destination);
    assert!(failure.to_string().contains("/no/such/dir"), "{failure}");
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(Destination::open(file.path(), false).err().unwrap().code, Code::Destination);
}

/// Takes its time, as a slow disk does.
struct Slow(std::sync::atomic::AtomicBool);

impl Observer for Slow {
    fn advanced(&self, _: u64) {
        if !self.0.swap(true, Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(2500));
        }
    }
}

#[test]
fn a_slow_disk_is_no_dead_receiver() {
    judge(|| {
        let world = World::new();
        fs::write(world.from("f"), noise(3_000_000, 10)).unwrap();
        let manifest = Manifest::collect(&[world.from("f")], Links::Keep).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        here.set_read_timeout(Some(Duration::from_millis(1800))).unwrap();
        here.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        let destination = world.destination(false);
        let (sent, received) = thread::scope(|scope| {
            let slow = Slow(std::sync::atomic::AtomicBool::new(false));
            let receiver = scope.spawn(move || receive(&there, &destination, &slow).map(drop));
            let sent = send(&here, &manifest, &()).map(drop);
            drop(here);
            (sent, receiver.join().unwrap())
        });
        if sent.is_err() || received.is_err() {
            return Err(format!("{sent:?} {received:?}"));
        }
        assert_eq!(fs::read(world.to("f")).unwrap(), noise(3_000_000, 10));
        Ok(())
    });
}

#[test]
fn a_receiver_that_falls_silent_ends_the_sender_also_while_it_waits_for_room() {
    let world = World::new();
    fs::write(world.from("f"), noise(5_000_000, 11)).unwrap();
    let manifest = Manifest::collect(&[world.from("f")], Links::Keep).unwrap();
    let (here, mut there) = UnixStream::pair().unwrap();
    here.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    here.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    Frame::PlanEnd.write(&mut there).unwrap();
    let watch = Stopwatch::start();
    let failure = failure_of(send(&here, &manifest, &()).unwrap_err());
    assert_eq!(failure.code, Code::NoAnswer, "{failure}");
    assert!(failure.to_string().contains("fell silent"), "{failure}");
    assert!(watch.ran() < Duration::from_secs(3), "{:?}", watch.ran());
}
