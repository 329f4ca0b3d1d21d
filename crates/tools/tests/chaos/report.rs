//! What all kills came to, as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::case::Case;

/// Times and reasons of each case, and what else the lanes said.
#[derive(Default)]
pub(crate) struct Report {
    cases: BTreeMap<usize, (Vec<Duration>, BTreeSet<String>)>,
    growth_kib: usize,
    io_growth_kib: usize,
    others: Vec<String>,
    again: Vec<String>,
    standstill: Duration,
}

impl Report {
    /// Takes up a line of a lane.
    pub(crate) fn take(&mut self, line: &str, cases: &[Case]) {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["kill", index, micros, reason] => {
                let index: usize = index.parse().expect("a number");
                assert!(index < cases.len());
                let (times, reasons) = self.cases.entry(index).or_default();
                times.push(Duration::from_micros(micros.parse().expect("a number")));
                reasons.insert(reason.to_owned());
            }
            ["growth", kib] => self.growth_kib = self.growth_kib.max(kib.parse().expect("a number")),
            ["io-growth", kib] => {
                self.io_growth_kib = self.io_growth_kib.max(kib.parse().expect("a number"));
            }
            ["late", ..] | ["done"] => {}
            _ => self.others.push(line.to_owned()),
        }
    }

    /// Notes which turns of a lane were taken again, and how long the machine stood still at most.
    pub(crate) fn add_standstills(&mut self, again: Vec<String>, standstill: Duration) {
        self.again.extend(again);
        self.standstill = self.standstill.max(standstill);
    }

    pub(crate) fn kills(&self) -> usize {
        self.cases.values().map(|(times, _)| times.len()).sum()
    }

    pub(crate) fn print(&self, cases: &[Case], took: Duration) {
        println!("{:<79} kills  median ms     max ms  told", "");
        for (index, (times, reasons)) in &self.cases {
            let mut times = times.clone();
            times.sort();
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let told: Vec<&str> = reasons.iter().map(String::as_str).collect();
            println!(
                "{:<79} {:>5} {:>10.1} {:>10.1}  {}",
                cases[*index],
                times.len(),
                ms(times[times.len() / 2]),
                ms(times[times.len() - 1]),
                told.join(", ")
            );
        }
        self.others.iter().for_each(|line| println!("{line}"));
        self.again.iter().for_each(|what| println!("RUN AGAIN: {what}"));
        if self.standstill > Duration::ZERO {
            println!(
                "THE MACHINE STOOD STILL, for {} ms at most; CASES RUN AGAIN for that: {}",
                self.standstill.as_millis(),
                self.again.len()
            );
        }
        println!(
            "{} kills in {:.1} s; descriptors, threads, processes, table entries, ports and promised bytes left: 0; memory of the \
             survivor that grew most: {} KiB, of the I/O node that did: {} KiB",
            self.kills(),
            took.as_secs_f64(),
            self.growth_kib,
            self.io_growth_kib
        );
    }
}
