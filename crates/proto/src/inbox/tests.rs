use weft_base::{Address, FlowKey, NodeId, Port, Seq};
use weft_wire::emit::data_head;
use weft_wire::records::record_head;
use weft_wire::{Encapsulation, HEADER_LEN, Header, Kind, Train};

use super::*;

const LEN: usize = 1_000;

fn inbox(service: Service) -> Inbox {
    Inbox::new(Rules { service, message_bytes: Some(1 << 20), coalesce: false })
}

/// Memory that packets are received into, one data segment every so many bytes.
fn region(every: usize) -> (Bytes, Vec<Bytes>) {
    let all = Bytes::from(vec![7; 64 * every]);
    let segments = (0..64).map(|at| all.slice(at * every..at * every + LEN)).collect();
    (all, segments)
}

/// [CDP-DG-8] [CDP-DG-9] One that is longer than was announced ends the connection, which is for who takes it apart to see to.
#[test]
fn a_message_of_several_packets_is_handed_over_where_it_is_next_and_may_be_as_long() {
    let rules = |service, message_bytes| Inbox::new(Rules { service, message_bytes, coalesce: false });
    let cases = [
        (Service::Datagram, Some(5_000), 5_000, true),
        (Service::Datagram, Some(5_000), 5_001, false),
        (Service::Datagram, None, 5_000, false),
        (Service::Stream, Some(5_000), 5_000, false),
    ];
    for (service, message_bytes, bytes, expected) in cases {
        assert_eq!(rules(service, message_bytes).hands_over_parts(0, bytes), expected, "{service:?} {bytes}");
    }
    for eom in [false, true] {
        let mut inbox = inbox(Service::Datagram);
        inbox.push(eom, Bytes::from_static(b"before it")).unwrap();
        assert!(!inbox.hands_over_parts(0, 5_000) && !inbox.hands_over_parts(9, 5_000));
    }
}

/// Packets of a stream, each with `len` bytes.
fn stream_packets(count: u64, len: usize) -> Vec<Vec<u8>> {
    let end = Address { node: NodeId::new(1).unwrap(), port: Port::new(50_000).unwrap() };
    let flow = FlowKey { local: end, remote: Address { node: NodeId::new(2).unwrap(), ..end } };
    let header = |number| Header { seq: Seq::new(number), ..Header::new(Kind::Data, flow) };
    let body = vec![7; len];
    (0..count).map(|number| [&data_head(&header(number), &body, true)[..], &body].concat()).collect()
}

/// How many of these keep the memory of `all`.
fn keeping<'a>(all: &Bytes, messages: impl IntoIterator<Item = &'a Bytes>) -> usize {
    messages.into_iter().filter(|part| all.as_ptr_range().contains(&part.as_ptr())).count()
}

/// [CDP-WND-2] True bytes are counted: the memory of others is not kept.
#[test]
fn what_came_alone_is_copied_when_the_reader_is_behind_and_what_came_together_is_not() {
    for (every, kept) in [(LEN + 28, 64), (LEN + 256, 64), (LEN + 300, LENT_MAX as usize)] {
        let (all, segments) = region(every);
        let mut inbox = inbox(Service::Stream);
        segments.into_iter().for_each(|segment| inbox.push(false, segment).unwrap());
        let messages: Vec<Message> = std::iter::from_fn(|| inbox.pop()).collect();
        assert!(messages.iter().all(|message| message.parts()[0] == vec![7; LEN]));
        let parts = messages.iter().flat_map(Message::parts);
        assert_eq!(keeping(&all, parts), kept, "{every}");
    }
}

/// [CDP-WND-2] What comes behind packets that came together is not alone, and what lies elsewhere is.
#[test]
fn segments_end_where_their_memory_does() {
    let size = HEADER_LEN + LEN;
    let all = Bytes::from(stream_packets(40, LEN).concat());
    let mut front = all.clone();
    let mut train = Train::split_checked(&mut front, size, Encapsulation::Simulated).unwrap();
    assert_eq!(train.len(), 40);
    let mut inbox = inbox(Service::Stream);
    inbox.push_segments(train.take_segments(39));
    assert_eq!(inbox.slots_used(), 39);
    let last = all.slice(39 * size + HEADER_LEN..);
    inbox.push(false, last.clone()).unwrap();
    inbox.push(false, last).unwrap();
    let messages: Vec<Message> = std::iter::from_fn(|| inbox.pop()).collect();
    assert!(messages.iter().all(|message| message.len() == LEN));
    assert_eq!((messages.len(), keeping(&all, messages.iter().flat_map(Message::parts))), (41, 40));
    assert_eq!(inbox.slots_used(), 0);
}

/// [CDP-WND-2] [CDP-DG-7] Parts that have left their slots keep no memory of others either.
#[test]
fn parts_of_a_message_are_copied_in_the_same_way() {
    for (every, kept) in [(LEN + 28, 64), (LEN + 300, LENT_MAX as usize)] {
        let (all, segments) = region(every);
        let mut inbox = inbox(Service::Datagram);
        segments.into_iter().enumerate().for_each(|(at, segment)| inbox.push(at == 63, segment).unwrap());
        let message = inbox.pop().unwrap();
        assert_eq!((message.len(), keeping(&all, message.parts())), (64 * LEN, kept), "{every}");
    }
}

/// [CDP-WND-2] What messages take beyond the slots that are promised counts, and no more when it is read or dropped.
#[test]
fn messages_count_beyond_the_slots() {
    let (_, segments) = region(LEN + 28);
    let mut inbox = inbox(Service::Datagram);
    for (at, segment) in segments.into_iter().enumerate() {
        assert_eq!(inbox.bytes_beyond(8, 1_000), at.saturating_sub(8) * LEN, "{at}");
        inbox.push(at == 40, segment).unwrap();
    }
    assert_eq!((inbox.slots_used(), inbox.bytes_beyond(8, 1_000)), (41, 56 * LEN));
    assert_eq!(inbox.clear_open(), 23);
    assert_eq!(inbox.bytes_beyond(8, 1_000), 33 * LEN);
    assert_eq!(inbox.pop().map(|message| message.len()), Some(41 * LEN));
    assert_eq!((inbox.slots_used(), inbox.bytes_beyond(0, 1_000)), (0, 0));
}

#[test]
fn what_came_in_one_packet_is_short_and_what_is_put_together_or_a_stream_is_not() {
    let mut messages = inbox(Service::Datagram);
    assert!(messages.is_next_short(), "there is nothing");
    messages.push(true, Bytes::from_static(&[7; LEN])).unwrap();
    messages.push(false, Bytes::from_static(&[7; LEN])).unwrap();
    messages.push(true, Bytes::from_static(&[7; LEN])).unwrap();
    assert!(messages.is_next_short());
    messages.pop().unwrap();
    assert!(!messages.is_next_short(), "a message of two packets");
    let mut stream = inbox(Service::Stream);
    stream.push(false, Bytes::from_static(&[7; LEN])).unwrap();
    assert!(!stream.is_next_short(), "all that is there is read at once");
}

/// [CDP-COA-6] A packet has one slot, whatever it ends, holds and begins.
#[test]
fn a_packet_of_records_has_one_slot() {
    let packet = |records: &[(bool, &[u8])]| {
        let record =
            |(more, body): &(bool, &[u8])| [&record_head(*more, body.len()).unwrap(), *body].concat();
        Bytes::from(records.iter().flat_map(record).collect::<Vec<_>>())
    };
    let mut inbox = inbox(Service::Datagram);
    inbox.set_coalesce(true);
    inbox.push(false, packet(&[(false, b"one"), (false, b""), (true, b"tw")])).unwrap();
    assert_eq!((inbox.packets(), inbox.slots_used()), (1, 0), "the part has left it (CDP-DG-7)");
    inbox.push(false, packet(&[(false, b"o"), (true, b"th")])).unwrap();
    assert_eq!((inbox.packets(), inbox.slots_used()), (2, 1));
    inbox.push(false, packet(&[(true, b"re")])).unwrap();
    inbox.push(false, packet(&[(false, b"e"), (false, b"four")])).unwrap();
    assert_eq!((inbox.packets(), inbox.slots_used(), inbox.bytes_beyond(4, 1_000)), (4, 4, 0));
    let messages: Vec<_> =
        std::iter::from_fn(|| inbox.pop()).map(|message| message.parts().concat()).collect();
    assert_eq!(messages, [&b"one"[..], b"", b"two", b"three", b"four"]);
    assert_eq!((inbox.packets(), inbox.slots_used()), (0, 0));
}

/// [CDP-DG-8] What a reader has of a message counts as long as that has no end.
#[test]
fn what_was_read_ahead_is_part_of_the_size_of_a_message() {
    let mut inbox = inbox(Service::Datagram);
    for _ in 0..1 << 10 {
        let part = Bytes::from(vec![7; 1 << 10]);
        inbox.push(false, part).unwrap();
        assert_eq!(inbox.read_ahead(inbox.ahead(), |_| true), 1 << 10);
    }
    assert_eq!((inbox.ahead(), inbox.bytes_ahead()), (1 << 20, 0));
    assert_eq!(inbox.push(true, Bytes::from_static(&[7])), Err(Reason::TOO_BIG));
    assert_eq!(inbox.clear_open(), 1 << 10);
    assert_eq!((inbox.ahead(), inbox.message_bytes), (0, 0));
}
