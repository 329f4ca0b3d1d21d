//! What goes over an open connection while the I/O nodes on its way are killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_socket::{EndReason, Options, Socket};

use crate::case::{Case, State};
use crate::crossing::{Crossing, MOMENT, Outcome, Scene};
use crate::operation::{
    EXCHANGE_BYTES, Kill, PATIENCE, close, exchange, expect_all_of, in_background, receive_all, send_until,
    wait_until, wait_until_sent,
};
use crate::pattern;
use crate::times::{LASTING, Times};

/// Bytes that are moved after the kill, until it is believed that they go on.
const ENOUGH: u64 = 256 << 10;

impl Crossing {
    /// Messages to and fro.
    pub(crate) fn kill_talking(&mut self, case: Case, times: Times, options: &Options) -> Outcome {
        let Scene { peer, socket, _listener } = self.open(case, times, options);
        let said = chat(&socket);
        wait_until("all is acknowledged", || socket.stats().in_flight == 0);
        // The latest that was heard is acknowledged late.
        thread::sleep(MOMENT);
        let mut begin = self.execute(case);
        if !case.goes_on() {
            let peer_begin = begin;
            if case.state == State::Woken {
                begin = Instant::now();
                socket.send(b"are you there?").expect("nobody knows yet");
            }
            let kill = Kill::since(begin, receive_all(&socket).0);
            return Outcome { peer, begin: peer_begin, kill, bytes: said };
        }
        if case.state == State::Idle {
            // Only questions and answers keep it alive.
            thread::sleep(LASTING + LASTING / 10);
            begin = Instant::now();
        }
        let end = match exchange(&socket, said) {
            Ok(first) => (None, first),
            Err(reason) => (Some(reason), Instant::now()),
        };
        Outcome { peer, begin, kill: Kill::since(begin, end), bytes: said + EXCHANGE_BYTES }
    }

    /// The survivor sends.
    pub(crate) fn kill_sending(&mut self, case: Case, times: Times, options: &Options) -> Outcome {
        let Scene { mut peer, socket, _listener } = self.open(case, times, options);
        let is_enough = Arc::new(AtomicBool::new(false));
        let enough = is_enough.clone();
        let sender =
            in_background(&socket, move |socket| send_until(socket, || enough.load(Ordering::SeqCst)));
        wait_until_sent(&socket, case.state);
        let mut begin = self.execute(case);
        if case.state == State::Blocked {
            // Some probes find nobody.
            thread::sleep(MOMENT);
            peer.tell();
        }
        if !case.goes_on() {
            let (end, bytes) = sender.join().expect("the sender");
            return Outcome { peer, begin, kill: Kill::since(begin, end), bytes };
        }
        if case.state == State::Blocked {
            begin = Instant::now();
        }
        let informed = longest_pause(begin, || socket.stats().bytes_acked, || sender.is_finished());
        is_enough.store(true, Ordering::SeqCst);
        let ((reason, _), bytes) = sender.join().expect("the sender");
        assert!(reason.is_some() || close(&socket).1, "{case}: a close that is not confirmed");
        Outcome { peer, begin, kill: Kill { informed, reason }, bytes }
    }

    /// The survivor receives.
    pub(crate) fn kill_receiving(&mut self, case: Case, times: Times, options: &Options) -> Outcome {
        let Scene { mut peer, socket, _listener } = self.open(case, times, options);
        let read = || in_background(&socket, receive_all);
        let (reader, begin) = if case.state == State::Receiving {
            let reader = read();
            wait_until("it receives", || socket.stats().bytes_received > 200_000);
            (reader, self.execute(case))
        } else {
            wait_until("the window is closed", || socket.stats().receive_window == 0);
            let begin = self.execute(case);
            (read(), begin)
        };
        if !case.goes_on() {
            let (end, bytes) = reader.join().expect("the reader");
            expect_all_of(&socket, bytes);
            return Outcome { peer, begin, kill: Kill::since(begin, end), bytes };
        }
        let informed = longest_pause(begin, || socket.stats().bytes_received, || reader.is_finished());
        peer.tell();
        let ((reason, _), bytes) = reader.join().expect("the reader");
        let reason = reason.filter(|reason| *reason != EndReason::Done);
        Outcome { peer, begin, kill: Kill { informed, reason }, bytes }
    }
}

/// Single packets to and fro; how many bytes.
fn chat(socket: &Socket) -> u64 {
    const WORD: usize = 64;
    let mut buffer = [0; WORD];
    let mut place = 0;
    for _ in 0..20 {
        socket.send(&pattern::bytes(place, WORD)).expect("it is open");
        assert_eq!(socket.recv(&mut buffer).expect("it answers"), WORD);
        assert!(pattern::is_right(place, &buffer));
        place += WORD as u64;
    }
    place
}

/// The longest time since `begin` in which nothing was `moved`, until [`ENOUGH`] is, or it is over.
fn longest_pause(begin: Instant, moved: impl Fn() -> u64, is_over: impl Fn() -> bool) -> Duration {
    let first = moved();
    let (mut last, mut since, mut longest) = (first, begin, Duration::ZERO);
    while last - first < ENOUGH && !is_over() {
        assert!(begin.elapsed() < PATIENCE, "it stands still");
        thread::sleep(Duration::from_micros(500));
        let now = moved();
        if now > last {
            longest = longest.max(since.elapsed());
            (last, since) = (now, Instant::now());
        }
    }
    longest
}
