//! The other process as the demonstration sees it: started, asked, ended.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::peer::{Count, FileReport, Line, Places, Question};
use crate::exit::{Code, Failure, cause};

/// How long it may take its leave, and how often it is looked at meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The running peer; it ends when this value is dropped.
pub(super) struct Peer {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(super) places: Places,
}

impl Peer {
    /// Starts this program again as the peer, with `arguments` after the name of its command.
    pub(super) fn start(arguments: &[String]) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut child = Command::new(program)
            .arg("demo-peer")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&io::ErrorKind::BrokenPipe.into()));
        };
        let mut answers = BufReader::new(answers);
        let places = hear(&mut answers)?;
        Ok(Self { child, questions: Some(questions), answers, places })
    }

    /// How the file arrived; waits for it.
    pub(super) fn file(&mut self) -> Result<FileReport, Failure> {
        self.ask(&Question::File)?;
        hear(&mut self.answers)
    }

    /// What has arrived on `line`.
    pub(super) fn count(&mut self, line: Line) -> Result<Count, Failure> {
        self.ask(&Question::Count(line))?;
        hear(&mut self.answers)
    }

    fn ask(&mut self, question: &Question) -> Result<(), Failure> {
        let mut text = serde_json::to_vec(question).map_err(|error| failed(&error.into()))?;
        text.push(b'\n');
        let Some(questions) = &mut self.questions else {
            return Err(failed(&io::ErrorKind::BrokenPipe.into()));
        };
        questions.write_all(&text).map_err(|error| failed(&error))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.questions.take());
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE && !matches!(self.child.try_wait(), Ok(Some(_))) {
            std::thread::sleep(LOOK_EVERY);
        }
        // It may have ended meanwhile, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hear<T: DeserializeOwned>(answers: &mut impl BufRead) -> Result<T, Failure> {
    let mut line = String::new();
    match answers.read_line(&mut line) {
        Ok(0) => Err(failed(&io::ErrorKind::UnexpectedEof.into())),
        Ok(_) => serde_json::from_str(&line).map_err(|error| failed(&error.into())),
        Err(error) => Err(failed(&error)),
    }
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(
        Code::Other,
        format!("the second process of the demonstration failed: {}", cause(error)),
        "see its words above, and try `weft doctor`",
    )
}
