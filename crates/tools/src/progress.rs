//! How far a transfer is: a bar on a terminal, a line a second elsewhere, JSON events on request.

use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde::Serialize;

use crate::exit::Failure;
use crate::say;
use crate::transfer::{Observer, PauseEvent, Report};
use crate::units;

/// Time between two lines or events.
const INTERVAL: Duration = Duration::from_secs(1);

/// How progress is shown.
#[derive(Clone, Debug)]
pub enum Style {
    /// Bars, of which there may be several.
    Bars(MultiProgress),
    /// Lines on standard error.
    Lines,
    /// JSON events on standard output.
    Events,
    /// Failures only.
    Quiet,
}

impl Style {
    /// Bars on a terminal and lines elsewhere, unless the user wants events or nothing.
    #[must_use]
    pub fn choose(json: bool, quiet: bool) -> Self {
        match (json, quiet) {
            (true, _) => Self::Events,
            (_, true) => Self::Quiet,
            _ if stderr().is_terminal() => {
                Self::Bars(MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10)))
            }
            _ => Self::Lines,
        }
    }

    /// Prints a line without breaking the bars.
    pub fn note(&self, text: &str) {
        match self {
            Self::Bars(bars) => bars.suspend(|| say::note(text)),
            Self::Lines => say::note(text),
            Self::Events | Self::Quiet => {}
        }
    }

    /// Prints a failure without breaking the bars.
    pub fn failure(&self, failure: &Failure) {
        match self {
            Self::Bars(bars) => bars.suspend(|| say::failure(failure)),
            Self::Events => {
                say::event(&say::FailureEvent::new(failure));
                say::failure(failure);
            }
            Self::Lines | Self::Quiet => say::failure(failure),
        }
    }
}

/// Watches one transfer.
pub struct Progress {
    style: Style,
    label: String,
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    started_at: Instant,
    told_at: Instant,
    total_bytes: u64,
    present_bytes: u64,
    moved_bytes: u64,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Planned {
        files: u64,
        bytes: u64,
        present_bytes: u64,
    },
    Progress {
        bytes: u64,
        total_bytes: u64,
        bytes_per_second: f64,
    },
    File {
        name: &'a str,
    },
    Done {
        files: u64,
        bytes: u64,
        present_bytes: u64,
        seconds: f64,
        bytes_per_second: f64,
        longest_pause_seconds: f64,
        pauses: Vec<PauseEvent>,
        blake3: &'a str,
    },
}

impl Progress {
    /// A view of one transfer; `label` stands before it.
    #[must_use]
    pub fn new(style: &Style, label: &str) -> Self {
        let now = Instant::now();
        let state = State { started_at: now, told_at: now, total_bytes: 0, present_bytes: 0, moved_bytes: 0 };
        let bar = match style {
            Style::Bars(bars) => Some(bars.add(bar(label))),
            Style::Lines | Style::Events | Style::Quiet => None,
        };
        Self { style: style.clone(), label: label.to_owned(), bar, state: Mutex::new(state) }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the bar away; what is said next stands in its place.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Says what was done. `verb` is "sent" or "received".
    pub fn conclude(&self, verb: &str, report: &Report) {
        self.clear();
        let elapsed = self.locked().started_at.elapsed();
        let moved_bytes = report.bytes.saturating_sub(report.present_bytes);
        let rate = moved_bytes as f64 / elapsed.as_secs_f64().max(1e-9);
        if matches!(self.style, Style::Events) {
            say::event(&Event::Done {
                files: report.files,
                bytes: report.bytes,
                present_bytes: report.present_bytes,
                seconds: elapsed.as_secs_f64(),
                bytes_per_second: rate,
                longest_pause_seconds: report.pauses.longest().as_secs_f64(),
                pauses: report.pauses.events().collect(),
                blake3: &report.digest,
            });
        }
        let already = match report.present_bytes {
            0 => String::new(),
            present => format!(" ({} were there already)", units::bytes(present)),
        };
        let rate = if moved_bytes > 0 { format!(", {}", units::byte_rate(rate)) } else { String::new() };
        self.style.note(&format!(
            "{}{verb} {}, {}{already} in {}{rate}, BLAKE3 {}",
            prefix(&self.label),
            units::files(report.files),
            units::bytes(report.bytes),
            units::duration(elapsed),
            &report.digest[..report.digest.len().min(16)]
        ));
    }
}

fn prefix(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!("{label}: ") }
}

fn bar(label: &str) -> ProgressBar {
    let template =
        format!("{}{{bar:30}} {{percent:>3}} %  {{moved}} of {{total}}  {{rate}}  {{left}}", prefix(label));
    let style = ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
        .with_key("moved", |s: &ProgressState, w: &mut dyn std::fmt::Write| {
            let _ = w.write_str(&units::bytes(s.pos()));
        })
        .with_key("total", |s: &ProgressState, w: &mut dyn std::fmt::Write| {
            let _ = w.write_str(&units::bytes(s.len().unwrap_or(0)));
        })
        .with_key("rate", |s: &ProgressState, w: &mut dyn std::fmt::Write| {
            let _ = w.write_str(&units::byte_rate(s.per_sec()));
        })
        .with_key("left", |s: &ProgressState, w: &mut dyn std::fmt::Write| {
            let _ = match s.pos() {
                0 => Ok(()),
                _ => write!(w, "{} left", units::time_left(s.eta().max(Duration::from_secs(1)))),
            };
        });
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden()).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

impl Observer for Progress {
    fn planned(&self, files_count: u64, bytes: u64, present_bytes: u64) {
        let mut state = self.locked();
        state.started_at = Instant::now();
        (state.total_bytes, state.present_bytes) = (bytes, present_bytes);
        drop(state);
        match (&self.style, &self.bar) {
            (Style::Events, _) => say::event(&Event::Planned { files: files_count, bytes, present_bytes }),
            (_, Some(bar)) => {
                bar.set_length(bytes);
                bar.set_position(present_bytes);
                bar.reset_eta();
            }
            (Style::Lines, None) if present_bytes > 0 => {
                say::note(&format!(
                    "{}{} are there already",
                    prefix(&self.label),
                    units::bytes(present_bytes)
                ));
            }
            _ => {}
        }
    }

    fn differing(&self, bytes: u64) {
        let mut state = self.locked();
        state.present_bytes = state.present_bytes.saturating_sub(bytes);
        drop(state);
        match (&self.style, &self.bar) {
            (_, Some(bar)) => bar.dec(bytes),
            (Style::Lines, None) => {
                say::note(&format!(
                    "{}{} of that differ, and are sent",
                    prefix(&self.label),
                    units::bytes(bytes)
                ));
            }
            _ => {}
        }
    }

    fn advanced(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
            return;
        }
        let mut state = self.locked();
        state.moved_bytes += bytes;
        if state.told_at.elapsed() < INTERVAL {
            return;
        }
        state.told_at = Instant::now();
        let now = *state;
        drop(state);
        self.tell(now);
    }

    fn finished(&self, name: &Path) {
        if matches!(self.style, Style::Events) {
            say::event(&Event::File { name: &name.to_string_lossy() });
        }
    }

    fn failed(&self, failure: &Failure) {
        self.style.failure(failure);
    }
}

impl Progress {
    fn tell(&self, state: State) {
        let done_bytes = state.present_bytes + state.moved_bytes;
        let rate = state.moved_bytes as f64 / state.started_at.elapsed().as_secs_f64().max(1e-9);
        match self.style {
            Style::Events => say::event(&Event::Progress {
                bytes: done_bytes,
                total_bytes: state.total_bytes,
                bytes_per_second: rate,
            }),
            Style::Lines => say::note(&self.text(state, done_bytes, rate)),
            Style::Bars(_) | Style::Quiet => {}
        }
    }

    fn text(&self, state: State, done_bytes: u64, rate: f64) -> String {
        let percent = done_bytes * 100 / state.total_bytes.max(1);
        let left_bytes = state.total_bytes.saturating_sub(done_bytes);
        let left =
            Duration::try_from_secs_f64((left_bytes as f64 / rate.max(1.0)).ceil()).unwrap_or_default();
        format!(
            "{}{percent:>3} %  {} of {}  {}  {} left",
            prefix(&self.label),
            units::bytes(done_bytes),
            units::bytes(state.total_bytes),
            units::byte_rate(rate),
            units::time_left(left)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_bytes_rate_and_time_left() {
        let progress = Progress::new(&Style::Lines, "x");
        let now = Instant::now();
        let state = State {
            started_at: now,
            told_at: now,
            total_bytes: 4 << 20,
            present_bytes: 1 << 20,
            moved_bytes: 1 << 20,
        };
        let text = progress.text(state, 2 << 20, f64::from(1 << 20));
        assert_eq!(text, "x:  50 %  2.00 MiB of 4.00 MiB  1.00 MiB/s  2 s left");
    }
}
