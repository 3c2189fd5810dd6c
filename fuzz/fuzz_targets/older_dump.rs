#![no_main]

#[path = "../targets/older_dump.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz(data));
