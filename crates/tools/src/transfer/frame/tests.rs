//! Frames as bytes: what is written, cut, stretched and forged.

use super::*;

fn all() -> Vec<Frame> {
    let entry = |kind| Entry { name: b"a/b".to_vec(), kind, mode: 0o755, mtime_s: -5, mtime_ns: 999_999_999 };
    let failure = Failure::new(Code::Exists, "x exists", "move it away");
    vec![
        Frame::Hello { version: 1 },
        Frame::Entry(entry(Kind::Directory)),
        Frame::Entry(entry(Kind::File { size: u64::MAX })),
        Frame::Entry(entry(Kind::Link { target: b"../c".to_vec() })),
        Frame::ManifestEnd { entries: 3 },
        Frame::Have { index: 1, offset: 77, digest: [7; 32] },
        Frame::Exists { index: 2, digest: [8; 32] },
        Frame::PlanEnd,
        Frame::Start { index: 1, offset: 77 },
        Frame::Skip { index: 2 },
        Frame::FileEnd { digest: [9; 32] },
        Frame::FileFail(failure.clone()),
        Frame::End { digest: [1; 32] },
        Frame::Done { index: 5 },
        Frame::Failed { index: 6, failure: failure.clone() },
        Frame::Complete { digest: [2; 32] },
        Frame::Abort(failure),
    ]
}

#[test]
fn every_frame_is_read_back_as_written() {
    let mut bytes = Vec::new();
    for frame in all() {
        frame.write(&mut bytes).unwrap();
        Frame::Busy.write(&mut bytes).unwrap();
    }
    let mut reader = Reader::new(bytes.as_slice());
    for frame in all() {
        assert_eq!(reader.next_frame().unwrap(), frame);
    }
}

#[test]
fn data_stays_in_the_reader() {
    let mut bytes = data_head(3).to_vec();
    bytes.extend(b"abc");
    let mut reader = Reader::new(bytes.as_slice());
    assert_eq!(reader.next_frame().unwrap(), Frame::Data);
    assert_eq!(reader.data(), b"abc");
    assert!(matches!(reader.next_frame(), Err(super::super::Error::Stream(_))));
}

#[test]
fn cut_stretched_and_foreign_frames_are_refused() {
    for frame in all() {
        let mut bytes = Vec::new();
        frame.write(&mut bytes).unwrap();
        for cut in 0..bytes.len() {
            assert!(Reader::new(&bytes[..cut]).next_frame().is_err(), "{frame:?} cut to {cut}");
        }
    }
    let mut long = Vec::new();
    Frame::PlanEnd.write(&mut long).unwrap();
    long[4] = 1;
    long.push(0);
    assert!(Reader::new(long.as_slice()).next_frame().unwrap_err().to_string().contains("too long"));
    assert!(Reader::new(b"GET / HTTP/1.1\r\n".as_slice()).next_frame().is_err());
}

#[test]
fn a_length_beyond_the_limit_allocates_nothing() {
    let bytes = [0x02, 0xFF, 0xFF, 0xFF, 0xFF];
    let mut reader = Reader::new(bytes.as_slice());
    assert!(matches!(reader.next_frame(), Err(super::super::Error::Protocol(_))));
    assert_eq!(reader.body.capacity(), 0);
}

#[test]
fn control_characters_of_a_peer_do_not_reach_the_terminal() {
    let mut bytes = Vec::new();
    Frame::Abort(Failure::new(Code::Other, "\u{1b}[2J", "")).write(&mut bytes).unwrap();
    let Frame::Abort(failure) = Reader::new(bytes.as_slice()).next_frame().unwrap() else { panic!() };
    assert!(!failure.what.contains('\u{1b}'));
}
