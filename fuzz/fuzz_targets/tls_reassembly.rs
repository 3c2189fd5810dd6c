#![no_main]

#[path = "../targets/tls_reassembly.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::fuzz(data));
