//! Any bytes through the packet parser.

#![no_main]

#[path = "../drivers/parse.rs"]
mod driver;

libfuzzer_sys::fuzz_target!(|data: &[u8]| driver::run(data));
