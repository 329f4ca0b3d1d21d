use super::*;

fn peer(port: u16) -> SocketAddr {
    ([10, 0, 0, 1], port).into()
}

/// Lone packets of a peer up to the one that gives it a socket.
fn partnered() -> Rhythm {
    let mut rhythm = Rhythm::default();
    for turn in 1..=RUN {
        assert_eq!(rhythm.note_lone(peer(1)), (turn == RUN).then_some(false));
        rhythm.note_empty(0);
    }
    rhythm.begin(Mode::On);
    rhythm
}

#[test]
fn lone_packets_of_one_peer_earn_a_socket() {
    partnered();
    let mut rhythm = Rhythm::default();
    assert!(
        (0..2 * RUN).all(|turn| rhythm.note_lone(peer(if turn % 2 == 0 { 1 } else { 2 })).is_none()),
        "two peers in turns"
    );
    assert!((0..2 * RUN).all(|turn| {
        let count = if turn % 30 == 29 { 2 } else { 0 };
        rhythm.note_empty(count);
        rhythm.note_lone(peer(1)).is_none()
    }));
}

#[test]
fn who_sends_several_packets_at_a_time_earns_one_for_which_they_are_joined_until_they_are_not() {
    let mut rhythm = Rhythm::default();
    let lone = |rhythm: &mut Rhythm, from| rhythm.note_lone(from);
    let mut sends = 0;
    let mut joined = |rhythm: &mut Rhythm, from| {
        sends += 1;
        rhythm.note_joined(from, sends)
    };
    for turn in 1..=RUN {
        // some of the messages have one packet
        let earned = if turn % 4 == 3 { joined(&mut rhythm, peer(1)) } else { lone(&mut rhythm, peer(1)) };
        assert_eq!(earned, (turn == RUN).then_some(true));
        rhythm.note_empty(0);
    }
    assert!((1..RUN).all(|_| lone(&mut rhythm, peer(1)).is_none()));
    assert_eq!(lone(&mut rhythm, peer(1)), Some(false), "of another run");
    // what another sent says nothing of this one, nor does a run that was broken off
    assert_eq!(joined(&mut rhythm, peer(1)), None);
    rhythm.note_empty(2);
    assert!((1..RUN).all(|_| lone(&mut rhythm, peer(1)).is_none()));
    assert_eq!(lone(&mut rhythm, peer(1)), Some(false));
    assert_eq!(joined(&mut rhythm, peer(1)), None);
    assert!((1..RUN).all(|_| lone(&mut rhythm, peer(3)).is_none()));
    assert_eq!(lone(&mut rhythm, peer(3)), Some(false));
    // nor does what nobody answers
    assert!((0..2 * RUN).all(|_| rhythm.note_joined(peer(3), 0).is_none()));
    rhythm.begin(Mode::On);
    for round in 0..3 * UNJOINED {
        assert!(!rhythm.note_joins(if round % (UNJOINED - 1) == 0 { 2 } else { 1 }));
    }
    rhythm.note_joins(2);
    assert!((1..UNJOINED).all(|_| !rhythm.note_joins(1)) && rhythm.note_joins(1));
}

#[test]
fn a_packet_after_a_wait_or_an_answer_is_no_run() {
    let mut rhythm = partnered();
    assert_eq!(rhythm.note_direct(1), Next::Stop);
    rhythm.note_direct_empty();
    assert_eq!(rhythm.note_direct(1), Next::Stop);
    assert_eq!(rhythm.note_direct(2), Next::Stop);
    assert_eq!(rhythm.note_direct(2), Next::End, "nothing was sent between");
}

#[test]
fn a_socket_that_is_never_empty_is_no_ping_pong() {
    let mut rhythm = partnered();
    assert!((0..u64::from(AT_ONCE_MAX)).all(|sends| rhythm.note_direct(sends + 1) == Next::Stop));
    assert_eq!(rhythm.note_direct(1000), Next::End);
}

#[test]
fn packets_in_a_row_that_nothing_joins_are_a_flood() {
    let mut rhythm = Rhythm::default();
    assert!((1..FLOOD).all(|_| !rhythm.note_run(peer(1), 1)));
    assert!(!rhythm.note_run(peer(1), 2), "joined");
    assert!((1..FLOOD).all(|_| !rhythm.note_run(peer(1), 1)));
    assert!(!rhythm.note_run(peer(2), 1), "another peer");
    assert!((2..FLOOD).all(|_| !rhythm.note_run(peer(2), 1)));
    assert!(rhythm.note_run(peer(2), 1));
    assert!(!rhythm.note_run(peer(2), 1), "counted anew");
}

#[test]
fn a_flood_ebbs_or_is_looked_into_after_a_while() {
    let flooded = || {
        let mut rhythm = Rhythm::default();
        rhythm.begin(Mode::Flood);
        rhythm
    };
    let mut rhythm = flooded();
    assert!((1..FLOOD_MAX / 64).all(|_| rhythm.note_flood(64) == Flood::GoesOn));
    assert_eq!(rhythm.note_flood(64), Flood::Over);
    let mut rhythm = flooded();
    assert!((1..RUN).all(|_| rhythm.note_flood(1) == Flood::GoesOn && rhythm.note_flood(0) == Flood::GoesOn));
    assert_eq!(rhythm.note_flood(2), Flood::GoesOn);
    assert!((1..RUN).all(|_| rhythm.note_flood(1) == Flood::GoesOn));
    assert_eq!(rhythm.note_flood(1), Flood::Ebbed);
}

/// Two peers that flood in turns, and much later one that sends a few packets together.
#[test]
fn that_room_is_short_holds_until_there_is_some() {
    let mut rhythm = Rhythm::default();
    rhythm.note_room(false);
    (0..1_000).for_each(|n| assert!(!rhythm.note_run(peer(n % 2), 2) && !rhythm.is_short_of_room()));
    rhythm.note_room(true);
    rhythm.note_run(peer(1), ROW as usize);
    assert!(!rhythm.is_short_of_room());
    rhythm.note_room(false);
    assert!(rhythm.is_short_of_room());
}

/// Jumbo packets come by one and by two, as the receiver is faster or slower: no reason to connect the socket anew each time.
#[test]
fn who_flooded_of_late_floods_again_by_the_same_socket() {
    let mut rhythm = Rhythm::default();
    rhythm.begin(Mode::Flood);
    assert!((1..RUN).all(|_| rhythm.note_flood(1) == Flood::GoesOn));
    assert_eq!(rhythm.note_flood(1), Flood::Ebbed);
    assert_eq!((rhythm.note_direct(1), rhythm.note_direct(1)), (Next::Stop, Next::Flood));
    while rhythm.note_flood(64) != Flood::Over {}
    rhythm.begin(Mode::On);
    assert_eq!((rhythm.note_direct(2), rhythm.note_direct(2)), (Next::Stop, Next::End));
}

#[test]
fn others_are_looked_at_and_end_the_preference_when_they_are_many() {
    let mut rhythm = partnered();
    assert_eq!((0..3 * LOOK_EVERY).filter(|_| rhythm.is_look_due(0)).count(), 3);
    assert_eq!((0..LOOK_EVERY + LOOK_LATE).filter(|_| rhythm.is_look_due(1)).count(), 1);
    rhythm.note_readable();
    assert!(!rhythm.is_look_due(1) && !rhythm.is_look_due(0), "the partner's was");
    rhythm.note_readable();
    assert!(rhythm.is_look_due(0) && !rhythm.is_look_due(0));
    assert!(!rhythm.note_others(1));
    for sends in 0..u64::from(OTHERS_WEIGH) {
        rhythm.note_direct_empty();
        rhythm.note_direct(sends);
    }
    assert_eq!((1..).find(|_| rhythm.note_others(1)), Some(WEIGHT_MAX / OTHERS_WEIGH));
}

#[test]
fn what_is_joined_may_be_alone_as_a_packet_may() {
    let mut rhythm = Rhythm::default();
    rhythm.note_empty(0);
    assert!(rhythm.take_sparse(), "nothing was there before");
    assert!(!rhythm.take_sparse(), "more may have come since");
    rhythm.note_empty(1);
    assert!(rhythm.take_sparse(), "twelve packets at once, and nothing behind them");
    rhythm.note_empty(2);
    assert!(!rhythm.take_sparse(), "one behind the other");
}

/// Answers to a long stream, some of which are joined, or the data of one that comes the other way.
#[test]
fn what_came_joined_of_late_may_come_so_again() {
    let mut rhythm = Rhythm::default();
    (1..SINGLES).for_each(|_| assert!(!rhythm.note_run(peer(1), 1) && !rhythm.are_singles()));
    rhythm.note_run(peer(1), 1);
    assert!(rhythm.are_singles());
    rhythm.note_run(peer(1), 2);
    assert!(!rhythm.are_singles());
}

#[test]
fn a_flood_may_be_prolonged_when_it_is_over() {
    let mut rhythm = Rhythm::default();
    rhythm.begin(Mode::Flood);
    for _ in 0..3 {
        assert_eq!(rhythm.note_flood(FLOOD_MAX as usize), Flood::Over);
        rhythm.prolong_flood();
        assert_eq!(rhythm.note_flood(2), Flood::GoesOn);
    }
}
