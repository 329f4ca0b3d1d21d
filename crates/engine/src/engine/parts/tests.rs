use weft_link::{Hub, Link};

use super::*;
use crate::conversation::{Conversation, LIMIT};
use crate::{Engine, Settings};

fn conversation() -> Conversation {
    let hub = Hub::new(1_500);
    let engine = || {
        let link: Arc<dyn Link> = Arc::new(hub.endpoint().expect("a descriptor"));
        Engine::open(Settings { links: vec![link], ..Settings::default() }).expect("an engine")
    };
    Conversation::between(engine(), engine())
}

fn message() -> Vec<u8> {
    (0..=250).cycle().take(6_000_000).collect()
}

fn receive(engine: &Engine, slot: &Arc<Slot>) -> Vec<u8> {
    let mut received = Vec::new();
    engine.recv_into_within(slot, &mut received, Some(LIMIT)).expect("a message");
    received
}

/// A peer that takes nothing holds up who sends for as long as he is patient, and no longer.
#[test]
fn a_sender_waits_for_a_silent_peer_only_so_long() {
    let Conversation { here, asks, there, answers } = conversation();
    let message = message();
    let began = here.now();
    {
        let _silence = there.core().port(0).turn.lock();
        assert_eq!(here.send_or_wait(&asks, &message, || true), Ok(message.len()));
        let took = here.now() - began;
        assert!(took >= PATIENCE, "{took:?}");
        let queued = asks.look().connection.waiting().0;
        assert!(queued > message.len() / 2, "{queued} bytes wait for who says nothing");
    }
    assert!(receive(&there, &answers) == message, "other bytes than were sent");
}

/// The first part is small where the peer has nothing else to do, and parts are whole groups of packets.
#[test]
fn a_message_begins_with_less_where_nothing_else_is_under_way() {
    let Conversation { here, asks, there, answers } = conversation();
    let message = &message()[..200_000];
    let sent = {
        let mut live = asks.lock();
        let first = first_part(&live.connection);
        assert_eq!(first, live.connection.full_bytes(GROUP_BYTES_MAX));
        let sent = live.connection.send_first(message, first, PART_BYTES).expect("room");
        assert_eq!((sent, first_part(&live.connection)), (first, PART_GROUPS * first));
        sent
    };
    drop(Rest { engine: &here, slot: &asks, message, sent });
    assert!(receive(&there, &answers) == message, "other bytes than were sent");

    let short = &message[..=LONG_BYTES];
    assert_eq!(here.send_or_wait(&asks, short, || true), Ok(short.len()));
    assert!(receive(&there, &answers) == short, "other bytes than were sent");
}

/// Where the peer takes what comes, little of a long message waits at a time: some of it has left, and what waits is what was copied last.
#[test]
fn a_sender_that_waits_holds_little() {
    let Conversation { here, asks, there, answers } = conversation();
    let message = message();
    let most = std::thread::scope(|scope| {
        let reader = scope.spawn(|| receive(&there, &answers));
        let mut sent = asks.lock().connection.send_first(&message, PART_BYTES, PART_BYTES).expect("room");
        let mut most = 0;
        while sent < message.len() {
            let mut rest = Rest { engine: &here, slot: &asks, message: &message[..], sent };
            assert!(rest.wait(LIMIT), "no room");
            rest.send_part();
            sent = rest.sent;
            // dropped, it would send all that is left
            std::mem::forget(rest);
            most = most.max(asks.look().connection.waiting().0);
        }
        assert!(reader.join().expect("a reader") == message, "other bytes than were sent");
        most
    });
    assert!(most < 4 * PART_BYTES, "{most} bytes waited");
}

/// A message whose sender is gone, as where its fiber unwinds as it waits, is sent whole.
#[test]
fn the_rest_of_a_message_is_sent_though_nobody_waits() {
    let Conversation { here, asks, there, answers } = conversation();
    let message = message();
    let sent = asks.lock().connection.send_first(&message, PART_BYTES, PART_BYTES).expect("room");
    assert!(sent < message.len());
    drop(Rest { engine: &here, slot: &asks, message: &message, sent });
    assert!(receive(&there, &answers) == message, "other bytes than were sent");
}
