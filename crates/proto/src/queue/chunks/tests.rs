use super::spent::{COOLING, HEAPED_MAX, PAGED_MAX};
use super::*;

const MSS: usize = 1_000;
const PACKETS: usize = CHUNK_BYTES / (HEADER_LEN + MSS);
const HEAD: [u8; HEADER_LEN] = [b'h'; HEADER_LEN];

fn lay(chunks: &mut Chunks, piece: Piece) -> Option<Piece> {
    chunks.lay_head(piece, &HEAD)
}

/// Begins a chunk of the largest size and fills it with packets of `byte`, which are one piece.
fn fill(chunks: &mut Chunks, byte: u8) -> Piece {
    chunks.begin(PACKETS * MSS, PACKETS * MSS, MSS);
    assert_eq!((chunks.end(), chunks.tail.capacity()), (0, PACKETS * (HEADER_LEN + MSS)));
    let pieces = [(); PACKETS].map(|()| put(chunks, &[byte; MSS]));
    Piece { len: chunks.end() - pieces[0].start, ..pieces[0] }
}

/// One packet.
fn put(chunks: &mut Chunks, bytes: &[u8]) -> Piece {
    chunks.reserve(bytes.len(), bytes.len(), bytes.len(), MSS);
    let start = chunks.end();
    chunks.put(bytes);
    chunks.tail_from(start)
}

/// A large packet, in a chunk of its own, which is frozen.
fn put_large(chunks: &mut Chunks) -> Piece {
    chunks.reserve(60_000, 60_000, 60_000, 60_000);
    let start = chunks.end();
    chunks.put(&[7; 60_000]);
    let piece = chunks.tail_from(start);
    lay(chunks, piece).unwrap()
}

fn home(chunks: &Chunks, piece: Piece) -> *const u8 {
    chunks.get(piece).as_ptr()
}

fn spent(chunks: &Chunks) -> &Spent {
    &chunks.others.as_ref().unwrap().spent
}

/// Whether all but what was left for heads is `byte`.
fn is_all(chunks: &Chunks, piece: Piece, byte: u8) -> bool {
    chunks.get(piece).chunks(HEADER_LEN + MSS).all(|packet| packet[..MSS].iter().all(|&is| is == byte))
}

#[test]
fn chunks_grow_from_one_packet_to_the_largest() {
    let mut chunks = Chunks::default();
    let mut sizes = Vec::new();
    for _ in 0..9 {
        chunks.begin(1, 1, MSS);
        sizes.push(chunks.tail.capacity() / (HEADER_LEN + MSS));
        put(&mut chunks, b"x");
    }
    assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 63, 63, 63]);
    chunks.begin(10 * CHUNK_BYTES, 10 * CHUNK_BYTES, MSS);
    assert_eq!(chunks.tail.capacity(), PACKETS * (HEADER_LEN + MSS));
}

#[test]
fn large_packets_lie_in_pages_if_they_are_sealed() {
    for (mss, coming, is_sealed, are_pages) in [
        (60_000, 60_000, true, true),
        (60_000, 60_000, false, false),
        (60_000, 1_000, true, true),
        (9_000, 9_000, true, false),
    ] {
        let mut chunks = Chunks::default();
        chunks.configure(is_sealed, true);
        for _ in 0..=PAGED_FROM {
            chunks.reserve(mss, mss, coming, mss);
            assert!(!chunks.tail.is_pages(), "they are for who sends much");
            chunks.put(&vec![1; mss]);
        }
        chunks.reserve(mss, coming, coming, mss);
        chunks.put(&vec![1; mss.min(coming)]);
        let piece = chunks.tail_from(narrow(HEADER_LEN));
        let frame = lay(&mut chunks, piece).unwrap();
        let frames = chunks.frame(frame).unwrap().to_frames();
        assert_eq!(frames.is_pages(), are_pages, "{coming} for {mss} bytes, sealed: {is_sealed}");
    }
}

/// They leave as one, which the link may take from where it lies.
#[test]
fn packets_that_fill_a_chunk_lie_in_pages_where_much_comes_at_once() {
    for (mss, coming, is_stream, are_pages) in [
        (1_444, 128 << 10, true, true),
        (1_444, 4 << 10, true, true),
        (1_444, 1_444, true, false),
        (1_444, 128 << 10, false, false),
        (9_000, 128 << 10, true, true),
    ] {
        let mut chunks = Chunks::default();
        chunks.configure(true, is_stream);
        let mut put = |rest| {
            chunks.reserve(mss, rest, coming, mss);
            chunks.put(&vec![1; mss]);
            (chunks.tail_number(), chunks.tail.is_pages())
        };
        while put(coming).0 < PAGED_FROM - 1 {}
        for _ in 0..200 {
            let (number, are) = put(coming);
            assert_eq!(are, are_pages && number > PAGED_FROM, "{mss} of {coming} bytes, chunk {number}");
        }
    }
}

/// Small sends fill large packets, and so pages, as long as there are many of them.
#[test]
fn who_says_little_holds_no_pages() {
    let mut chunks = Chunks::default();
    chunks.configure(true, true);
    let put = |chunks: &mut Chunks, bytes: usize| {
        chunks.reserve(bytes, bytes, bytes, 60_000);
        chunks.put(&vec![1; bytes]);
    };
    (0..=PAGED_FROM).for_each(|_| put(&mut chunks, 60_000));
    chunks.release(chunks.tail_number());
    chunks.rest(false);
    chunks.forget();
    let are_pages: Vec<bool> = (0..200)
        .map(|_| {
            put(&mut chunks, 1_000);
            chunks.tail.is_pages()
        })
        .collect();
    let first = are_pages.iter().position(|&is| is).unwrap();
    assert!((55..100).contains(&first), "from the {first}th message on");
    assert!(are_pages[first..].iter().all(|&is| is));
}

#[test]
fn a_piece_is_what_was_written_until_its_chunk_is_released() {
    let mut chunks = Chunks::default();
    let pieces: Vec<Piece> = (0..5).map(|byte| fill(&mut chunks, byte)).collect();
    let all_are =
        |chunks: &Chunks, from: u8| (from..5).all(|byte| is_all(chunks, pieces[usize::from(byte)], byte));
    assert!(all_are(&chunks, 0));
    chunks.release(pieces[3].chunk);
    assert_eq!(chunks.others.as_ref().unwrap().full.len(), 1);
    fill(&mut chunks, 9);
    assert!(all_are(&chunks, 3));
}

#[test]
fn a_chunk_is_used_again_once_it_is_released_and_the_link_holds_none_of_it() {
    let mut chunks = Chunks::default();
    let pieces: Vec<Piece> = (0..4).map(|byte| fill(&mut chunks, byte)).collect();
    let homes: Vec<_> = pieces.iter().map(|&piece| home(&chunks, piece)).collect();
    let frame = lay(&mut chunks, pieces[1]).unwrap();
    let held = chunks.frame(frame).unwrap().to_frames();
    chunks.release(pieces[3].chunk);
    let mut refill = |byte| {
        let piece = fill(&mut chunks, byte);
        home(&chunks, piece)
    };
    let again = [4, 5, 6].map(&mut refill);
    assert_eq!(again[..2], [homes[2], homes[0]], "the last first");
    assert!(!homes.contains(&again[2]), "one is held, and one is not released");
    assert_eq!((&held[..HEADER_LEN], held[HEADER_LEN]), (&HEAD[..], 1));
    drop(held);
    assert_eq!(refill(7), homes[1]);
}

#[test]
fn heads_are_laid_where_nothing_else_lies() {
    let mut chunks = Chunks::default();
    chunks.begin(4 * MSS, 4 * MSS, MSS);
    let pieces = [b"first", b"other"].map(|bytes| put(&mut chunks, bytes));
    let frames = pieces.map(|piece| lay(&mut chunks, piece).unwrap());
    assert_eq!(lay(&mut chunks, pieces[1]), None, "it has left");
    let mut run = chunks.frame(frames[0]).unwrap().to_frames();
    assert!(run.join(&chunks.frame(frames[1]).unwrap()), "end to end");
    assert_eq!(run[..], [&HEAD[..], b"first", &HEAD, b"other"].concat());

    let mut rest = put(&mut chunks, &[7; MSS]);
    let part = rest.split_to(400);
    chunks.freeze(part);
    assert_eq!(lay(&mut chunks, part), None, "it has left as a copy");
    assert_eq!(lay(&mut chunks, rest), None, "no room was left within it");
    assert_eq!(chunks.get(part), &[7; 400]);
}

#[test]
fn lent_bytes_lie_between_what_was_written_before_and_after() {
    let mut chunks = Chunks::default();
    let before = put(&mut chunks, b"before");
    let lent = chunks.lend(Bytes::from_static(b"lent"));
    let after = put(&mut chunks, b"after");
    assert_eq!([before, lent, after].map(|piece| chunks.get(piece)), [&b"before"[..], b"lent", b"after"]);
    assert_eq!([before, lent, after].map(|piece| piece.chunk), [0, 1, 2]);
    assert_eq!([before, lent, after].map(|piece| chunks.lent(piece).is_some()), [false, true, false]);
    assert!(lay(&mut chunks, lent).is_none() && chunks.frame(lent).is_none());
    chunks.release(after.chunk);
    assert_eq!(spent(&chunks).heaped(), 1, "lent bytes are not ours");
}

/// A short send before each buffer that is lent takes room for one packet, however long it goes on.
#[test]
fn what_is_sent_between_lent_bytes_takes_little() {
    let mut chunks = Chunks::default();
    for _ in 0..100 {
        put(&mut chunks, b"head");
        chunks.lend(Bytes::from_static(b"lent"));
    }
    let own = chunks.others.unwrap().full.into_iter().map(|full| match full {
        Full::Own(chunk) => chunk.capacity(),
        Full::Lent(_) => 0,
    });
    assert_eq!(own.sum::<usize>(), 100 * (HEADER_LEN + MSS));
}

#[test]
fn so_many_are_kept_also_at_rest_unless_the_process_has_many() {
    let mut chunks = Chunks::default();
    (0..100).for_each(|byte| _ = fill(&mut chunks, byte));
    chunks.release(chunks.tail_number());
    assert_eq!(spent(&chunks).heaped(), HEAPED_MAX);
    let number = chunks.tail_number();
    chunks.rest(false);
    assert_eq!(spent(&chunks).heaped(), HEAPED_MAX);
    (0..50).for_each(|byte| _ = fill(&mut chunks, byte));
    assert_eq!(spent(&chunks).heaped(), 0, "they are used again");
    chunks.release(chunks.tail_number());
    chunks.rest(true);
    assert!(chunks.others.is_none());
    assert_eq!((chunks.tail_number(), chunks.end()), (number.wrapping_add(49), 0));
    assert_eq!(chunks.tail.capacity(), PACKETS * (HEADER_LEN + MSS));
}

#[test]
fn a_rest_leaves_pages_until_it_is_long() {
    let mut chunks = Chunks::default();
    chunks.configure(true, true);
    for _ in 0..100 {
        chunks.reserve(60_000, 60_000, 60_000, 60_000);
        chunks.put(&[7; 60_000]);
    }
    chunks.release(chunks.tail_number());
    chunks.rest(false);
    assert_eq!(chunks.pages(), PAGED_MAX + 1);
    assert!(!spent(&chunks).shares_pages());
    chunks.others.as_mut().unwrap().spent.rest(false, true);
    assert!((2..PAGED_MAX).contains(&chunks.pages()) && spent(&chunks).shares_pages());
    chunks.forget();
    assert_eq!((chunks.pages(), chunks.capacity()), (0, 0));
}

/// The peer reads pages where they lie, on another core; what it got a copy of only this core has touched.
#[test]
fn pages_that_were_read_are_filled_again_when_others_were_read_since_and_others_at_once() {
    for (is_read, gap) in [(true, COOLING + 2), (false, 2)] {
        let mut chunks = Chunks::default();
        chunks.configure(true, true);
        let mut send = || {
            let piece = put_large(&mut chunks);
            if is_read {
                chunks.frame(piece).unwrap().to_frames().note_read();
            }
            chunks.release(chunks.tail_number());
            (chunks.tail.is_pages(), home(&chunks, piece))
        };
        while !send().0 {}
        let homes: Vec<_> = (0..3 * COOLING).map(|_| send().1).collect();
        let again =
            |from: usize| homes[from + 1..].iter().position(|home| *home == homes[from]).map(|gap| gap + 1);
        let gaps: Vec<_> = (0..COOLING).map_while(again).collect();
        assert_eq!(gaps, [gap; COOLING], "read: {is_read}");
    }
}

/// The way that packets take changes from time to time.
#[test]
fn pages_are_kept_whether_they_were_read_or_not_but_no_more_than_so_many() {
    let mut chunks = Chunks::default();
    chunks.configure(true, true);
    (0..=PAGED_FROM).for_each(|_| _ = put_large(&mut chunks));
    let mut fill = |count| -> Vec<_> {
        let put = |number| {
            let piece = put_large(&mut chunks);
            if number % 2 == 0 {
                chunks.frame(piece).unwrap().to_frames().note_read();
            }
            home(&chunks, piece)
        };
        let homes = (0..count).map(put).collect();
        chunks.release(chunks.tail_number());
        homes
    };
    let first = fill(PAGED_MAX);
    let again = fill(PAGED_MAX).iter().filter(|home| first.contains(home)).count();
    assert_eq!(
        again,
        PAGED_MAX - COOLING - 1,
        "all but the last that were read, and the one that was being filled"
    );
    fill(2 * PAGED_MAX);
    assert_eq!(spent(&chunks).paged(), PAGED_MAX);
}

/// What was acknowledged before goes back, what is acknowledged later is not kept, and there are none before as many chunks as at first.
#[test]
fn pages_that_are_put_off_go_back_and_come_as_at_first() {
    let mut chunks = Chunks::default();
    chunks.configure(true, true);
    let are_pages = |chunks: &mut Chunks| {
        put_large(chunks);
        chunks.tail.is_pages()
    };
    let at_first = (0..).take_while(|_| !are_pages(&mut chunks)).count();
    (0..4).for_each(|_| assert!(are_pages(&mut chunks)));
    chunks.release(chunks.tail_number() - 2);
    assert!(spent(&chunks).paged() > 0);
    chunks.put_off_pages();
    assert!(spent(&chunks).paged() == 0);
    chunks.release(chunks.tail_number());
    assert!(spent(&chunks).paged() == 0);
    let again = (0..).take_while(|_| !are_pages(&mut chunks)).count();
    assert!(at_first > 0 && again == at_first, "{again} chunks instead of {at_first}");
}

/// Who has come to pages needs them no more, but one who says now much and now little does.
#[test]
fn chunks_of_the_heap_are_kept_until_only_pages_were_wanted_for_a_while() {
    let mut chunks = Chunks::default();
    chunks.configure(true, true);
    let put = |chunks: &mut Chunks, coming: usize| {
        chunks.reserve(MSS, coming, coming, MSS);
        chunks.put(&[1; MSS]);
        while chunks.tail.room() >= HEADER_LEN + MSS {
            chunks.reserve(MSS, coming, coming, MSS);
            chunks.put(&[1; MSS]);
        }
        chunks.release(chunks.tail_number());
    };
    for _ in 0..2 * PAGED_FROM {
        put(&mut chunks, 128 << 10);
        put(&mut chunks, MSS);
    }
    (0..HEAPED_MAX / 2).for_each(|_| put(&mut chunks, 128 << 10));
    assert!(spent(&chunks).heaped() > 0 && spent(&chunks).paged() > 0);
    (0..HEAPED_MAX).for_each(|_| put(&mut chunks, 128 << 10));
    assert_eq!(spent(&chunks).heaped(), 0);
}

#[test]
fn a_chunk_of_which_the_link_holds_something_is_given_up_at_rest() {
    let mut chunks = Chunks::default();
    let piece = put(&mut chunks, b"held");
    let frame = lay(&mut chunks, piece).unwrap();
    let held = chunks.frame(frame).unwrap().to_frames();
    chunks.rest(false);
    assert_eq!(chunks.tail.capacity(), 0);
    assert_eq!(&held[HEADER_LEN..], b"held");
}
