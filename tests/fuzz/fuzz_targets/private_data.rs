#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| percale_fuzz::private_data(bytes));
