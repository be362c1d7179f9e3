//! What a plugin finds in KUBERNETES_EXEC_INFO.

#![no_main]

use credlet_api::exec::ExecInfo;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(info) = ExecInfo::load(data) else { return };
    let _ = info.connection();
    // What was understood can be told, and is understood again as the same.
    let told = info.spec.encode(info.version);
    assert!(told.ends_with("}\n") && !told[..told.len() - 1].contains('\n'));
    let again = ExecInfo::load(told.as_bytes()).expect("our own words");
    assert_eq!(again.spec.encode(again.version), told);
});
