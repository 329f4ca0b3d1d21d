//! Operations, a bad network and forged packets for two machines and a listener.

#![no_main]

#[path = "../drivers/connection.rs"]
mod driver;

libfuzzer_sys::fuzz_target!(|data: &[u8]| driver::run(data));
