#![no_main]

#[path = "../targets/ticket.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz(data));
