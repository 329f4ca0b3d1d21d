//! The `weft` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_tools::cli::main()
}
