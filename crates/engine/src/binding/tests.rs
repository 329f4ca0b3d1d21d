use weft_base::{Port as Number, Service};
use weft_link::{Hub, Link};

use super::*;
use crate::conversation::{Conversation, LIMIT};
use crate::gather::Gather;
use crate::waiters::Interest;
use crate::{Config, Engine, RecvError, SendError, Settings, Target, clock};

fn engine(hub: &Hub) -> Engine {
    let link: Arc<dyn Link> = Arc::new(hub.endpoint().expect("a descriptor"));
    Engine::open(Settings { links: vec![link], ..Settings::default() }).expect("an engine")
}

/// A message that went to who waited leaves its slot as one that was queued and read, but for having been readable.
#[test]
fn what_was_bound_is_acknowledged_in_time_though_nobody_answers() {
    let hub = Hub::new(1_500);
    let Conversation { here, asks, there, answers } = Conversation::between(engine(&hub), engine(&hub));
    let ack_delay = Config::new(Service::Datagram, here.mss()).ack_delay;

    let mut buffer = [0; 16];
    let (core, port) = (here.core(), here.core().port(0));
    for _ in 0..1_000 {
        here.send(&asks, b"question").unwrap();
        assert_eq!(there.recv_within(&answers, &mut buffer, Some(LIMIT)).unwrap().len, 8);
        there.send(&answers, b"answer").unwrap();
        let now = clock::now();
        let (count, bound) = Buffer::new(&mut buffer)
            .bind(&asks, |binding| core.try_turn_for(port, binding, Runner::User, now));
        if let Some(received) = bound {
            assert_eq!((count, received.len, &buffer[..6]), (Some(1), 6, &b"answer"[..]));
            let live = asks.look();
            if clock::now() - now >= ack_delay {
                // This thread had no processor for so long that the acknowledgement may have left.
                continue;
            }
            assert!(!asks.is_ready(Interest::Readable) && live.has_read && live.connection.has_unread_ack());
            assert_eq!(live.connection.poll_timeout(), Some(now + ack_delay));
            return;
        }
        // A thread of the engine was there first, or this one was too late for a conversation.
        assert_eq!(here.recv_within(&asks, &mut buffer, Some(LIMIT)).unwrap().len, 6);
    }
    panic!("no message of 1,000 was bound");
}

/// Over real sockets, by which packets of a stream come together, or large ones alone. What finds no room stays to be read, and a short last
/// packet comes with those before it.
#[test]
fn bytes_of_a_stream_that_come_together_go_to_who_waits_for_them() {
    let bind = "127.0.0.1:0".parse().unwrap();
    let open = || Engine::open(Settings { bind, ..Settings::default() }).expect("an engine");
    let cases: [(u16, usize, &[usize]); 2] =
        [(1_444, 40_000, &[100_000, 4_000]), (60_000, 130_000, &[100_000])];
    for (link_mss, room, sizes) in cases {
        let (here, there) = (open(), open());
        if !here.core().port(0).info.gro || !there.core().port(0).info.gso {
            return weft_skip::skipped!(
                "this kernel has no UDP_SEGMENT or UDP_GRO, so packets may come one by one"
            );
        }
        let config = || Config { probe_mtu: false, ..Config::new(Service::Stream, link_mss) };
        let listening = there.listen(Some(Number::ECHO), config(), Gather::Off).unwrap();
        let target = Target { node: None, at: Some(there.underlay()), port: Number::ECHO };
        let reads = here.connect(target, None, config(), Gather::Off).unwrap();
        assert!(here.wait(&reads, Interest::Connected, Some(here.now() + LIMIT)));
        assert!(there.wait_accept(&listening, Some(there.now() + LIMIT)));
        let writes = there.accept(&listening).unwrap();

        let (core, port, until) = (here.core(), here.core().port(0), here.now() + LIMIT);
        let mut buffer = vec![0; room];
        for &size in sizes {
            let sent: Vec<u8> = (0..=250).cycle().take(size).collect();
            // A thread of the engine may be there first, or send something behind what was read.
            let (mut most, mut was_read) = (0, false);
            while most < size.min(20_000) || !was_read {
                let (mut written, mut got) = (0, Vec::new());
                while got.len() < size {
                    assert!(
                        here.now() < until,
                        "{most} of {size} bytes came to the buffer at a time, in packets of {link_mss}; known to be read: {was_read}"
                    );
                    match there.send(&writes, &sent[written..]) {
                        Ok(len) => written += len,
                        Err(error) => assert_eq!(error, SendError::WouldBlock),
                    }
                    let now = clock::now();
                    let (_, bound) = Buffer::new(&mut buffer)
                        .bind(&reads, |binding| core.try_turn_for(port, binding, Runner::User, now));
                    if let Some(received) = bound {
                        most = most.max(received.len);
                        got.extend_from_slice(&buffer[..received.len]);
                        let live = reads.look();
                        was_read |= live.has_read;
                        assert_eq!(reads.is_ready(Interest::Readable), live.connection.is_readable());
                        continue;
                    }
                    match here.recv(&reads, &mut buffer) {
                        Ok(received) => got.extend_from_slice(&buffer[..received.len]),
                        Err(error) => assert_eq!(error, RecvError::WouldBlock),
                    }
                }
                assert!(got == sent, "other bytes than were sent");
            }
        }
    }
}

/// Over real sockets, by which the packets of a message come together: it goes to who waits as it is summed up, to a buffer or a vector; one
/// that is longer than the buffer is cut by the ordinary way.
#[test]
fn a_message_of_several_packets_that_come_together_goes_to_who_waits_for_it() {
    let bind = "127.0.0.1:0".parse().unwrap();
    let open = || Engine::open(Settings { bind, ..Settings::default() }).expect("an engine");
    let (here, there) = (open(), open());
    if !here.core().port(0).info.gro || !there.core().port(0).info.gso {
        return weft_skip::skipped!(
            "this kernel has no UDP_SEGMENT or UDP_GRO, so packets may come one by one"
        );
    }
    let config = || Config { probe_mtu: false, ..Config::new(Service::Datagram, 1_444) };
    let listening = there.listen(Some(Number::ECHO), config(), Gather::WhenBusy).unwrap();
    let target = Target { node: None, at: Some(there.underlay()), port: Number::ECHO };
    let asks = here.connect(target, None, config(), Gather::WhenBusy).unwrap();
    assert!(here.wait(&asks, Interest::Connected, Some(here.now() + LIMIT)));
    assert!(there.wait_accept(&listening, Some(there.now() + LIMIT)));
    let answers = there.accept(&listening).unwrap();

    let (core, port, until) = (here.core(), here.core().port(0), here.now() + LIMIT);
    let message = long_message(20_000);
    let (mut buffer, mut vector) = (vec![0; 20_000], vec![7; 30_000]);
    // A thread of the engine may be there first, or the end of the message come later.
    let (mut in_buffer, mut in_vector, mut cut) = (0, 0, 0);
    while in_buffer.min(in_vector).min(cut) < 3 {
        assert!(here.now() < until, "{in_buffer} in the buffer, {in_vector} in the vector, {cut} cut");
        for kind in 0..3 {
            here.send(&asks, b"question").unwrap();
            assert_eq!(there.recv_within(&answers, &mut [0; 8], Some(LIMIT)).unwrap().len, 8);
            there.send(&answers, &message).unwrap();
            let now = clock::now();
            let turn = |binding: &mut Binding<'_>| core.try_turn_for(port, binding, Runner::User, now);
            let room = if kind == 0 { 20_000 } else { 19_999 };
            let bound = if kind == 1 {
                let (_, bound) = Growing::new(&mut vector).bind(&asks, turn);
                assert!(bound.is_none_or(|len| len == Some(20_000) && vector == message));
                in_vector += u32::from(bound.is_some());
                bound.is_some()
            } else {
                let (_, bound) = Buffer::new(&mut buffer[..room]).bind(&asks, turn);
                assert!(bound.is_none_or(|got| kind == 0 && got.len == 20_000 && buffer == message));
                in_buffer += u32::from(bound.is_some());
                bound.is_some()
            };
            if bound {
                assert!(!asks.is_ready(Interest::Readable));
                continue;
            }
            let got = here.recv_within(&asks, &mut buffer[..room], Some(LIMIT)).unwrap();
            assert_eq!((got.len, got.truncated), (room, 20_000 - room));
            assert!(buffer[..room] == message[..room]);
            cut += u32::from(kind == 2);
        }
    }
    // Of one that comes in several pieces the first goes there as well, where that may be put back, and the last is not the message.
    let message = long_message(100_000);
    let mut begun = 0;
    while begun < 3 {
        assert!(here.now() < until, "{begun} beginnings");
        here.send(&asks, b"question").unwrap();
        assert_eq!(there.recv_within(&answers, &mut [0; 8], Some(LIMIT)).unwrap().len, 8);
        std::thread::scope(|scope| {
            scope.spawn(|| there.send(&answers, &message).unwrap());
            let mut place = Growing::new(&mut vector);
            while place.beginning().is_empty() && !asks.is_ready(Interest::RestReadable) {
                assert!(here.now() < until, "nothing has come");
                let (_, bound) = place.bind(&asks, |binding| {
                    binding.let_read(Ahead::Joined);
                    core.try_turn_for(port, binding, Runner::User, clock::now())
                });
                assert_eq!(bound, None, "it is not whole");
            }
            begun += u32::from(!place.beginning().is_empty());
            assert!(place.beginning() == &message[..place.beginning().len()]);
            let mut live = asks.lock();
            live.connection.put_back(place.beginning());
            core.work(port, &asks, live, clock::now());
            assert_eq!(here.recv_into_within(&asks, &mut vector, Some(LIMIT)).unwrap(), Some(100_000));
        });
        assert!(vector == message);
    }
}

/// Large packets of a flood go straight to who reads, and arrive as well where two read, each of whom has the other's.
#[test]
fn a_flood_of_large_packets_is_placed_with_who_reads() {
    const LEN: usize = 128 << 20;
    let bind = "127.0.0.1:0".parse().unwrap();
    let open = || Engine::open(Settings { bind, ..Settings::default() }).expect("an engine");
    let config = || Config { probe_mtu: false, ..Config::new(Service::Stream, 60_000) };
    // how many packets were placed, of so many streams
    let flood = |count: usize| {
        let (here, there) = (open(), open());
        let listening = here.listen(Some(Number::ECHO), config(), Gather::Off).unwrap();
        let target = Target { node: None, at: Some(here.underlay()), port: Number::ECHO };
        let bytes = |at: usize| (0..=250).cycle().skip(at % 251).take(130_000);
        std::thread::scope(|scope| {
            for _ in 0..count {
                let writes = there.connect(target, None, config(), Gather::Off).unwrap();
                assert!(here.wait_accept(&listening, Some(here.now() + LIMIT)));
                let reads = here.accept(&listening).unwrap();
                let there = &there;
                scope.spawn(move || {
                    let mut sent = 0;
                    while sent < LEN {
                        let part: Vec<u8> = bytes(sent).take(LEN - sent).collect();
                        match there.send(&writes, &part) {
                            Ok(len) => sent += len,
                            Err(SendError::WouldBlock) => {
                                assert!(there.wait(&writes, Interest::Writable, Some(there.now() + LIMIT)));
                            }
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                });
                let here = &here;
                scope.spawn(move || {
                    let (mut buffer, mut got) = (vec![0; 130_000], 0);
                    while got < LEN {
                        let len = here.recv_within(&reads, &mut buffer, Some(LIMIT)).unwrap().len;
                        assert!(
                            len > 0 && buffer[..len].iter().copied().eq(bytes(got).take(len)),
                            "at {got}"
                        );
                        got += len;
                    }
                });
            }
        });
        here.core().port(0).link.stats().received_placed
    };
    for count in [1, 2] {
        // Who has the faster core of the two reads each packet before the next comes: no flood.
        assert!((0..5).any(|_| flood(count) > 0), "{count} streams, and no packet was placed");
    }
}

/// Bytes of a long message: half of them are worth waking who waits for the other half.
const LEN: usize = 300_000;

/// A message of many packets, of which each byte tells where it lies.
fn long_message(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// Waits until so much of a message has come that a reader would take it.
fn wait_for_parts(engine: &Engine, slot: &Arc<Slot>) {
    let until = engine.now() + LIMIT;
    while !slot.is_ready(Interest::RestReadable) {
        assert!(engine.now() < until, "no parts have come");
        engine.core().try_turn(engine.core().port(0), Runner::User, clock::now());
    }
}

/// Sends the beginning of a message, and tells how much that is.
fn send_beginning(engine: &Engine, slot: &Arc<Slot>, message: &[u8]) -> usize {
    let mut live = slot.lock();
    let now = clock::now();
    let sent = live.connection.send_first(message, message.len() / 2, message.len()).expect("room");
    assert!(live.connection.is_mid_message() && sent < message.len());
    engine.core().work(engine.core().port(0), slot, live, now);
    sent
}

fn send_rest(engine: &Engine, slot: &Arc<Slot>, rest: &[u8]) {
    let mut live = slot.lock();
    let now = clock::now();
    assert_eq!(live.connection.send_rest(rest, usize::MAX), rest.len());
    engine.core().work(engine.core().port(0), slot, live, now);
}

/// Who has the beginning of a message and waits in vain puts it back, and the next reader has all of it, whichever memory it goes to. While one
/// waits another reader is not told of what is not for it.
#[test]
fn the_beginning_of_a_message_is_put_back_by_who_waits_no_more() {
    let hub = Hub::new(1_500);
    let Conversation { here, asks, there, answers } = Conversation::between(engine(&hub), engine(&hub));
    let message = long_message(LEN);
    let soon = Some(std::time::Duration::from_millis(20));
    let sent = send_beginning(&here, &asks, &message);
    wait_for_parts(&there, &answers);

    let mut buffer = vec![0; 2 * message.len()];
    assert_eq!(there.recv_within(&answers, &mut buffer, soon), Err(RecvError::WouldBlock));
    assert!(buffer[..50_000] == message[..50_000], "it was not read ahead");
    let mut vector = vec![1, 2, 3];
    assert_eq!(there.recv_into_within(&answers, &mut vector, soon), Err(RecvError::WouldBlock));
    assert!(vector.is_empty(), "what was put back is still here");
    // a buffer that is too short is given up, and whole messages are waited for
    let mut short = vec![0; 50_000];
    assert_eq!(there.recv_within(&answers, &mut short, soon), Err(RecvError::WouldBlock));

    let mut ahead = Buffer::new(&mut buffer);
    assert!(ahead.read_ahead(&mut answers.lock().connection));
    assert!(!Growing::new(&mut vector).read_ahead(&mut answers.lock().connection), "two have it");
    send_rest(&here, &asks, &message[sent..]);
    let until = there.now() + LIMIT;
    while !answers.look().connection.is_rest_readable() {
        assert!(there.now() < until, "the end has not come");
        there.core().try_turn(there.core().port(0), Runner::User, clock::now());
    }
    assert!(!answers.is_ready(Interest::Readable), "another reader has the beginning");
    assert_eq!(there.recv_within(&answers, &mut short, soon), Err(RecvError::WouldBlock));
    assert_eq!(there.recv_message(&answers), Err(RecvError::WouldBlock));
    let received = ahead.take_rest(&mut answers.lock().connection).unwrap();
    assert_eq!((received.len, received.truncated), (message.len(), 0));
    assert!(buffer[..message.len()] == message, "other bytes than were sent");
}

/// The same where the end comes while somebody waits.
#[test]
fn a_long_message_goes_to_who_waits_as_it_comes() {
    let hub = Hub::new(1_500);
    let Conversation { here, asks, there, answers } = Conversation::between(engine(&hub), engine(&hub));
    let message = long_message(LEN);
    for (room, grows) in [(message.len(), false), (50_000, false), (0, true)] {
        let sent = send_beginning(&here, &asks, &message);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut buffer, mut vector) = (vec![0; room], vec![9]);
                if grows {
                    let len = there.recv_into_within(&answers, &mut vector, Some(LIMIT)).unwrap();
                    return (vector, len, 0);
                }
                let received = there.recv_within(&answers, &mut buffer, Some(LIMIT)).unwrap();
                (buffer, Some(received.len), received.truncated)
            });
            let until = there.now() + LIMIT;
            // a buffer that is too short has it for a moment only
            while (grows || room == message.len()) && !answers.look().connection.is_read_ahead() {
                assert!(there.now() < until, "nothing was read ahead");
                std::thread::yield_now();
            }
            send_rest(&here, &asks, &message[sent..]);
            let (got, len, truncated) = reader.join().unwrap();
            let room = if grows { message.len() } else { room };
            assert_eq!((len, truncated), (Some(room), message.len() - room));
            assert!(got[..room] == message[..room], "other bytes than were sent");
        });
        assert!(!answers.is_ready(Interest::Readable) && !answers.is_ready(Interest::RestReadable));
    }
}

/// A close that comes in the middle of a message lets it be sent first; another sender waits for its end.
#[test]
fn nothing_goes_between_the_parts_of_a_message() {
    let hub = Hub::new(1_500);
    let Conversation { here, asks, there, answers } = Conversation::between(engine(&hub), engine(&hub));
    let message = long_message(LEN);
    let sent = send_beginning(&here, &asks, &message);
    assert_eq!(here.send(&asks, b"another"), Err(SendError::WouldBlock));
    send_rest(&here, &asks, &message[sent..]);
    assert!(here.wait(&asks, Interest::Writable, Some(here.now() + LIMIT)));
    assert_eq!(here.send(&asks, b"another"), Ok(7));
    let sent = send_beginning(&here, &asks, &message);
    here.close(&asks);
    send_rest(&here, &asks, &message[sent..]);
    let mut buffer = vec![0; message.len()];
    for len in [message.len(), 7, message.len()] {
        assert_eq!(there.recv_within(&answers, &mut buffer, Some(LIMIT)).unwrap().len, len);
    }
    assert!(buffer == message && there.recv_within(&answers, &mut buffer, Some(LIMIT)).unwrap().end_of_file);
}
