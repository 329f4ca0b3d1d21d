//! The system's C compiler, and the libraries this test was built with.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Which of the two libraries a program is linked with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Library {
    Static,
    Shared,
}

/// What a statically linked program needs besides; the same as in the pkg-config file.
const STATIC_NEEDS: [&str; 7] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// This crate's folder.
pub(crate) fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo put `libcdp.so` and `libcdp.a` when it built this test.
pub(crate) fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    let folder = test.parent().expect("a file is in a folder");
    for name in ["libcdp.so", "libcdp.a"] {
        assert!(folder.join(name).exists(), "{name} is not in {}", folder.display());
    }
    folder.to_owned()
}

/// Compiles `source` in `folder`, without linking; panics with the compiler's words.
pub(crate) fn check(folder: &TempDir, source: &Path) {
    let mut compiler = compiler();
    compiler.args(["-fsyntax-only"]).arg(source).current_dir(folder.path());
    run(&mut compiler);
}

/// Compiles `source` to a program in `folder`.
pub(crate) fn program(folder: &TempDir, source: &Path, library: Library) -> PathBuf {
    let name = format!("{}-{library:?}", source.file_stem().expect("a source has a name").to_string_lossy());
    let program = folder.path().join(name);
    let libraries = libraries();
    let mut compiler = compiler();
    compiler.arg("-o").arg(&program).arg(source).arg("-pthread");
    match library {
        Library::Static => compiler.arg(libraries.join("libcdp.a")).args(STATIC_NEEDS),
        Library::Shared => {
            // Programs look for the soname, which in an installation is a link to the library.
            let soname = folder.path().join("libcdp.so.0");
            if !soname.exists() {
                std::os::unix::fs::symlink(libraries.join("libcdp.so"), &soname)
                    .expect("a link in a new folder");
            }
            compiler.arg(&soname).arg(format!("-Wl,-rpath,{}", folder.path().display()))
        }
    };
    run(&mut compiler);
    program
}

fn compiler() -> Command {
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-I"]).arg(home().join("include"));
    compiler
}

/// Runs a command to its end; panics with what it printed if it fails.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
