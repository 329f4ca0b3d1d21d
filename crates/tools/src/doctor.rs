//! `weft doctor`: what this machine gives, and what to change.

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use weft_base::limits;
use weft_link::probe::{self, Fact, Verdict};
use weft_socket::stat::Detail;
use weft_socket::{Node, Options, Stream};

use crate::exit::{Code, Failure, cause};
use crate::say;
use crate::units;

/// How long the transfer over the loopback interface is measured.
const TRANSFER_TIME: Duration = Duration::from_millis(500);

/// Tell what this machine gives Weft, and what to change
///
/// Looks at the kernel, its limits and its devices, tries the default UDP port, and moves data between two nodes over
/// the loopback interface. Changes nothing.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print a JSON object per finding
    #[arg(long)]
    pub(crate) json: bool,

    /// Show only what could be better
    #[arg(long, short)]
    quiet: bool,

    /// End with exit status 14 if anything is poor
    #[arg(long)]
    strict: bool,
}

#[derive(Serialize)]
struct Finding<'a> {
    name: &'a str,
    value: &'a str,
    verdict: String,
    remedy: Option<&'a str>,
}

/// Runs the command.
///
/// # Errors
/// [`Code::Findings`] if nodes cannot talk on this machine, or with `--strict` if anything is poor.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut facts = probe::facts();
    facts.push(udp_port(limits::UDP_PORT));
    facts.push(control_directory());
    let (transfer, is_working) = transfer();
    facts.push(transfer);
    for fact in &facts {
        show(args, fact);
    }
    if !is_working {
        let what = "two nodes on this machine cannot talk to each other";
        return Err(Failure::new(Code::Findings, what, "see the reason above"));
    }
    let count = |verdict| facts.iter().filter(|fact| fact.verdict == verdict).count();
    let (fair, poor) = (count(Verdict::Fair), count(Verdict::Poor));
    if !args.json {
        say::line(&verdict(fair, poor));
    }
    if args.strict && poor > 0 {
        return Err(Failure::new(Code::Findings, format!("poor findings: {poor}"), "see the remedies above"));
    }
    Ok(())
}

fn verdict(fair: usize, poor: usize) -> String {
    match (fair, poor) {
        (0, 0) => "\nWeft works here, and there is nothing to gain.".to_owned(),
        _ => format!("\nWeft works here; findings that cost speed: {poor}, that could be better: {fair}."),
    }
}

fn show(args: &Args, fact: &Fact) {
    if args.json {
        say::json(&Finding {
            name: &fact.name,
            value: &fact.value,
            verdict: fact.verdict.to_string(),
            remedy: fact.remedy.as_deref(),
        });
        return;
    }
    if args.quiet && fact.verdict == Verdict::Good {
        return;
    }
    say::line(&format!("{:<8} {:<30} {}", fact.verdict, fact.name, fact.value));
    if let Some(remedy) = &fact.remedy {
        say::line(&format!("         → {remedy}"));
    }
}

fn fact(name: &str, value: String, verdict: Verdict, remedy: Option<&str>) -> Fact {
    Fact { name: name.to_owned(), value, verdict, remedy: remedy.map(str::to_owned) }
}

fn udp_port(port: u16) -> Fact {
    let name = &format!("udp port {port}");
    match UdpSocket::bind(("0.0.0.0", port)) {
        Ok(_) => fact(name, "free".to_owned(), Verdict::Good, None),
        Err(error) => {
            let remedy =
                "a node listens there already, or another program; further listeners need --bind IP:PORT";
            fact(name, cause(&error), Verdict::Fair, Some(remedy))
        }
    }
}

fn control_directory() -> Fact {
    let name = "statistics of running nodes";
    match crate::stat::running(&[], Detail::Usual) {
        Ok(nodes) if nodes.is_empty() => fact(name, "no node runs".to_owned(), Verdict::Good, None),
        Ok(nodes) => fact(name, format!("{} running", nodes.len()), Verdict::Good, None),
        Err(failure) => {
            let remedy = "`weft stat` finds no nodes; set XDG_RUNTIME_DIR to a directory of your own";
            fact(name, failure.what, Verdict::Poor, Some(remedy))
        }
    }
}

/// Moves data between two nodes of this process; whether that works at all.
fn transfer() -> (Fact, bool) {
    let name = "transfer over loopback";
    match measure() {
        Ok(bits_per_second) => (
            fact(
                name,
                format!("{} between two nodes", units::bit_rate(bits_per_second)),
                Verdict::Good,
                None,
            ),
            true,
        ),
        Err(why) => {
            let remedy = "packets do not pass between 127.0.0.1 and itself; see that the interface lo is up (`ip link set lo up`), and for a firewall rule for UDP";
            (fact(name, why.to_string(), Verdict::Poor, Some(remedy)), false)
        }
    }
}

fn measure() -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
    let open = || Node::builder().bind(([127, 0, 0, 1], 0).into()).open();
    let (server, client) = (open()?, open()?);
    let options = Options::stream().connect_timeout(Duration::from_secs(3));
    let listener = server.listen(0, &options)?;
    let socket = client.connect((server.underlay(), listener.local_address().port), &options)?;
    let mut stream = Stream::try_from(socket)?;
    let receiver = thread::spawn(move || -> std::io::Result<(u64, Duration)> {
        let mut accepted = Stream::try_from(listener.accept()?).map_err(std::io::Error::other)?;
        accepted.set_recv_timeout(Some(Duration::from_secs(3)));
        let (mut buffer, mut bytes, started) = (vec![0; 256 << 10], 0, Instant::now());
        loop {
            match accepted.read(&mut buffer)? {
                0 => return Ok((bytes, started.elapsed())),
                len => bytes += len as u64,
            }
        }
    });
    let (data, started) = (vec![0x5A; 256 << 10], Instant::now());
    while started.elapsed() < TRANSFER_TIME {
        stream.write_all(&data)?;
    }
    stream.close_start();
    let (bytes, elapsed) = receiver.join().map_err(|_| "the receiver failed")??;
    Ok(bytes as f64 * 8.0 / elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_fair_and_says_what_to_do() {
        let held = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        let fact = udp_port(held.local_addr().unwrap().port());
        assert_eq!(fact.verdict, Verdict::Fair);
        assert!(fact.remedy.unwrap().contains("--bind"));
    }
}
