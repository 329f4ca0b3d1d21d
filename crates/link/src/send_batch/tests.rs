use weft_frame::FrameBuffer;

use super::*;

static LARGE: [u8; INLINE_BYTES + 1] = [7; INLINE_BYTES + 1];

fn push(batch: &mut SendBatch, head: &[u8], body: &'static [u8]) {
    let start = batch.heads.len();
    batch.heads_mut().extend_from_slice(head);
    batch.push(to(1), start..start + head.len(), Bytes::from_static(body), false);
}

fn to(port: u16) -> SocketAddr {
    ([10, 0, 0, 1], port).into()
}

fn whole(batch: &SendBatch) -> Vec<Vec<u8>> {
    batch.iter().map(|frame| [frame.head, frame.body].concat()).collect()
}

fn counts(batch: &SendBatch) -> Vec<usize> {
    batch.runs.iter().map(|run| run.count).collect()
}

#[test]
fn a_small_body_lies_behind_its_head_and_a_large_one_is_not_copied() {
    let mut batch = SendBatch::new();
    push(&mut batch, b"one", b"small");
    push(&mut batch, b"two", &LARGE);
    let frames: Vec<Frame> = batch.iter().collect();
    assert_eq!((frames[0].head, frames[0].body.len()), (&b"onesmall"[..], 0));
    assert_eq!((frames[1].head, frames[1].body.as_ptr()), (&b"two"[..], LARGE.as_ptr()));
}

#[test]
fn packets_of_one_size_are_one_run_that_a_shorter_one_or_another_target_ends() {
    let mut batch = SendBatch::new();
    for (len, port) in [(50, 1), (50, 1), (20, 1), (20, 1), (50, 1), (50, 2), (0, 2), (0, 2)] {
        batch.push_slice(to(port), &vec![1; len]);
    }
    assert_eq!(counts(&batch), [3, 1, 1, 1, 1, 1]);
    let lens: Vec<usize> = batch.iter().map(|frame| frame.len()).collect();
    assert_eq!(lens, [50, 50, 20, 20, 50, 50, 0, 0]);
}

/// Packets of these sizes, end to end in one piece of memory.
fn end_to_end(sizes: &[usize]) -> impl Iterator<Item = BytesMut> {
    let all: Vec<u8> = (0..sizes.iter().sum()).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let mut rest = BytesMut::from(&all[..]);
    sizes.iter().map(move |&size| rest.split_to(size))
}

#[test]
fn packets_that_came_end_to_end_stay_where_they_lie_and_are_one_run() {
    let mut batch = SendBatch::new();
    let packets: Vec<BytesMut> = end_to_end(&[50, 50, 20, 50]).collect();
    let home = packets[0].as_ptr();
    let expected: Vec<Vec<u8>> = packets.iter().map(|packet| packet.to_vec()).collect();
    packets.into_iter().for_each(|packet| batch.push_own(to(1), packet));
    assert_eq!((counts(&batch), whole(&batch)), (vec![3, 1], expected));
    assert_eq!((batch.iter().next().unwrap().head.as_ptr(), batch.heads.len()), (home, 0));
}

#[test]
fn lone_packets_are_copied_end_to_end_when_the_next_shows_it_but_large_ones_are_not() {
    let mut batch = SendBatch::new();
    for packet in [&[1; 50], &[2; 50], &[3; 50]] {
        batch.push_own(to(1), BytesMut::from(&packet[..]));
    }
    assert_eq!((counts(&batch), batch.heads.len()), (vec![2, 1], 100));
    batch.push_own(to(2), BytesMut::from(&LARGE[..]));
    batch.push_own(to(2), BytesMut::from(&b"end"[..]));
    assert_eq!((counts(&batch), batch.heads.len(), batch.len()), (vec![3, 1, 1], 150, 5));
    assert_eq!(batch.iter().nth(3).unwrap().head, LARGE);
}

#[test]
fn a_packet_that_may_be_fragmented_is_a_run_of_its_own() {
    let mut batch = SendBatch::new();
    for may_fragment in [false, true, true, false] {
        batch.push_copy(to(1), &[&[1; 30]], may_fragment);
    }
    assert_eq!(counts(&batch), [1, 1, 1, 1]);
}

#[test]
fn what_was_not_sent_stays_whole_wherever_the_cut_falls() {
    for sent in 0..=12 {
        let mut batch = SendBatch::new();
        for (head, body) in [(b"aa", &b"xyz"[..]), (b"bb", b"xyz"), (b"cc", b"uvw"), (b"dd", b"x")] {
            push(&mut batch, head, body);
            push(&mut batch, head, if body.len() > 2 { body } else { &LARGE });
        }
        end_to_end(&[5, 5, 3]).for_each(|packet| batch.push_own(to(1), packet));
        push(&mut batch, b"end", b"");
        let expected = whole(&batch)[sent..].to_vec();
        batch.consume(sent);
        assert_eq!((whole(&batch), batch.len()), (expected, 12 - sent));
        push(&mut batch, b"more", b"body");
        assert_eq!(whole(&batch).last().unwrap(), b"morebody");
    }
}

#[test]
#[should_panic(expected = "not so many packets")]
fn more_than_there_is_cannot_have_been_sent() {
    let mut batch = SendBatch::new();
    batch.push_slice(to(1), b"one");
    batch.consume(2);
}

#[test]
#[should_panic(expected = "no bytes of the heads")]
fn a_head_outside_the_heads_is_refused() {
    SendBatch::new().push(to(1), 0..1, Bytes::new(), false);
}

/// A buffer that holds packets of these sizes, each filled with its number, and where they lie.
fn frozen(sizes: &[usize]) -> (FrameBuffer, Vec<Range<usize>>) {
    let mut buffer = FrameBuffer::with_capacity(sizes.iter().sum());
    let mut ranges = Vec::new();
    for (number, &size) in (0..).zip(sizes) {
        buffer.put(&vec![number; size]);
        ranges.push(buffer.len() - size..buffer.len());
    }
    buffer.freeze(buffer.len());
    (buffer, ranges)
}

fn push_frames(batch: &mut SendBatch, port: u16, buffer: &FrameBuffer, ranges: &[Range<usize>]) {
    for range in ranges {
        batch.push_frames(to(port), &buffer.frames(range.clone()), 1, false);
    }
}

#[test]
fn frames_stay_where_they_lie_and_neighbours_of_one_size_are_one_run() {
    let (buffer, ranges) = frozen(&[600, 600, 100, 600, 600, 600]);
    let mut batch = SendBatch::new();
    push_frames(&mut batch, 1, &buffer, &ranges[..5]);
    push_frames(&mut batch, 2, &buffer, &ranges[5..]);
    assert_eq!((counts(&batch), batch.len(), batch.heads.len()), (vec![3, 2, 1], 6, 0));
    assert_eq!(batch.iter().next().unwrap().head.as_ptr(), buffer.get(0..1).as_ptr());
    assert_eq!(
        whole(&batch),
        ranges.iter().map(|range| buffer.get(range.clone()).to_vec()).collect::<Vec<_>>()
    );
    batch.consume(4);
    assert_eq!((counts(&batch), batch.at(Cursor::default()).head), (vec![1, 1], &[4; 600][..]));
}

/// Several that come together are as many that come one by one: those of another size do not join, but one that is shorter ends a run.
#[test]
fn frames_that_come_together_are_as_those_that_come_one_by_one() {
    let (buffer, ranges) = frozen(&[600, 600, 600, 600, 400, 400, 400, 600]);
    let together = |groups: &[Range<usize>]| {
        let mut batch = SendBatch::new();
        for group in groups {
            let bytes = ranges[group.start].start..ranges[group.end - 1].end;
            batch.push_frames(to(1), &buffer.frames(bytes), group.len(), false);
        }
        (counts(&batch), batch.len(), whole(&batch))
    };
    let packets: Vec<_> = ranges.iter().map(|range| buffer.get(range.clone()).to_vec()).collect();
    assert_eq!(together(&[0..2, 2..4, 4..7, 7..8]), (vec![4, 3, 1], 8, packets.clone()));
    assert_eq!(together(&[0..4, 4..5, 5..7, 7..8]), (vec![5, 2, 1], 8, packets));
}

#[test]
#[should_panic(expected = "2 packets of one size have not 1201 bytes")]
fn frames_of_unequal_size_do_not_come_together() {
    let (buffer, _) = frozen(&[600, 601]);
    SendBatch::new().push_frames(to(1), &buffer.frames(0..1_201), 2, false);
}

#[test]
fn frames_that_may_be_fragmented_stand_alone() {
    let (buffer, ranges) = frozen(&[600; 4]);
    let mut batch = SendBatch::new();
    for (range, may_fragment) in ranges.into_iter().zip([false, true, true, false]) {
        batch.push_frames(to(1), &buffer.frames(range), 1, may_fragment);
    }
    assert_eq!(counts(&batch), [1; 4]);
}

#[test]
fn a_batch_lets_go_of_frames_when_it_is_cleared() {
    let (mut buffer, ranges) = frozen(&[600, 600]);
    let mut batch = SendBatch::new();
    push_frames(&mut batch, 1, &buffer, &ranges);
    assert!(!buffer.try_clear());
    batch.clear();
    assert!(buffer.try_clear());
}

#[test]
fn what_lies_in_pages_leaves_in_equal_parts() {
    let mut buffer = weft_frame::Pages::default().buffer(44 * 1_472);
    (0..44).for_each(|_| buffer.put(&[1; 1_472]));
    buffer.freeze(buffer.len());
    let mut batch = SendBatch::new();
    batch.push_frames(to(1), &buffer.frames(0..buffer.len()), 44, false);
    for (most, parts) in [(64, &[44][..]), (32, &[22, 22]), (16, &[15, 15, 14]), (1, &[1; 44])] {
        let mut at = Cursor::default();
        let counts: Vec<_> = std::iter::from_fn(|| {
            let pages = (at.run < batch.runs.len()).then(|| batch.in_pages(at, most)).flatten()?;
            assert_eq!((pages.size, pages.bytes.len()), (1_472, pages.count * 1_472));
            batch.advance(&mut at, pages.count);
            Some(pages.count)
        })
        .collect();
        assert_eq!(counts, parts, "of at most {most}");
    }
}
