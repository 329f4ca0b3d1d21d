use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::Frames;

fn filled(bytes: &[u8], frozen: usize) -> FrameBuffer {
    let mut buffer = FrameBuffer::with_capacity(100);
    buffer.put(bytes);
    buffer.freeze(frozen);
    buffer
}

fn panics(act: impl FnOnce(&mut FrameBuffer)) -> bool {
    let mut buffer = filled(b"headbody", 4);
    catch_unwind(AssertUnwindSafe(|| act(&mut buffer))).is_err()
}

#[test]
fn what_is_frozen_is_neither_written_nor_begun_anew_while_a_handle_is_held() {
    let mut buffer = filled(b"headbody", 4);
    let frames = buffer.frames(0..4).to_frames();
    buffer.write(4, b"BODY");
    assert!(!buffer.try_clear());
    assert_eq!((&frames[..], buffer.get(0..8)), (&b"head"[..], &b"headBODY"[..]));
    drop(frames);
    assert!(buffer.try_clear());
    assert_eq!((buffer.len(), buffer.frozen(), buffer.capacity()), (0, 0, 100));
}

#[test]
fn what_would_break_a_promise_panics() {
    assert!(panics(|buffer| buffer.write(3, b"x")), "frozen");
    assert!(panics(|buffer| buffer.write(7, b"xx")), "not filled");
    assert!(panics(|buffer| buffer.write(usize::MAX, b"xx")), "not filled");
    assert!(panics(|buffer| buffer.put(&[0; 93])), "no room");
    assert!(panics(|buffer| _ = buffer.skip(93)), "no room");
    assert!(panics(|buffer| buffer.freeze(9)), "not filled");
    assert!(panics(|buffer| _ = buffer.frames(0..5)), "not frozen");
    assert!(panics(|buffer| _ = buffer.frames(2..2)), "nothing");
    assert!(panics(|buffer| _ = buffer.get(0..9)), "not filled");
    assert!(!panics(|buffer| buffer.freeze(1)), "is already");
}

#[test]
fn the_mark_only_rises() {
    let mut buffer = filled(b"headbody", 6);
    buffer.freeze(2);
    assert_eq!(buffer.frozen(), 6);
}

#[test]
fn only_neighbours_in_one_buffer_join() {
    let (one, other) = (filled(b"abcdef", 6), filled(b"abcdef", 6));
    let mut frames = one.frames(0..2).to_frames();
    assert!(!frames.join(&one.frames(3..4)), "a gap");
    assert!(!frames.join(&other.frames(2..4)), "another buffer");
    assert!(!frames.join(&one.frames(0..2)), "the same again");
    assert!(frames.join(&one.frames(2..4)));
    assert_eq!(&frames[..], b"abcd");
    frames.advance(3);
    assert_eq!(&frames[..], b"d");
}

#[test]
fn a_copy_lies_elsewhere() {
    let one = filled(b"abcdef", 3);
    let mut copy = one.clone();
    copy.write(3, b"XYZ");
    assert_eq!((one.get(0..6), copy.get(0..6)), (&b"abcdef"[..], &b"abcXYZ"[..]));
    assert_ne!(one.get(0..6).as_ptr(), copy.get(0..6).as_ptr());
    assert_eq!((copy.frozen(), copy.capacity()), (3, 100));
}

/// [`crate::memory`] says why.
#[test]
fn large_ones_begin_at_a_cache_line() {
    // the heap itself begins pieces at 16 bytes
    let buffers: Vec<_> = (0..8).map(|_| FrameBuffer::with_capacity(44 * 1_472)).collect();
    for mut buffer in buffers {
        buffer.put(b"x");
        assert_eq!(buffer.get(0..1).as_ptr().addr() % 64, 0);
    }
}

#[test]
fn an_empty_one_holds_no_memory() {
    let mut buffer = FrameBuffer::default();
    assert!(buffer.memory.is_none() && FrameBuffer::with_capacity(0).memory.is_none());
    assert!(buffer.is_empty() && buffer.room() == 0 && buffer.try_clear());
    assert_eq!(buffer.get(0..0), b"");
}

/// A thread reads what is frozen, and drops its handles, while the writer fills what is behind and begins anew when it may.
#[test]
fn readers_and_the_writer_keep_apart() {
    const PACKET_BYTES: usize = 32;
    let (send, receive) = std::sync::mpsc::channel::<(u8, Frames)>();
    let write = || {
        let mut buffer = FrameBuffer::with_capacity(3 * PACKET_BYTES);
        let mut sent = 0_usize;
        while sent < 20_000 {
            if buffer.room() < PACKET_BYTES && !buffer.try_clear() {
                std::thread::yield_now();
                continue;
            }
            let byte = sent.to_le_bytes()[0];
            buffer.put(&[byte; PACKET_BYTES]);
            buffer.freeze(buffer.len());
            let frames = buffer.frames(buffer.len() - PACKET_BYTES..buffer.len()).to_frames();
            send.send((byte, frames)).unwrap();
            sent += 1;
        }
        drop(send);
        sent
    };
    let is_whole = |(byte, frames): (u8, Frames)| frames.iter().all(|&is| is == byte);
    std::thread::scope(|scope| {
        let whole = scope.spawn(move || receive.into_iter().map(is_whole).filter(|&is| is).count());
        assert_eq!(write(), whole.join().unwrap());
    });
}

#[test]
fn what_is_filled_by_its_user_lies_behind_the_rest_and_what_is_frozen_stays() {
    let mut buffer = filled(b"headbody", 8);
    let frames = buffer.frames(0..8).to_frames();
    let len = buffer.put_by(4, |place| {
        place.copy_from_slice(b"tail");
        place.len()
    });
    assert_eq!((len, buffer.len(), buffer.frozen()), (4, 12, 8));
    assert_eq!((&frames[..], buffer.get(8..12)), (&b"headbody"[..], &b"tail"[..]));
    assert!(panics(|buffer| buffer.put_by(93, |_| ())), "there is room for 92");
    assert_eq!(FrameBuffer::default().put_by(0, |place| place.len()), 0);
}

/// Other tests have some, too.
#[test]
fn it_is_known_whether_the_process_has_many() {
    let small: Vec<FrameBuffer> = (0..1_000).map(|_| FrameBuffer::with_capacity(4_096)).collect();
    let large: Vec<FrameBuffer> = (0..17).map(|_| FrameBuffer::with_capacity(64 << 10)).collect();
    assert!(FrameBuffer::are_many());
    drop(large);
    let is_few = (0..100_000_000).any(|_| {
        std::hint::spin_loop();
        !FrameBuffer::are_many()
    });
    assert!(is_few, "{} small ones are not many", small.len());
}
