//! Whether a thread that wakes takes the processor from the one that runs there.

use std::marker::PhantomData;

/// The right of this thread to do so, which it can give up and take back: the policies `SCHED_OTHER` and `SCHED_BATCH` of
/// `sched(7)`. Without it the thread waits until the other one sleeps or its slice is over, some milliseconds, if no processor is
/// idle. Nobody needs a privilege for that.
#[derive(Debug)]
pub struct Preemption {
    /// Somebody chose another policy for this thread, such as a real-time one, or the system lets none be chosen.
    is_fixed: bool,
    is_given_up: bool,
    /// It is about the thread that made this.
    here: PhantomData<*const ()>,
}

impl Preemption {
    /// That of this thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self { is_fixed: policy() != libc::SCHED_OTHER, is_given_up: false, here: PhantomData }
    }

    /// Whether it is given up at present.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Gives it up, or takes it back; a system call if that is a change. Where somebody chose another policy, or the system refuses, all
    /// stays as it is.
    #[inline]
    pub fn set_given_up(&mut self, is_given_up: bool) {
        if is_given_up != self.is_given_up && !self.is_fixed {
            self.change(is_given_up);
        }
    }

    #[cold]
    fn change(&mut self, is_given_up: bool) {
        self.is_fixed = !set_policy(if is_given_up { libc::SCHED_BATCH } else { libc::SCHED_OTHER });
        self.is_given_up = is_given_up && !self.is_fixed;
    }
}

/// The policy of this thread.
fn policy() -> libc::c_int {
    // SAFETY: the call takes no memory.
    unsafe { libc::sched_getscheduler(0) }
}

/// Whether this thread has it now.
fn set_policy(policy: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live through the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_and_taken_back() {
        std::thread::spawn(|| {
            assert!(set_policy(libc::SCHED_OTHER));
            let mut preemption = Preemption::of_this_thread();
            for (is_given_up, expected) in
                [(true, libc::SCHED_BATCH), (true, libc::SCHED_BATCH), (false, libc::SCHED_OTHER)]
            {
                preemption.set_given_up(is_given_up);
                assert_eq!(policy(), expected);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_policy_that_was_chosen_stays() {
        std::thread::spawn(|| {
            assert!(set_policy(libc::SCHED_BATCH));
            let mut preemption = Preemption::of_this_thread();
            for is_given_up in [true, false] {
                preemption.set_given_up(is_given_up);
                assert!(!preemption.is_given_up());
                assert_eq!(policy(), libc::SCHED_BATCH);
            }
        })
        .join()
        .unwrap();
    }
}
