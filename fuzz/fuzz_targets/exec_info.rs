//! KUBERNETES_EXEC_INFO as a plugin reads it.

#![no_main]

use credlet_api::exec::ExecInfo;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(info) = ExecInfo::decode(data) else { return };
    let _ = info.connection();
    // Encoding and decoding round-trips.
    let told = info.spec.encode(info.version);
    assert!(told.ends_with("}\n") && !told[..told.len() - 1].contains('\n'));
    let again = ExecInfo::decode(told.as_bytes()).expect("our own words");
    assert_eq!(again.spec.encode(again.version), told);
});
