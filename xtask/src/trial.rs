//! The installed C library as a stranger would use it: found by pkg-config, linked both ways, run between two processes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Compiles the C example against what is installed below `prefix`, statically and shared, and runs both.
pub(crate) fn run(root: &Path, prefix: &Path) -> Result<(), String> {
    for is_static in [false, true] {
        let program = compile(root, prefix, is_static)?;
        talk(prefix, &program)?;
        println!("trial: {} works", program.display());
    }
    Ok(())
}

fn compile(root: &Path, prefix: &Path, is_static: bool) -> Result<PathBuf, String> {
    let program = prefix.join(if is_static { "echo-static" } else { "echo-shared" });
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(["--cflags", "--libs", "cdp"]);
    if is_static {
        pkg_config.arg("--static");
    }
    let flags = text(&output(&mut pkg_config)?.stdout);
    let mut compiler = Command::new("cc");
    compiler
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(root.join("crates/capi/examples/echo.c"));
    // Beside the shared library the linker takes the static one only if it is named.
    let archive = prefix.join("lib/libcdp.a").display().to_string();
    compiler.args(
        flags
            .split_whitespace()
            .map(|flag| if is_static && flag == "-lcdp" { archive.as_str() } else { flag }),
    );
    output(&mut compiler)?;
    Ok(program)
}

/// A server that does not outlive the trial.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn talk(prefix: &Path, program: &Path) -> Result<(), String> {
    let command = || {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", prefix.join("lib"));
        command
    };
    let mut serve = command();
    serve.args(["serve", "127.0.0.1:0", "0"]).stdout(Stdio::piped());
    let mut server = Server(serve.spawn().map_err(|error| format!("{}: {error}", program.display()))?);
    let mut line = String::new();
    let pipe = server.0.stdout.take().ok_or("trial: the server has no pipe")?;
    BufReader::new(pipe).read_line(&mut line).map_err(|error| format!("trial: {error}"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["port", port, "udp", udp] = words[..] else {
        return Err(format!("trial: the server said {line:?}"));
    };
    let answer = output(command().args(["ask", &format!("127.0.0.1:{port}"), udp, "bye"]))?;
    if text(&answer.stdout).trim_end() != "bye" {
        return Err(format!("trial: the server answered {:?}", text(&answer.stdout)));
    }
    let status = server.0.wait().map_err(|error| format!("trial: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("trial: the server ended with {status}")) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn output(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("{command:?} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{command:?} ended with {}\n{}", output.status, text(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_where_nothing_is_installed_fails() {
        let nowhere = Path::new("/nonexistent/prefix");
        assert!(run(&crate::root(), nowhere).unwrap_err().contains("pkg-config"));
    }

    #[test]
    fn a_server_that_says_something_else_fails() {
        assert!(talk(Path::new("/"), Path::new("/bin/echo")).unwrap_err().contains("serve"));
    }
}
