//! Every rival over the loopback interface, briefly.

use std::time::Instant;

use super::*;

fn measure(test: Test, size: usize, spin: bool) -> Outcome {
    measure_streams(1, test, size, spin)
}

fn measure_streams(streams: usize, test: Test, size: usize, spin: bool) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| answer(&listener.accept().unwrap().0).unwrap());
        let choices =
            Choices { time: Duration::from_millis(50), no_delay: true, controller: "cubic".to_owned() };
        run(&Request { test, size, streams, spin, code: some_code() }, &choices, address).unwrap()
    })
}

fn some_code() -> Code {
    let lines = usize::from(cfg!(target_arch = "x86_64"));
    Code::new(lines, 2 * lines).expect("no more than there is")
}

#[test]
fn tcp_delivers_what_was_sent() {
    for (size, spin) in [(64, false), (1 << 17, false), (1000, true)] {
        let outcome = measure(Test::Tcp, size, spin);
        assert!(outcome.sent > 0);
        assert_eq!(outcome.arrived.bytes, outcome.sent * size as u64);
        assert_eq!(outcome.arrived.messages, outcome.sent);
    }
}

#[test]
fn tcp_delivers_what_was_sent_on_several_streams() {
    let outcome = measure_streams(5, Test::Tcp, 1 << 14, false);
    assert!(outcome.sent >= 5 * 16, "each stream sends");
    assert_eq!(outcome.arrived.bytes, outcome.sent << 14);
}

#[test]
fn several_streams_last_from_the_first_byte_of_any_to_the_end_of_the_last() {
    let start = Instant::now();
    let drained = |bytes, first, last| tcp::Drained { bytes, first: start + first, last: start + last };
    let seconds = Duration::from_secs;
    let streams = [drained(10, seconds(3), seconds(4)), drained(90, seconds(1), seconds(2))];
    let tally = tcp::together(10, &streams);
    assert_eq!(tally, Tally { messages: 10, bytes: 100, seconds: 3.0, cpu_seconds: 0.0 });
}

#[test]
fn several_streams_of_a_test_that_has_one_are_refused() {
    let request = Request { test: Test::UdpPing, size: 64, streams: 2, spin: false, code: some_code() };
    let choices = Choices { time: Duration::ZERO, no_delay: true, controller: "cubic".to_owned() };
    let error = run(&request, &choices, "127.0.0.1:1".parse().unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
}

#[test]
fn udp_delivers_no_more_than_was_sent() {
    for (test, spin) in
        [(Test::Udp, false), (Test::UdpJoined, false), (Test::UdpSpliced, false), (Test::Udp, true)]
    {
        let outcome = measure(test, 1000, spin);
        assert!(outcome.arrived.messages > 0 && outcome.arrived.messages <= outcome.sent, "{outcome:?}");
        assert_eq!(outcome.arrived.bytes, outcome.arrived.messages * 1000);
    }
}

#[test]
fn round_trips_are_measured_spinning_and_sleeping() {
    for test in [Test::TcpPing, Test::UdpPing] {
        for (size, spin) in [(64, false), (64, true), (100_000, true)] {
            let outcome = measure(test, size, spin);
            assert!(!outcome.round_trips_ns.is_empty(), "{test:?}");
            assert_eq!(outcome.arrived.bytes, outcome.arrived.messages * size as u64, "{test:?}");
        }
    }
}

#[test]
fn requests_and_results_survive_being_lines() {
    let request = Request { test: Test::UdpJoined, size: 1472, streams: 3, spin: true, code: some_code() };
    assert_eq!(request.to_string().parse::<Request>().unwrap(), request);
    let tally = Tally { messages: 3, bytes: 4, seconds: 0.25, cpu_seconds: 0.5 };
    assert_eq!(tally.to_string().parse::<Tally>().unwrap(), tally);
    assert!("tcp 64".parse::<Request>().is_err());
}
