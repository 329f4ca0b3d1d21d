//! Breadth first through all states.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;

use super::Scenario;
use super::fingerprint::Fingerprint;
use super::pair::{Pair, Step};
use crate::violation::{Invariant, Violation};

/// Steps that the fair continuation may take to the end.
const FAIR_STEPS_MAX: usize = 400;

/// What a search found when nothing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Different states.
    pub states: usize,
    /// Steps taken between them.
    pub steps: usize,
    /// Steps on the longest shortest way from the beginning.
    pub depth: usize,
    /// States in which both connections are over.
    pub finals: usize,
    /// Longest fair continuation that was followed to a state known to end.
    pub fair_steps: usize,
}

/// A way from the beginning to a violation.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The scenario.
    pub scenario: &'static str,
    /// What is wrong.
    pub violation: Violation,
    /// The steps, and the state after each.
    pub way: Vec<String>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.scenario, self.violation)?;
        self.way.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl std::error::Error for Counterexample {}

struct Search {
    scenario: Rc<Scenario>,
    /// How each state was reached first: the state before, and the step.
    reached: BTreeMap<Fingerprint, Option<(Fingerprint, Step)>>,
    /// States from which the fair continuation is known to end.
    good: BTreeSet<Fingerprint>,
    frontier: VecDeque<(Pair, Fingerprint, usize)>,
    summary: Summary,
}

/// Searches all states of `scenario`.
///
/// # Errors
///
/// The shortest way to a violation.
pub fn search(scenario: Scenario) -> Result<Summary, Box<Counterexample>> {
    let scenario = Rc::new(scenario);
    let name = scenario.name;
    let at_start = |violation| Box::new(Counterexample { scenario: name, violation, way: Vec::new() });
    let first = Pair::new(&scenario).map_err(at_start)?;
    let summary = Summary { states: 1, steps: 0, depth: 0, finals: 0, fair_steps: 0 };
    let (reached, good) = (BTreeMap::new(), BTreeSet::new());
    let mut search = Search { scenario, reached, good, frontier: VecDeque::new(), summary };
    let print = first.fingerprint();
    search.reached.insert(print, None);
    search.frontier.push_back((first, print, 0));
    while let Some((pair, print, depth)) = search.frontier.pop_front() {
        search.expand(&pair, print, depth)?;
    }
    Ok(search.summary)
}

impl Search {
    fn expand(&mut self, pair: &Pair, print: Fingerprint, depth: usize) -> Result<(), Box<Counterexample>> {
        self.summary.depth = self.summary.depth.max(depth);
        if pair.is_over() {
            self.summary.finals += 1;
            pair.check_over().map_err(|violation| self.explain(violation, print, None))?;
        }
        self.follow_fair(pair, print)?;
        for step in pair.steps() {
            let mut next = pair.clone();
            next.take(step).map_err(|violation| self.explain(violation, print, Some(step)))?;
            self.summary.steps += 1;
            self.note(next, (print, step), depth + 1)?;
        }
        Ok(())
    }

    fn note(
        &mut self,
        pair: Pair,
        from: (Fingerprint, Step),
        depth: usize,
    ) -> Result<(), Box<Counterexample>> {
        let print = pair.fingerprint();
        if self.reached.contains_key(&print) {
            return Ok(());
        }
        self.reached.insert(print, Some(from));
        self.summary.states += 1;
        if self.summary.states > self.scenario.states_max {
            let what = format!("more than {} states", self.scenario.states_max);
            return Err(self.explain(Violation::new(Invariant::Termination, what), print, None));
        }
        self.frontier.push_back((pair, print, depth));
        Ok(())
    }

    /// Follows the fair continuation until it is over or meets a state from which it is known to end.
    fn follow_fair(&mut self, pair: &Pair, print: Fingerprint) -> Result<(), Box<Counterexample>> {
        let mut on_the_way = Vec::new();
        let mut at = pair.without_faults();
        let mut here = at.fingerprint();
        while !self.good.contains(&here) {
            on_the_way.push(here);
            let step = at.fair_step().map_err(|violation| self.explain(violation, print, None))?;
            let Some(step) = step else {
                at.check_over().map_err(|violation| self.explain(violation, print, None))?;
                break;
            };
            at.take(step).map_err(|violation| self.explain(violation, print, None))?;
            if on_the_way.len() > FAIR_STEPS_MAX {
                let what = format!("no end after {FAIR_STEPS_MAX} fair steps: {}", at.describe());
                return Err(self.explain(Violation::new(Invariant::Liveness, what), print, None));
            }
            here = at.fingerprint();
        }
        self.summary.fair_steps = self.summary.fair_steps.max(on_the_way.len());
        self.good.extend(on_the_way);
        Ok(())
    }

    /// The way to the state `print`, taken again from the beginning, and `last` from there.
    fn explain(&self, violation: Violation, print: Fingerprint, last: Option<Step>) -> Box<Counterexample> {
        let mut steps = Vec::new();
        let mut at = print;
        while let Some(Some((before, step))) = self.reached.get(&at) {
            steps.push(*step);
            at = *before;
        }
        steps.reverse();
        let mut way = Vec::new();
        if let Ok(mut pair) = Pair::new(&self.scenario) {
            way.push(format!("at first: {}", pair.describe()));
            for step in steps {
                if pair.take(step).is_err() {
                    break;
                }
                way.push(format!("{step:?}: {}", pair.describe()));
            }
        }
        way.extend(last.map(|step| format!("{step:?}: here")));
        Box::new(Counterexample { scenario: self.scenario.name, violation, way })
    }
}
