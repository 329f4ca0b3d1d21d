use super::*;

fn fill(batch: &mut RecvBatch, len: usize, segment: usize) -> Vec<Received> {
    let from = "10.0.0.1:1".parse().unwrap();
    for (at, byte) in batch.region()[..len].iter_mut().enumerate() {
        byte.write(u8::try_from(at % 251).unwrap());
    }
    // SAFETY: `len` bytes have just been written.
    let count = unsafe { batch.push_region(from, len, segment) };
    let packets: Vec<Received> = batch.drain().collect();
    assert_eq!(packets.len(), count);
    packets
}

#[test]
fn a_joined_buffer_is_cut_without_a_copy_and_the_last_packet_may_be_short() {
    let mut batch = RecvBatch::new();
    let packets = fill(&mut batch, 1000, 300);
    let lens: Vec<usize> = packets.iter().map(|packet| packet.bytes.len()).collect();
    assert_eq!(lens, [300, 300, 300, 100]);
    for pair in packets.windows(2) {
        assert_eq!(pair[0].bytes.as_ptr() as usize + 300, pair[1].bytes.as_ptr() as usize);
    }
    let whole: Vec<u8> = packets.iter().flat_map(|packet| packet.bytes.to_vec()).collect();
    assert!(whole.iter().enumerate().all(|(at, &byte)| usize::from(byte) == at % 251));
}

#[test]
fn joined_packets_stay_together_until_somebody_wants_each() {
    let mut batch = RecvBatch::with_budget(10);
    let from = "10.0.0.1:1".parse().unwrap();
    batch.push_copy(from, &[b"alone"]);
    batch.region()[..1000].fill(MaybeUninit::new(7));
    // SAFETY: so many bytes have just been written.
    assert_eq!(unsafe { batch.push_region(from, 1000, 300) }, 4);
    assert_eq!((batch.len(), batch.room()), (5, 5));
    let sizes = |packets: &[Received]| -> Vec<_> {
        packets.iter().map(|packet| (packet.bytes.len(), packet.size)).collect()
    };
    let mut together = RecvBatch { packets: batch.packets.clone(), joined: 3, ..RecvBatch::new() };
    let joined: Vec<Received> = together.drain_joined().collect();
    assert_eq!((sizes(&joined), together.len()), (vec![(5, 5), (1000, 300)], 0));
    let apart = [(5, 5), (300, 300), (300, 300), (300, 300), (100, 100)];
    assert_eq!(sizes(batch.packets_mut()), apart);
    assert_eq!(batch.len(), 5);
    assert_eq!(sizes(&batch.drain().collect::<Vec<_>>()), apart);
    assert!(batch.is_empty());
}

#[test]
fn an_empty_datagram_is_a_packet_too() {
    assert_eq!(fill(&mut RecvBatch::new(), 0, 0)[0].bytes.len(), 0);
}

#[test]
fn a_packet_is_copied_whole_whatever_its_size() {
    let (mut batch, mut sizes) = (RecvBatch::with_budget(1000), Vec::new());
    for size in (0..1600).step_by(97).chain([COPYBREAK_BYTES, COPYBREAK_BYTES + 1, REGION_BYTES]) {
        let packet: Vec<u8> = (0..size).map(|at| u8::try_from(at % 251).unwrap()).collect();
        batch.push_packet("10.0.0.1:1".parse().unwrap(), &packet);
        sizes.push(size);
    }
    batch.end_run();
    for (packet, size) in batch.drain().zip(sizes) {
        assert_eq!(packet.bytes.len(), size);
        assert!(packet.bytes.iter().enumerate().all(|(at, &byte)| usize::from(byte) == at % 251));
    }
}

#[test]
fn small_packets_that_are_held_do_not_pin_regions() {
    let mut batch = RecvBatch::new();
    let home = batch.region().as_ptr();
    let held: Vec<Received> = (0..1000).flat_map(|_| fill(&mut batch, 60, 60)).collect();
    assert_eq!(batch.region().as_ptr(), home);
    assert_eq!(held.len(), 1000);
}

#[test]
fn what_the_kernel_joined_is_taken_out_where_nothing_else_came_and_may_be_put_back() {
    let mut batch = RecvBatch::new();
    let from = "10.0.0.1:1".parse().unwrap();
    let push = |batch: &mut RecvBatch, len: usize| {
        batch.region()[..len].fill(MaybeUninit::new(7));
        // SAFETY: so many bytes have just been written.
        unsafe { batch.push_region(from, len, 1_000) }
    };
    assert_eq!((push(&mut batch, 900), batch.take_joined()), (1, None), "one packet");
    assert!(batch.take_only().is_some());
    assert_eq!(push(&mut batch, 2_500), 3);
    let packets = batch.take_joined().unwrap();
    assert_eq!((packets.size, packets.bytes.len(), batch.len(), batch.is_empty()), (1_000, 2_500, 0, true));
    batch.put_back(packets);
    assert_eq!((batch.len(), batch.pieces()), (3, 1));
    push(&mut batch, 900);
    assert_eq!(batch.take_joined(), None, "behind them there is another");
    assert_eq!(batch.drain().map(|packet| packet.bytes.len()).collect::<Vec<_>>(), [1_000, 1_000, 500, 900]);
}
