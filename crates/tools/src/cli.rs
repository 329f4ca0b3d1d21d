//! The command line: which commands there are. What each one takes is in its own file.

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::exit::{Code, Failure};
use crate::say::FailureEvent;
use crate::{cat, demo, doctor, io_node, perf, ping, recv, say, send, signal, stat};

/// Reliable messages and files between machines over UDP, in user space
///
/// `weft demo` shows it on this machine. `weft recv DIR` here and `weft send FILE HOST` there move a file.
#[derive(Parser, Debug)]
#[command(name = "weft", version, max_term_width = 100, after_long_help = Code::help())]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Demo(demo::Args),
    Send(Box<send::Args>),
    Recv(Box<recv::Args>),
    Cat(Box<cat::Args>),
    Ping(Box<ping::Args>),
    Perf(Box<perf::Args>),
    Stat(stat::Args),
    IoNode(io_node::Args),
    Doctor(doctor::Args),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    #[command(hide = true)]
    DemoPeer(Box<demo::peer::Args>),
}

/// Reads the command line, runs the command, and says how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let line = match parse() {
        Ok(line) => line,
        Err(error) => {
            let printed = error.print();
            return match printed {
                _ if error.use_stderr() => ExitCode::from(Code::Usage.number()),
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    let unwritten = Failure::output(&error);
                    say::failure(&unwritten);
                    unwritten.into()
                }
                _ => ExitCode::SUCCESS,
            };
        }
    };
    let result = run(&line.command).and_then(|()| say::remarks());
    signal::await_farewell();
    if signal::has_served() {
        return ExitCode::SUCCESS;
    }
    if signal::was_interrupted() {
        // The user knows; whatever failed only follows from it.
        let failure = Failure::new(Code::Interrupted, "interrupted", "");
        line.command.tell(&failure);
        return failure.into();
    }
    let Err(failure) = result else { return ExitCode::SUCCESS };
    line.command.tell(&failure);
    say::failure(&failure);
    failure.into()
}

/// Reads the command line. A negative number behind an option is its value, and refused as such: it is no option.
fn parse() -> Result<Line, clap::Error> {
    let values = |arg: Arg| {
        let is_value = !arg.is_positional() && arg.get_action().takes_values();
        if is_value { arg.allow_negative_numbers(true) } else { arg }
    };
    let command = Line::command().mut_subcommands(|command| command.mut_args(values));
    Line::from_arg_matches(&command.try_get_matches()?)
}

impl Command {
    /// Tells how it failed as JSON, where the user wants that.
    fn tell(&self, failure: &Failure) {
        let is_json = match self {
            Self::Demo(args) => args.json,
            Self::Send(args) => args.json,
            Self::Recv(args) => args.json,
            Self::Cat(args) => args.json,
            Self::Ping(args) => args.json,
            Self::Perf(args) => args.json,
            Self::Stat(args) => args.json,
            Self::IoNode(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Completions { .. } | Self::DemoPeer(_) => false,
        };
        if !is_json {
            return;
        }
        let event = FailureEvent::new(failure);
        if matches!(self, Self::Cat(_)) {
            // Its standard output is what the other end says.
            say::json_note(&event);
        } else {
            say::event(&event);
        }
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Send(args) => send::run(args),
        Command::Recv(args) => recv::run(args),
        Command::Cat(args) => cat::run(args),
        Command::Ping(args) => ping::run(args),
        Command::Perf(args) => perf::run(args),
        Command::Stat(args) => stat::run(args),
        Command::IoNode(args) => io_node::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Line::command(), "weft", &mut script);
            say::line(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
        Command::DemoPeer(args) => demo::peer::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Line::command().debug_assert();
    }
}
