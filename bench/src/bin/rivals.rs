//! Measures the kernel's own transports: `rivals serve ADDRESS`, then `rivals run TEST ADDRESS`.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use weft_bench::rivals::{self, Choices, Code, Outcome, Request, Test};
use weft_bench::{Report, percentile};

/// Measures the kernel's own transports.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answers clients until it is stopped.
    Serve { address: SocketAddr },
    /// Runs one test and prints one line of JSON.
    Run {
        test: Test,
        address: SocketAddr,
        /// Bytes of a message; for a bulk stream give what one send takes, such as 131072.
        #[arg(long, default_value_t = 64)]
        size: usize,
        /// Seconds to send.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Streams at the same time over TCP, each of a thread at either end.
        #[arg(long, default_value = "1", value_name = "N")]
        parallel: NonZeroUsize,
        /// Spin instead of sleeping until something arrives.
        #[arg(long)]
        spin: bool,
        /// Send every message at once, over TCP.
        #[arg(long)]
        no_delay: bool,
        /// TCP's congestion controller.
        #[arg(long, default_value = "cubic")]
        controller: String,
        /// Lines of 64 bytes of code that both ends run before each send, in round trips over UDP or the ring.
        #[arg(long, default_value_t = 0)]
        code_lines: usize,
        /// The same behind each send.
        #[arg(long, default_value_t = 0)]
        code_lines_behind: usize,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve { address } => rivals::serve(address),
        Command::Run {
            test,
            address,
            size,
            seconds,
            parallel,
            spin,
            no_delay,
            controller,
            code_lines,
            code_lines_behind,
        } => {
            let choices = Choices { time: Duration::from_secs_f64(seconds), no_delay, controller };
            Code::new(code_lines, code_lines_behind).and_then(|code| {
                let request = Request { test, size: size.max(1), streams: parallel.get(), spin, code };
                let outcome = rivals::run(&request, &choices, address)?;
                let is_empty = if request.test.is_ping() {
                    outcome.round_trips_ns.is_empty()
                } else {
                    outcome.arrived.messages == 0 || outcome.arrived.seconds <= 0.0
                };
                if is_empty {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing arrived"));
                }
                print(&request, &choices, outcome);
                Ok(())
            })
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rivals: {error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::cast_precision_loss)] // rates
fn print(request: &Request, choices: &Choices, mut outcome: Outcome) {
    let name = request.test.to_possible_value();
    let report = Report::new()
        .text("test", name.as_ref().map_or("", |value| value.get_name()))
        .count("size", request.size as u64)
        .count("parallel", request.streams as u64)
        .text("spin", if request.spin { "yes" } else { "no" })
        .text("no_delay", if choices.no_delay { "yes" } else { "no" })
        .text("controller", &choices.controller)
        .count("code_lines", request.code.before() as u64)
        .count("code_lines_behind", request.code.behind() as u64);
    let report = if request.test.is_ping() {
        let times = &mut outcome.round_trips_ns;
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|rank| percentile(times, rank));
        let report = report.count("rtt_ns_p50", p50).count("rtt_ns_p99", p99).count("rtt_ns_p999", p999);
        report.count("round_trips", times.len() as u64)
    } else {
        let arrived = outcome.arrived;
        let report = report.count("bytes", arrived.bytes);
        let report = report.number("messages_per_s", arrived.messages as f64 / arrived.seconds);
        report.number("gbit_per_s", arrived.bytes as f64 * 8e-9 / arrived.seconds)
    };
    let lost = outcome.sent.saturating_sub(outcome.arrived.messages);
    let report = report.count("sent", outcome.sent).count("lost", lost);
    let report = report.number("client_cpu_s", outcome.cpu_seconds);
    report.number("server_cpu_s", outcome.arrived.cpu_seconds).print();
}
