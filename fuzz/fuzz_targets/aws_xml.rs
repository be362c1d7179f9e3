//! An STS response in XML.

#![no_main]

use credlet_cloud::aws::fuzzing::xml_text;

libfuzzer_sys::fuzz_target!(|xml: &str| {
    for element in ["AccessKeyId", "SecretAccessKey", "Expiration", "Code", "Message"] {
        if let Some(text) = xml_text(xml, element) {
            assert!(text.expose().len() < xml.len() && xml.contains(&format!("</{element}>")));
        }
    }
});
