//! A cable of two Ethernet interfaces in a network namespace of its own. Needs the permission to make one; says loudly when
//! it is missing.

use std::io;
use std::process::Command;
use std::thread;

use weft_link::Ethernet;

/// The two ends.
pub(crate) const ENDS: [&str; 2] = ["wfa", "wfb"];

/// Packet links on the two ends of a cable of its own, which lasts as long as they do.
pub(crate) fn pair(mtu: u32) -> Option<[Ethernet; 2]> {
    within(mtu, || ENDS.map(|end| Ethernet::open(end).expect("a link on a fresh cable")))
}

/// Runs `act` on a thread that sees nothing but the cable and a loopback interface that is down.
pub(crate) fn within<T: Send>(mtu: u32, act: impl FnOnce() -> T + Send) -> Option<T> {
    let result = thread::scope(|scope| scope.spawn(|| prepare(mtu).then(act)).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn prepare(mtu: u32) -> bool {
    // SAFETY: no pointers; it concerns this thread alone, which ends soon.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = io::Error::last_os_error();
        weft_skip::skipped!("a network namespace cannot be made ({error}); run as root");
        return false;
    }
    let [a, b] = ENDS;
    run(&format!("ip link add {a} mtu {mtu} type veth peer name {b} mtu {mtu}"))
        && ENDS.iter().all(|end| run(&format!("ip link set {end} up")))
}

/// Runs a command in the namespace of this thread.
pub(crate) fn run(command: &str) -> bool {
    let mut words = command.split(' ');
    match Command::new(words.next().unwrap_or_default()).args(words).status() {
        Ok(status) if status.success() => true,
        other => {
            weft_skip::skipped!("`{command}` did not work ({other:?})");
            false
        }
    }
}
