use super::*;

/// One after the other, as slabs are counted in all of the process.
#[test]
fn pages() {
    pages_are_filled_as_any_other_memory_and_begin_where_a_page_does();
    no_page_is_cut_off_twice_and_none_before_the_last_of_a_slab_goes_back();
    a_process_has_so_many_and_who_asks_for_none_or_too_much_gets_other_memory();
}

fn pages_are_filled_as_any_other_memory_and_begin_where_a_page_does() {
    let mut pages = Pages::default();
    assert!(pages.is_empty());
    let mut buffer = pages.buffer(40_000);
    assert!(!pages.is_empty());
    assert_eq!((buffer.capacity(), buffer.get(0..0).as_ptr().addr() % 4096), (40_000, 0));
    let start = buffer.skip(4);
    buffer.put(&[1; 30_000]);
    buffer.write(start, b"head");
    buffer.freeze(30_004);
    let frames = buffer.frames(0..30_004).to_frames();
    let copy = buffer.clone();
    drop((buffer, pages));
    assert!(frames.is_pages() && &frames[..4] == b"head" && frames[4..].iter().all(|&byte| byte == 1));
    assert_eq!(copy.get(0..30_004), &frames[..]);
    assert!(!copy.is_pages(), "a copy lies in the heap");
}

fn no_page_is_cut_off_twice_and_none_before_the_last_of_a_slab_goes_back() {
    let mut pages = Pages::default();
    let mut buffers: Vec<FrameBuffer> = (0..100).map(|_| pages.buffer(65_000)).collect();
    for (nth, buffer) in (0..).zip(&mut buffers) {
        buffer.put(&[nth; 65_000]);
    }
    assert!((0..).zip(&buffers).all(|(nth, buffer)| buffer.get(0..65_000).iter().all(|&byte| byte == nth)));
    assert_eq!(SLABS.load(Ordering::Relaxed), 4, "32 each");
    let shared = buffers.iter().filter(|buffer| buffer.shares_pages(&buffers[40])).count();
    assert_eq!(shared, 32);
    assert!(!FrameBuffer::with_capacity(1).shares_pages(&FrameBuffer::default()));

    let again = pages.clone().buffer(65_000);
    assert!(!buffers.iter().any(|buffer| buffer.shares_pages(&again)), "a clone has its own");
    drop(again);
    let last = buffers.swap_remove(99);
    let kept = buffers.swap_remove(10);
    drop((buffers, pages));
    assert_eq!(SLABS.load(Ordering::Relaxed), 2);
    assert!(kept.get(0..65_000).iter().all(|&byte| byte == 10));
    drop((kept, last));
    assert_eq!(SLABS.load(Ordering::Relaxed), 0);
}

fn a_process_has_so_many_and_who_asks_for_none_or_too_much_gets_other_memory() {
    let mut pages = Pages::default();
    let (none, large) = (pages.buffer(0), pages.buffer(SLAB_BYTES + 1));
    assert_eq!((none.capacity(), large.capacity()), (0, SLAB_BYTES + 1));
    assert!(!none.is_pages() && !large.is_pages());
    for _ in 0..2 {
        let half: Vec<_> = (0..SLABS_MAX / 2).map(|_| pages.buffer(SLAB_BYTES)).collect();
        assert!(!Pages::are_scarce());
        let more = pages.buffer(SLAB_BYTES);
        assert!(Pages::are_scarce());
        drop((half, more));
        let buffers: Vec<_> = (0..SLABS_MAX + 10).map(|_| pages.buffer(SLAB_BYTES)).collect();
        let of_pages = buffers.iter().filter(|buffer| buffer.is_pages()).count();
        assert_eq!(of_pages, SLABS_MAX, "other programs need memory too, and what is gone counts no more");
    }
}
