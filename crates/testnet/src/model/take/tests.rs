//! The checks of the search are awake: a forged reset, a stuck state and a false message are noticed.

use std::rc::Rc;

use weft_proto::Event;
use weft_wire::{Emit, Header, Tlvs, emit};

use super::super::{Opening, Scenario};
use super::*;

/// A client and a server that have opened, with nothing in flight.
fn opened() -> Pair {
    let scenario = Rc::new(Scenario { writes: [1, 0], ..Scenario::new("test", Opening::Embryo) });
    let mut pair = Pair::new(&scenario).unwrap();
    pair.is_fair = true;
    while !pair.flight.is_empty() {
        pair.take(Step::Deliver(0)).unwrap();
    }
    assert_eq!(pair.sides.each_ref().map(Side::state), [Some(State::Established); 2]);
    pair
}

#[test]
fn a_forged_reset_is_noticed() {
    let mut pair = opened();
    let connection = pair.sides[0].connection.clone().unwrap();
    let (iss, irs) = (pair.sides[0].watch.iss().unwrap(), pair.sides[0].watch.irs().unwrap());
    let header = Header {
        seq: Seq::new(irs.wrapping_add(1)),
        ack: Seq::new(iss.wrapping_add(1)).low32(),
        ..Header::new(Kind::Reset, connection.flow().reversed())
    };
    let mut bytes = Vec::new();
    emit::emit_control(&mut bytes, &header, &Tlvs::default(), &Emit::sealed(true));
    pair.launch(1, checked(bytes).unwrap(), Said::without_connection(Kind::Reset));
    let found = pair.take(Step::Deliver(0)).unwrap_err();
    assert!(found.what.contains("false reset"), "{found}");
}

#[test]
fn a_reset_by_an_end_that_aborted_is_no_false_one() {
    let mut pair = opened();
    pair.take(Step::Abort(1)).unwrap();
    assert_eq!(pair.take(Step::Deliver(0)), Ok(()));
    assert_eq!(pair.sides[0].state(), Some(State::Closed));
}

#[test]
fn a_state_in_which_nobody_acts_is_noticed() {
    let mut pair = opened();
    pair.take(Step::Close(0)).unwrap();
    pair.take(Step::Deliver(0)).unwrap();
    pair.flight.clear();
    assert_eq!(pair.sides[1].state(), Some(State::CloseWait));
    // The client is gone, and the user of the server never closes.
    pair.sides[0].connection = None;
    pair.sides[1].has_closed = true;
    assert_eq!(pair.fair_step().unwrap_err().invariant, Invariant::Liveness);
}

#[test]
fn a_message_that_was_never_written_is_noticed() {
    let mut pair = opened();
    pair.take(Step::Write(0)).unwrap();
    pair.sides[0].written = 0;
    assert_eq!(pair.take(Step::Deliver(0)).unwrap_err().invariant, Invariant::Prefix);
}

#[test]
fn a_result_that_nobody_earned_is_noticed() {
    let mut pair = opened();
    pair.take(Step::Close(0)).unwrap();
    while let Some(step) = pair.fair_step().unwrap() {
        pair.take(step).unwrap();
    }
    assert_eq!(pair.check_over(), Ok(()));
    pair.sides[1].read = 7;
    pair.sides[0].written = 9;
    assert_eq!(pair.check_over().unwrap_err().invariant, Invariant::Ending);
}

#[test]
fn a_packet_may_arrive_again_and_again_until_newer_ones_replace_it() {
    let scenario = Rc::new(Scenario::new("test", Opening::Embryo));
    let mut pair = Pair::new(&scenario).unwrap();
    for _ in 0..3 {
        pair.take(Step::Deliver(0)).unwrap();
    }
    let to_server = |pair: &Pair| pair.flight.iter().filter(|flying| flying.to == 1).count();
    assert_eq!(to_server(&pair), 1, "the same SYN");
    pair.take(Step::Deliver(1)).unwrap();
    pair.take(Step::Close(0)).unwrap();
    assert_eq!(to_server(&pair), 2, "ACK and FIN, and no SYN any more");
    assert!(
        pair.sides[0].connection.as_mut().unwrap().poll_event() != Some(Event::Connected),
        "events were taken"
    );
}
