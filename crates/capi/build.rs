//! Gives the shared library its soname, so that programs linked today find tomorrow's compatible build.

/// The version of the binary interface: raised when a program linked with the older library would break.
const ABI: &str = "0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcdp.so.{ABI}");
}
