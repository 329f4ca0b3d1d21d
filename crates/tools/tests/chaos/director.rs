//! Starts the lanes and gathers what they say. A lane that fails ends, and is started again where it was: at the same turn if
//! the machine stood still in it, which is nobody's fault, else at the next one.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::report::Report;
use crate::turn::{Share, Turn};

/// Lanes at a time.
const LANES: usize = 24;
/// How often a turn is taken again in which the machine stood still.
const REPEATS: usize = 5;

/// What became of a lane in all the processes that it took.
#[derive(Default)]
struct Course {
    lines: Vec<String>,
    /// Turns that were taken again.
    again: Vec<String>,
    /// Those that failed.
    failed: Vec<String>,
    /// The longest that the machine stood still.
    standstill: Duration,
}

/// How far one process of a lane came.
struct Run {
    /// Turns that are over, with those before it.
    turn: usize,
    /// Whether all are.
    is_done: bool,
    /// Whether it ended as it should.
    is_well: bool,
    /// The longest that the machine stood still in the turn that was not over.
    late: Duration,
}

/// Has as many processes killed as it is told, and fails if one survivor was not told what it should be.
pub(crate) fn direct(kills: usize) {
    let cases = Case::all();
    let lanes = LANES.min(kills.max(1));
    let begin = Instant::now();
    let following: Vec<_> =
        (0..lanes).map(|lane| thread::spawn(move || Course::follow(Share { lane, lanes, kills }))).collect();
    let mut report = Report::default();
    let mut failed = Vec::new();
    for course in following.into_iter().map(|lane| lane.join().expect("a lane is followed")) {
        course.lines.iter().for_each(|line| report.take(line, &cases));
        report.add_standstills(course.again, course.standstill);
        failed.extend(course.failed);
    }
    report.print(&cases, begin.elapsed());
    assert!(failed.is_empty(), "WRONG, and what the lanes said stands above:\n{}", failed.join("\n"));
    assert_eq!(report.kills(), kills);
}

impl Course {
    /// Lets a lane take all its turns.
    fn follow(share: Share) -> Self {
        let turns = share.turns();
        let mut course = Self::default();
        let (mut turn, mut repeats) = (0, 0);
        loop {
            let run = course.run(share, turn);
            if run.is_well {
                return course;
            }
            if run.turn > turn {
                (turn, repeats) = (run.turn, 0);
            }
            let what = turns.get(turn).map_or("what it leaves behind".to_owned(), Turn::to_string);
            let late = run.late.as_millis();
            if late > 0 && !run.is_done && repeats < REPEATS {
                eprintln!("chaos: {what}: run again, as the machine stood still for {late} ms");
                course.again.push(what);
                repeats += 1;
                continue;
            }
            eprintln!("chaos: {what}: WRONG, tries: {}", repeats + 1);
            course.failed.push(what);
            (turn, repeats) = (turn + 1, 0);
            if turn >= turns.len() {
                return course;
            }
        }
    }

    /// Starts the lane's process at `turn`, and follows it to its end.
    fn run(&mut self, share: Share, turn: usize) -> Run {
        let own = std::env::current_exe().expect("the path of this program");
        let words = share.to_words();
        let mut lane = Command::new(own)
            .arg("lane")
            .args(words)
            .arg(turn.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let said = BufReader::new(lane.stdout.take().expect("it was asked for"));
        let mut run = Run { turn, is_done: false, is_well: false, late: Duration::ZERO };
        for line in said.lines().map(|line| line.expect("what a lane says")) {
            self.standstill = self.standstill.max(run.take(&line));
            self.lines.push(line);
        }
        run.is_well = lane.wait().expect("a lane").success();
        run
    }
}

impl Run {
    /// Takes up a line, and gives how long the machine stood still if it says so.
    fn take(&mut self, line: &str) -> Duration {
        match line.split_once(' ') {
            Some(("kill" | "pause", _)) => (self.turn, self.late) = (self.turn + 1, Duration::ZERO),
            Some(("late", ms)) => {
                let late = Duration::from_millis(ms.parse().expect("a number"));
                self.late = self.late.max(late);
                return late;
            }
            _ => self.is_done |= line == "done",
        }
        Duration::ZERO
    }
}
