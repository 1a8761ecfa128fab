#![no_main]
phalanx_libfuzzer::fuzz_parser!("record-zlib");
