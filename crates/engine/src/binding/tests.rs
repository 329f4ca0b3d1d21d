use weft_base::Port as Number;
use weft_link::{Hub, Link};

use super::*;
use crate::conversation::{Conversation, LIMIT};
use crate::gather::Gather;
use crate::waiters::Interest;
use crate::{Config, Engine, SendError, Settings, Target, clock};

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
        let (count, bound) =
            Buffer(&mut buffer).bind(&asks, |binding| core.try_turn_for(port, binding, Runner::User, now));
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

/// Over real sockets, by which packets of a stream come together. What finds no room stays to be read, and a short last packet comes
/// with those before it.
#[test]
fn bytes_of_a_stream_that_come_together_go_to_who_waits_for_them() {
    let bind = "127.0.0.1:0".parse().unwrap();
    let open = || Engine::open(Settings { bind, ..Settings::default() }).expect("an engine");
    let (here, there) = (open(), open());
    if !here.core().port(0).info.gro || !there.core().port(0).info.gso {
        return weft_skip::skipped!(
            "this kernel has no UDP_SEGMENT or UDP_GRO, so packets may come one by one"
        );
    }
    let config = || Config { probe_mtu: false, ..Config::new(Service::Stream, 1_444) };
    let listening = there.listen(Some(Number::ECHO), config(), Gather::Off).unwrap();
    let target = Target { node: None, at: Some(there.underlay()), port: Number::ECHO };
    let reads = here.connect(target, None, config(), Gather::Off).unwrap();
    assert!(here.wait(&reads, Interest::Connected, Some(here.now() + LIMIT)));
    assert!(there.wait_accept(&listening, Some(there.now() + LIMIT)));
    let writes = there.accept(&listening).unwrap();

    let (core, port, until) = (here.core(), here.core().port(0), here.now() + LIMIT);
    let mut buffer = vec![0; 40_000];
    for size in [100_000, 4_000] {
        let sent: Vec<u8> = (0..=250).cycle().take(size).collect();
        // A thread of the engine may be there first, or send something behind what was read.
        let (mut most, mut was_read) = (0, false);
        while most < size.min(20_000) || !was_read {
            let (mut written, mut got) = (0, Vec::new());
            while got.len() < size {
                assert!(
                    here.now() < until,
                    "{most} of {size} bytes came to the buffer at a time; known to be read: {was_read}"
                );
                match there.send(&writes, &sent[written..]) {
                    Ok(len) => written += len,
                    Err(error) => assert_eq!(error, SendError::WouldBlock),
                }
                let now = clock::now();
                let (_, bound) = Buffer(&mut buffer)
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
