//! A session against a launcher of a few lines.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use super::*;

const SOON: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);

/// What the ranks of a launcher in this process have told it.
struct Job {
    table: Mutex<HashMap<String, String>>,
    names: Mutex<Vec<String>>,
    barrier: Barrier,
}

impl Job {
    fn of(size: usize) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), names: Mutex::default(), barrier: Barrier::new(size) })
    }

    fn answer(&self, line: &Line) -> String {
        let field = |key| line.field(key).unwrap().to_owned();
        let verdict = |done: bool| if done { "rc=0 msg=success" } else { "rc=-1 msg=not found" };
        match line.command() {
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
            "get_maxes" => "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024".into(),
            "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_1".into(),
            "publish_name" => {
                self.names.lock().unwrap().push(field("service"));
                "cmd=publish_result info=ok rc=0 msg=success".into()
            }
            "lookup_name" => {
                let is_there = self.names.lock().unwrap().contains(&field("service"));
                format!("cmd=lookup_result {}", verdict(is_there))
            }
            "put" => {
                self.table.lock().unwrap().insert(field("key"), field("value"));
                "cmd=put_result rc=0 msg=success".into()
            }
            "barrier_in" => {
                self.barrier.wait();
                "cmd=barrier_out".into()
            }
            "get" if field("key") == "PMI_process_mapping" => {
                "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))".into()
            }
            "get" => {
                let found = self.table.lock().unwrap().get(&field("key")).cloned();
                format!("cmd=get_result {} value={}", verdict(found.is_some()), found.unwrap_or_default())
            }
            "finalize" => "cmd=finalize_ack".into(),
            other => panic!("no launcher knows {other}"),
        }
    }
}

/// A stream to a launcher that answers line by line.
fn stream(mut answer: impl FnMut(&Line) -> Option<String> + Send + 'static) -> Wire {
    let (ours, theirs) = UnixStream::pair().unwrap();
    thread::spawn(move || {
        let mut out = theirs.try_clone().unwrap();
        for line in BufReader::new(theirs).lines().map_while(Result::ok) {
            let Some(text) = answer(&Line::parse(&line).unwrap()) else { return };
            if text != "(nothing)" {
                writeln!(out, "{text}").unwrap();
            }
        }
    });
    Wire::new(Socket::from(OwnedFd::from(ours)))
}

fn rank_of(job: &Arc<Job>, rank: u32, size: u32) -> Session {
    let job = job.clone();
    let wire = stream(move |line| Some(job.answer(line)));
    Session::open(wire, rank, size, Instant::now() + LONG).unwrap()
}

/// A launcher that answers as `Job` does, but `word` with `text`, and closes the stream where `text` is `None`.
fn wayward(word: &'static str, text: Option<&'static str>) -> Wire {
    let job = Job::of(1);
    stream(move |line| if line.command() == word { text.map(str::to_owned) } else { Some(job.answer(line)) })
}

fn opened(wire: Wire) -> Result<Session, DetectError> {
    Session::open(wire, 0, 1, Instant::now() + LONG)
}

#[test]
fn every_rank_gets_the_bytes_of_all() {
    let job = Job::of(3);
    let ranks: Vec<_> = (0..3)
        .map(|rank| {
            let mut session = rank_of(&job, rank, 3);
            assert!(session.is_one_host && session.job == "kvs_1");
            let own = vec![u8::try_from(rank).unwrap(); rank as usize];
            thread::spawn(move || session.exchange(&own, LONG).unwrap())
        })
        .collect();
    for rank in ranks {
        assert_eq!(rank.join().unwrap(), [vec![], vec![1], vec![2, 2]]);
    }
}

#[test]
fn ranks_that_do_not_come_are_named() {
    // A machine that stands still may let the time pass before they have said that they are there.
    let limits = [SOON, 10 * SOON, 100 * SOON];
    assert!(limits.into_iter().any(|limit| missing_of_two_of_four(limit) == [1, 3]));
}

/// Two of four come; their launcher keeps them waiting without a word. Which of them the first misses after `limit`.
fn missing_of_two_of_four(limit: Duration) -> Vec<u32> {
    let job = Job::of(4);
    let come = |rank: u32| {
        let job = job.clone();
        let is_barrier = |line: &Line| line.command() == "barrier_in";
        let wire =
            stream(move |line| Some(if is_barrier(line) { "(nothing)".into() } else { job.answer(line) }));
        Session::open(wire, rank, 4, Instant::now() + LONG).unwrap()
    };
    let (mut first, mut third) = (come(0), come(2));
    // The first looks when the third is there.
    let late = third.exchange(b"x", limit).unwrap_err();
    assert!(matches!(late, ExchangeError::Missing { size: 4, .. }), "{late}");
    let ExchangeError::Missing { ranks, .. } = first.exchange(b"x", limit).unwrap_err() else { panic!() };
    ranks
}

#[test]
fn a_launcher_that_knows_no_names_leaves_the_missing_unnamed() {
    let job = Job::of(2);
    let wire = stream(move |line| {
        Some(match line.command() {
            "publish_name" => "cmd=publish_result rc=-1 msg=no".into(),
            "barrier_in" => "(nothing)".into(),
            _ => job.answer(line),
        })
    });
    let mut session = Session::open(wire, 0, 2, Instant::now() + LONG).unwrap();
    let ExchangeError::Missing { ranks, .. } = session.exchange(b"x", SOON).unwrap_err() else { panic!() };
    assert_eq!(ranks, [] as [u32; 0]);
}

#[test]
fn a_launcher_that_ends_is_lost_wherever_it_ends() {
    for word in ["init", "get_maxes", "get_my_kvsname"] {
        assert!(opened(wayward(word, None)).unwrap_err().to_string().contains("closed the stream"), "{word}");
    }
    for word in ["publish_name", "put", "barrier_in"] {
        let error = opened(wayward(word, None)).unwrap().exchange(b"x", LONG).unwrap_err();
        assert!(matches!(error, ExchangeError::Lost(Launcher::Pmi)), "{word}: {error}");
    }
}

#[test]
fn a_launcher_that_refuses_or_talks_nonsense_is_quoted() {
    let refused = opened(wayward("init", Some("cmd=response_to_init rc=-1 msg=version"))).unwrap_err();
    assert!(refused.to_string().contains("response_to_init says version"), "{refused}");
    let nonsense = opened(wayward("get_maxes", Some("good morning"))).unwrap_err();
    assert!(nonsense.to_string().contains("good morning"), "{nonsense}");
    let other = opened(wayward("get_my_kvsname", Some("cmd=maxes"))).unwrap_err();
    assert!(other.to_string().contains("\"maxes\""), "{other}");
    let error = opened(wayward("put", Some("cmd=put_result rc=-1 msg=full"))).unwrap().exchange(b"x", LONG);
    assert!(error.unwrap_err().to_string().contains("put_result says full"));
}

#[test]
fn a_line_without_an_end_and_a_silent_launcher_are_given_up() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&[b'x'; 3 * super::super::line::LINE_BYTES_MAX]).unwrap();
    let error = opened(Wire::new(Socket::from(OwnedFd::from(ours)))).unwrap_err();
    assert!(error.to_string().contains("without an end"), "{error}");
    let silent = wayward("get_maxes", Some("(nothing)"));
    let silent = Session::open(silent, 0, 1, Instant::now() + SOON).unwrap_err();
    assert!(matches!(silent, DetectError::Silent { launcher: Launcher::Pmi, .. }), "{silent}");
}

#[test]
fn what_a_value_cannot_hold_is_refused_before_it_is_told() {
    let narrow = wayward("get_maxes", Some("cmd=maxes vallen_max=11"));
    let mut session = opened(narrow).unwrap();
    let error = session.exchange(b"sixsix", LONG).unwrap_err();
    assert!(matches!(error, ExchangeError::TooLong { len: 6, limit: 5 }), "{error}");
    assert_eq!(session.exchange(b"five!", LONG).unwrap(), [b"five!"]);
}

#[test]
fn a_rank_that_says_what_cannot_be_read_is_named() {
    let job = Job::of(1);
    let wire = stream(move |line| {
        let is_value = line.command() == "get" && line.field("key") == Some("weft-0");
        Some(if is_value { "cmd=get_result rc=0 value=zz".into() } else { job.answer(line) })
    });
    let error = opened(wire).unwrap().exchange(b"x", LONG).unwrap_err();
    assert!(matches!(error, ExchangeError::Strange { rank: 0 }), "{error}");
}

#[test]
fn a_job_that_cannot_be_is_refused() {
    let job = Job::of(1);
    let open = |rank, size| {
        let job = job.clone();
        Session::open(stream(move |line| Some(job.answer(line))), rank, size, Instant::now() + LONG)
    };
    assert!(matches!(open(0, RANKS_MAX + 1), Err(DetectError::TooLarge(_))));
    assert!(matches!(open(2, 2), Err(DetectError::Variable { name: RANK, .. })));
    assert!(matches!(open(0, 0), Err(DetectError::Variable { .. })));
}

#[test]
fn a_rank_that_is_called_by_port_is_told_who_it_is() {
    let mut wire = stream(|line| {
        assert_eq!(line.field("pmiid"), Some("7"));
        Some("cmd=initack\ncmd=set size=9\ncmd=set rank=4\ncmd=set debug=0".into())
    });
    assert_eq!(introduce(&mut wire, "7", Instant::now() + LONG).unwrap(), (4, 9));
    let mut mute = stream(|_| Some("cmd=initack\ncmd=set debug=0".into()));
    assert!(matches!(introduce(&mut mute, "7", Instant::now() + LONG), Err(WireError::Broken(_))));
}

#[test]
fn a_descriptor_is_a_stream_or_it_is_not() {
    use std::os::fd::AsRawFd;
    let (ours, _theirs) = UnixStream::pair().unwrap();
    assert!(is_stream(ours.as_raw_fd()));
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(!is_stream(datagrams.as_raw_fd()) && !is_stream(file.as_raw_fd()));
    assert!(!is_stream(-1) && !is_stream(i32::MAX));
}

#[test]
fn a_launcher_is_found_at_whichever_of_its_addresses_it_listens_on() {
    let nobody = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let found = first_that_answers([nobody(), at].into_iter()).unwrap();
    assert_eq!(found.peer_addr().unwrap(), at);
    let refused = first_that_answers([nobody(), nobody()].into_iter()).unwrap_err().unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert!(first_that_answers(std::iter::empty()).unwrap_err().is_none());
}
