//! A certificate authority for servers and clients.

use std::net::{IpAddr, Ipv4Addr};

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, SerialNumber, SignatureAlgorithm,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate authority. Two instances are unrelated, even with the same name.
pub struct TestCa {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl TestCa {
    /// Creates a CA with a unique name.
    pub fn new() -> Self {
        Self::named(&format!("credlet test CA {:016x}", fastrand::u64(..)))
    }

    /// Creates a CA with this common name.
    pub fn named(common_name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = params(common_name, Validity::default());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).expect("a CA certificate");
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Self { pem, der, issuer: Issuer::new(params, key) }
    }

    /// Its certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Its certificate.
    pub fn der(&self) -> CertificateDer<'static> {
        self.der.clone()
    }

    /// Returns a request for a certificate of a server at 127.0.0.1 and localhost.
    pub fn server(&self) -> Request<'_> {
        let names = vec![
            SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            SanType::DnsName("localhost".try_into().expect("a name")),
        ];
        Request::new(self, "credlet test server", ExtendedKeyUsagePurpose::ServerAuth, names)
    }

    /// Returns a request for a client certificate. The common name is the user.
    pub fn client(&self, common_name: &str) -> Request<'_> {
        Request::new(self, common_name, ExtendedKeyUsagePurpose::ClientAuth, Vec::new())
    }
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new()
    }
}

/// Key types in use with Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// ECDSA on P-256, the default.
    P256,
    /// ECDSA on P-384.
    P384,
    /// Ed25519.
    Ed25519,
    /// RSA with 2048 bits. Takes up to a second to generate in a debug build.
    Rsa2048,
}

impl KeyType {
    /// All key types.
    pub const ALL: [Self; 4] = [Self::P256, Self::P384, Self::Ed25519, Self::Rsa2048];

    fn algorithm(self) -> &'static SignatureAlgorithm {
        match self {
            Self::P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            Self::P384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            Self::Ed25519 => &rcgen::PKCS_ED25519,
            Self::Rsa2048 => &rcgen::PKCS_RSA_SHA256,
        }
    }
}

/// A certificate to be issued.
pub struct Request<'a> {
    ca: &'a TestCa,
    common_name: String,
    organisations: Vec<String>,
    validity: Validity,
    key_type: KeyType,
    usage: ExtendedKeyUsagePurpose,
    names: Vec<SanType>,
}

impl<'a> Request<'a> {
    fn new(ca: &'a TestCa, common_name: &str, usage: ExtendedKeyUsagePurpose, names: Vec<SanType>) -> Self {
        Self {
            ca,
            common_name: common_name.to_owned(),
            organisations: Vec::new(),
            validity: Validity::default(),
            key_type: KeyType::P256,
            usage,
            names,
        }
    }

    /// Sets the groups (organizations) of the user: at most two, a limit of rcgen. Default: none.
    pub fn organisations<'s>(mut self, organisations: impl IntoIterator<Item = &'s str>) -> Self {
        self.organisations = organisations.into_iter().map(str::to_owned).collect();
        self
    }

    /// Sets the validity period, in whole seconds. Default: one day, from an hour ago.
    pub fn valid(mut self, from: Timestamp, until: Timestamp) -> Self {
        self.validity = Validity { from, until };
        self
    }

    /// Sets a validity that ended an hour ago.
    pub fn expired(self) -> Self {
        let now = Timestamp::now();
        self.valid(now - SignedDuration::from_hours(2), now - SignedDuration::from_hours(1))
    }

    /// Sets the key type. Default: ECDSA on P-256.
    pub fn key_type(mut self, key_type: KeyType) -> Self {
        self.key_type = key_type;
        self
    }

    /// Sets a DNS name instead of 127.0.0.1 and localhost.
    pub fn for_host(mut self, host: &str) -> Self {
        self.names = vec![SanType::DnsName(host.try_into().expect("a DNS name"))];
        self
    }

    /// Generates a key and issues the certificate.
    pub fn issue(self) -> TestIdentity {
        let key = KeyPair::generate_for(self.key_type.algorithm()).expect("a key");
        let mut params = params(&self.common_name, self.validity);
        // rcgen stores one value per attribute type, so the second organization uses a custom type with the same OID.
        let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        assert!(self.organisations.len() <= types.len(), "rcgen writes no more than two organisations");
        for (ty, organisation) in types.into_iter().zip(self.organisations) {
            params.distinguished_name.push(ty, organisation);
        }
        // Positive and 16 bytes long, as public CAs do.
        let serial: [u8; 16] = std::array::from_fn(|n| fastrand::u8(if n == 0 { 1..128 } else { 0..255 }));
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.subject_alt_names = self.names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![self.usage];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.ca.issuer).expect("a certificate");
        TestIdentity {
            cert_pem: certificate.pem(),
            cert_der: certificate.der().clone(),
            key_pem: key.serialize_pem(),
            key_der: key.serialize_der(),
            serial: credlet_api::hex(serial),
        }
    }
}

/// A certificate with its private key.
#[derive(Clone)]
pub struct TestIdentity {
    cert_pem: String,
    cert_der: CertificateDer<'static>,
    key_pem: String,
    key_der: Vec<u8>,
    serial: String,
}

impl TestIdentity {
    /// The certificate.
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// The key, PKCS#8.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The certificate.
    pub fn cert_der(&self) -> CertificateDer<'static> {
        self.cert_der.clone()
    }

    /// The key, PKCS#8.
    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key_der.clone()).into()
    }

    /// The serial number in lower-case hex without separators.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// Returns this certificate with the key of `other`: a mismatched pair.
    pub fn with_key_of(&self, other: &TestIdentity) -> TestIdentity {
        TestIdentity { key_pem: other.key_pem.clone(), key_der: other.key_der.clone(), ..self.clone() }
    }
}

#[derive(Clone, Copy)]
struct Validity {
    from: Timestamp,
    until: Timestamp,
}

impl Default for Validity {
    fn default() -> Self {
        let now = Timestamp::now();
        Self { from: now - SignedDuration::from_hours(1), until: now + SignedDuration::from_hours(24) }
    }
}

fn params(common_name: &str, validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = std::time::SystemTime::from(validity.from).into();
    params.not_after = std::time::SystemTime::from(validity.until).into();
    params
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::crypto::aws_lc_rs;
    use rustls::server::WebPkiClientVerifier;
    use rustls::{RootCertStore, pki_types::UnixTime};
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;

    fn accepts(ca: &TestCa, identity: &TestIdentity) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(ca.der()).unwrap();
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(aws_lc_rs::default_provider()))
            .build()
            .unwrap()
            .verify_client_cert(&identity.cert_der(), &[], UnixTime::now())
            .is_ok()
    }

    fn fits(identity: &TestIdentity) -> bool {
        let key = aws_lc_rs::sign::any_supported_type(&identity.key_der()).unwrap();
        rustls::sign::CertifiedKey::new(vec![identity.cert_der()], key).keys_match().is_ok()
    }

    #[test]
    fn client_certificate_has_user_and_groups() {
        let ca = TestCa::new();
        let identity = ca.client("jane").organisations(["dev", "system:masters"]).issue();
        let der = identity.cert_der();
        let (_, parsed) = X509Certificate::from_der(&der).unwrap();
        let text = |name: &x509_parser::x509::AttributeTypeAndValue<'_>| name.as_str().unwrap().to_owned();
        assert_eq!(parsed.subject().iter_common_name().map(text).collect::<Vec<_>>(), ["jane"]);
        assert_eq!(parsed.subject().iter_organization().map(text).collect::<Vec<_>>(), ["dev", "system:masters"]);
        assert_eq!(credlet_api::hex(parsed.raw_serial()), identity.serial());
    }

    #[test]
    fn every_key_type_verifies_with_its_ca() {
        let (ca, other) = (TestCa::named("same"), TestCa::named("same"));
        for key_type in KeyType::ALL {
            let identity = ca.client("jane").key_type(key_type).issue();
            assert!(accepts(&ca, &identity), "{key_type:?}");
            assert!(!accepts(&other, &identity), "{key_type:?}");
            assert!(fits(&identity), "{key_type:?}");
        }
    }

    #[test]
    fn rejects_certificate_outside_validity() {
        let ca = TestCa::new();
        assert!(!accepts(&ca, &ca.client("jane").expired().issue()));
        let tomorrow = Timestamp::now() + SignedDuration::from_hours(24);
        let identity = ca.client("jane").valid(tomorrow, tomorrow + SignedDuration::from_hours(1)).issue();
        assert!(!accepts(&ca, &identity));
    }

    #[test]
    fn server_certificate_is_not_for_clients() {
        let ca = TestCa::new();
        assert!(!accepts(&ca, &ca.server().issue()));
    }

    #[test]
    fn mismatched_key_is_rejected() {
        let ca = TestCa::new();
        let (one, two) = (ca.client("one").issue(), ca.client("two").issue());
        let mixed = one.with_key_of(&two);
        assert_eq!((mixed.cert_pem(), mixed.key_pem()), (one.cert_pem(), two.key_pem()));
        assert!(fits(&one) && !fits(&mixed));
    }

    #[test]
    fn pem_equals_der() {
        use rustls::pki_types::pem::PemObject;
        let ca = TestCa::new();
        let identity = ca.server().for_host("api.example").issue();
        assert_eq!(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap(), ca.der());
        assert_eq!(CertificateDer::from_pem_slice(identity.cert_pem().as_bytes()).unwrap(), identity.cert_der());
        assert_eq!(PrivateKeyDer::from_pem_slice(identity.key_pem().as_bytes()).unwrap(), identity.key_der());
    }
}
