use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_link::{Fault, Faults, Hub, Link};

use super::*;
use crate::conversation::{Conversation, LIMIT};
use crate::{Engine, Settings};

/// How long what is sent is under way, each way, and both.
const DELAY: Duration = Duration::from_millis(10);
const WAY: Duration = Duration::from_millis(20);

fn engine(link: Arc<dyn Link>) -> Engine {
    Engine::open(Settings { links: vec![link], ..Settings::default() }).expect("an engine")
}

/// A thread looks at the clock, has the slot, and is kept from the processor; what comes meanwhile is left to it.
#[test]
fn what_was_left_at_a_slot_came_after_its_holder_looked_at_the_clock() {
    let hub = Hub::new(1_500);
    let slow = Faults { delay: DELAY, ..Faults::NONE };
    let here = engine(Arc::new(Fault::new(hub.endpoint().unwrap(), 1, slow, slow).unwrap()));
    let talk = Conversation::between(here, engine(Arc::new(hub.endpoint().unwrap())));
    let (here, slot) = (&talk.here, &talk.asks);

    let port = here.core().port(0);
    let left = || port.counters.backlogged.load(Ordering::Relaxed);
    let before = left();
    here.send(slot, b"message").unwrap();
    let (live, looked_at) = (slot.lock(), clock::now());
    let until = here.now() + LIMIT;
    while left() == before {
        assert!(here.now() < until, "no acknowledgement was left at the slot");
        std::thread::sleep(Duration::from_millis(1));
    }
    here.core().work(port, slot, live, looked_at);
    let least = slot.look().connection.path_stats().min_rtt.unwrap();
    assert!(least >= WAY, "{least:?}");
}
