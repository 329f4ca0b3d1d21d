//! What the loom models of all rooms begin with.

use loom::sync::Arc;
use loom::thread;

/// Branches of one interleaving. Who finds a list locked looks again, which is a branch each time.
const BRANCHES_MAX: usize = 20_000;

/// Runs `body` in every interleaving that has at most so many switches away from a thread that could go on.
///
/// # Panics
/// When an assertion of `body` fails in one of them.
pub fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = BRANCHES_MAX;
    builder.check(body);
}

/// Runs `part` on so many threads, the last of which is this one.
///
/// # Panics
/// When `part` does on another thread.
pub fn on_threads<S: Sync + Send + 'static>(shared: &Arc<S>, threads: usize, part: fn(&S)) {
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || part(&shared))
        })
        .collect();
    part(shared);
    others.into_iter().for_each(|other| other.join().unwrap());
}
