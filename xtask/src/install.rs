//! Builds the C library in release and lays it, its header and its pkg-config file under a prefix.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of the C interface's binary form; the soname is `libcdp.so.<ABI>` (see `crates/capi/build.rs`).
const ABI: &str = "0";
/// The version of the package, that of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What a program linked with the static library needs besides (`rustc --print native-static-libs`).
const STATIC_NEEDS: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

/// Installs below `prefix`, making the folders it needs; gives the whole path of `prefix`.
pub(crate) fn run(root: &Path, prefix: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(prefix).map_err(|e| format!("{}: cannot be made: {e}", prefix.display()))?;
    let prefix = prefix.canonicalize().map_err(|e| format!("{}: {e}", prefix.display()))?;
    build(root)?;
    let built = target_folder(root).join("release");
    let library = prefix.join("lib");
    let real_name = format!("libcdp.so.{VERSION}");
    copy(&built.join("libcdp.so"), &library.join(&real_name))?;
    link(&real_name, &library.join(format!("libcdp.so.{ABI}")))?;
    link(&real_name, &library.join("libcdp.so"))?;
    copy(&built.join("libcdp.a"), &library.join("libcdp.a"))?;
    for header in ["cdp.h", "fiber.h"] {
        copy(&root.join("crates/capi/include").join(header), &prefix.join("include").join(header))?;
    }
    let template = root.join("crates/capi/cdp.pc.in");
    let text = fs::read_to_string(&template).map_err(|e| format!("{}: {e}", template.display()))?;
    let package = library.join("pkgconfig/cdp.pc");
    make_parent(&package)?;
    fs::write(&package, fill(&text, &prefix)).map_err(|e| format!("{}: {e}", package.display()))?;
    println!("installed cdp {VERSION} below {}", prefix.display());
    println!("use: PKG_CONFIG_PATH={} pkg-config --cflags --libs cdp", library.join("pkgconfig").display());
    Ok(prefix)
}

fn build(root: &Path) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", "weft-capi"]).current_dir(root);
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("install: the build of weft-capi ended with {status}")),
        Err(error) => Err(format!("install: cargo cannot be run: {error}")),
    }
}

/// Where cargo puts what it builds.
fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}

fn fill(template: &str, prefix: &Path) -> String {
    template
        .replace("@PREFIX@", &prefix.to_string_lossy())
        .replace("@VERSION@", VERSION)
        .replace("@STATIC_NEEDS@", STATIC_NEEDS)
}

fn make_parent(path: &Path) -> Result<(), String> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(|e| format!("{}: cannot be made: {e}", parent.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_parent(to)?;
    fs::copy(from, to).map(|_| ()).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

fn link(target: &str, at: &Path) -> Result<(), String> {
    if at.symlink_metadata().is_ok() {
        fs::remove_file(at).map_err(|e| format!("{}: cannot be replaced: {e}", at.display()))?;
    }
    symlink(target, at).map_err(|e| format!("{}: {e}", at.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_file_has_no_mark_left() {
        let template = fs::read_to_string(crate::root().join("crates/capi/cdp.pc.in")).unwrap();
        let filled = fill(&template, Path::new("/opt/cdp"));
        assert!(filled.contains("prefix=/opt/cdp\n") && filled.contains(&format!("Version: {VERSION}")));
        assert!(!filled.contains('@'), "{filled}");
    }
}
