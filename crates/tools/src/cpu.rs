//! Processor time of this process.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Processor time that the process has used, over all its threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuTime {
    /// In the program itself.
    pub user: Duration,
    /// In the kernel on its behalf.
    pub system: Duration,
}

/// Processor use over a span of time; 1 is one processor all the time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CpuUse {
    /// Share in the program itself.
    pub user: f64,
    /// Share in the kernel on its behalf.
    pub system: f64,
    /// The span, in seconds.
    pub seconds: f64,
}

impl CpuTime {
    /// What the process has used so far; zero where the system does not tell.
    #[must_use]
    pub fn now() -> Self {
        // SAFETY: all bits zero are a value of this type.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a value of ours.
        if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
            return Self::default();
        }
        Self { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
    }

    /// The use since `earlier`, `elapsed` ago.
    #[must_use]
    pub fn since(self, earlier: Self, elapsed: Duration) -> CpuUse {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        CpuUse {
            user: self.user.saturating_sub(earlier.user).as_secs_f64() / seconds,
            system: self.system.saturating_sub(earlier.system).as_secs_f64() / seconds,
            seconds,
        }
    }
}

impl CpuUse {
    /// Such as `142 % (user 80 %, system 62 %)`.
    #[must_use]
    pub fn text(self) -> String {
        format!(
            "{:.0} % (user {:.0} %, system {:.0} %)",
            (self.user + self.system) * 100.0,
            self.user * 100.0,
            self.system * 100.0
        )
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u32::try_from(time.tv_usec).unwrap_or(0);
    Duration::new(seconds, 0) + Duration::from_micros(u64::from(micros))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn work_costs_processor_time() {
        let (before, started) = (CpuTime::now(), Instant::now());
        let mut sum = 0_u64;
        while CpuTime::now().user <= before.user && started.elapsed() < Duration::from_secs(10) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        let used = CpuTime::now().since(before, started.elapsed());
        assert!(used.user > 0.0, "{used:?} after {sum}");
    }
}
