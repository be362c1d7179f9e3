use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_testkit::ca::Ca;

/// Certificates and keys of this run. Cases name them, so that a kept case works with those of any run.
pub(crate) struct Pki {
    names: Vec<(&'static str, String)>,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let ca = Ca::new();
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

    /// What stands for nothing else: the texts by their names.
    pub(crate) fn names(&self) -> &[(&'static str, String)] {
        &self.names
    }

    /// Puts the texts where their names are, and their base64 where it says `@base64:NAME@`.
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
