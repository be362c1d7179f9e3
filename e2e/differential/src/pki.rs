use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_testkit::ca::TestCa;

/// Certificates and keys of this run. Cases refer to them by name, so that a stored case works in any run.
pub(crate) struct TestPki {
    names: Vec<(&'static str, String)>,
}

impl TestPki {
    pub(crate) fn new() -> Self {
        let ca = TestCa::new();
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        let key = |pem: &str| pem.to_owned();
        Self {
            names: vec![
                ("@CA@", ca.pem().to_owned()),
                ("@CERT@", one.cert_pem().to_owned()),
                ("@KEY@", key(one.key_pem())),
                ("@CERT2@", two.cert_pem().to_owned()),
                ("@KEY2@", key(two.key_pem())),
            ],
        }
    }

    /// The texts by name.
    pub(crate) fn names(&self) -> &[(&'static str, String)] {
        &self.names
    }

    /// Replaces names by their texts, and `@base64:NAME@` by the base64 of the text.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, pem) in &self.names {
            if filled.contains(name.trim_matches('@')) {
                filled = filled.replace(&format!("@base64:{}", &name[1..]), &STANDARD.encode(pem)).replace(name, pem);
            }
        }
        filled
    }
}
