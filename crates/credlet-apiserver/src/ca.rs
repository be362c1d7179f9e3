//! A certificate authority for server and client certificates.
//!
//! ```
//! use credlet_apiserver::ca::CertificateAuthority;
//!
//! let ca = CertificateAuthority::new("test CA")?;
//! let identity = ca.client("jane").organizations(["developers"]).issue()?;
//! assert!(identity.cert_pem().starts_with("-----BEGIN CERTIFICATE-----"));
//! # Ok::<(), credlet_apiserver::ca::CertificateError>(())
//! ```

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use credlet_api::Secret;
use credlet_platform::{Clock, SystemClock};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber, SignatureAlgorithm,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

const HOUR: Duration = Duration::from_secs(3600);

/// Failure to issue a certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Key generation or signing failed.
    #[error("failed to issue a certificate")]
    Issue(#[from] rcgen::Error),
    /// The name of [`CertificateRequest::for_host`] is not a DNS name.
    #[error("invalid DNS name {0:?}")]
    InvalidHost(String),
    /// More organizations than [`MAX_ORGANIZATIONS`].
    #[error("too many organizations: {0}, at most {MAX_ORGANIZATIONS} are supported")]
    TooManyOrganizations(usize),
    /// A validity period that begins before 1970.
    #[error("invalid validity period: begins before 1970")]
    InvalidValidity,
}

/// The largest number of organizations in a certificate, a limit of rcgen.
pub const MAX_ORGANIZATIONS: usize = 2;

/// A certificate authority. Its key is generated and stays in memory. Two instances are unrelated, even with the same name.
pub struct CertificateAuthority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    clock: Arc<dyn Clock>,
}

impl CertificateAuthority {
    /// Creates a CA with this common name. Its certificate is valid for a day, from an hour ago.
    pub fn new(common_name: &str) -> Result<Self, CertificateError> {
        Self::with_clock(common_name, Arc::new(SystemClock::new()))
    }

    /// Creates a CA that takes the time from this clock.
    pub fn with_clock(common_name: &str, clock: Arc<dyn Clock>) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = Validity::around(clock.now()).params(common_name)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Ok(Self { pem, der, issuer: Issuer::new(params, key), clock })
    }

    /// Returns the CA certificate as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the CA certificate as DER.
    pub fn der(&self) -> CertificateDer<'static> {
        self.der.clone()
    }

    /// Returns a request for a certificate of a server at 127.0.0.1 and localhost.
    pub fn server(&self) -> CertificateRequest<'_> {
        CertificateRequest::new(self, "credlet-apiserver", CertificateUsage::Server)
    }

    /// Returns a request for a client certificate. The common name is the user.
    pub fn client(&self, common_name: &str) -> CertificateRequest<'_> {
        CertificateRequest::new(self, common_name, CertificateUsage::Client)
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateAuthority").field("pem", &self.pem).finish_non_exhaustive()
    }
}

/// Key types in use with Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CertificateUsage {
    Server,
    Client,
}

/// A certificate to be issued.
#[must_use = "no certificate is issued before `issue`"]
#[derive(Debug)]
pub struct CertificateRequest<'a> {
    ca: &'a CertificateAuthority,
    common_name: String,
    organizations: Vec<String>,
    validity: Validity,
    key_type: KeyType,
    usage: CertificateUsage,
    host: Option<String>,
}

impl<'a> CertificateRequest<'a> {
    fn new(ca: &'a CertificateAuthority, common_name: &str, usage: CertificateUsage) -> Self {
        Self {
            ca,
            common_name: common_name.to_owned(),
            organizations: Vec::new(),
            validity: Validity::around(ca.clock.now()),
            key_type: KeyType::P256,
            usage,
            host: None,
        }
    }

    /// Sets the organizations, which are the groups of the user: at most [`MAX_ORGANIZATIONS`]. Default: none.
    pub fn organizations<'s>(mut self, organizations: impl IntoIterator<Item = &'s str>) -> Self {
        self.organizations = organizations.into_iter().map(str::to_owned).collect();
        self
    }

    /// Sets the validity period, in whole seconds. Default: from an hour ago until in 24 hours.
    pub fn valid(mut self, from: Timestamp, until: Timestamp) -> Self {
        self.validity = Validity { from, until };
        self
    }

    /// Sets a validity period that ended an hour ago.
    pub fn expired(self) -> Self {
        let now = self.ca.clock.now();
        self.valid(before(now, HOUR * 2), before(now, HOUR))
    }

    /// Sets the key type. Default: ECDSA on P-256.
    pub fn key_type(mut self, key_type: KeyType) -> Self {
        self.key_type = key_type;
        self
    }

    /// Sets a DNS name instead of 127.0.0.1 and localhost.
    pub fn for_host(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// Generates a key and issues the certificate.
    pub fn issue(self) -> Result<Identity, CertificateError> {
        let mut params = self.validity.params(&self.common_name)?;
        if self.organizations.len() > MAX_ORGANIZATIONS {
            return Err(CertificateError::TooManyOrganizations(self.organizations.len()));
        }
        // rcgen stores one value per attribute type, so the second organization uses a custom type with the same OID.
        let types: [_; MAX_ORGANIZATIONS] = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        for (ty, organization) in types.into_iter().zip(&self.organizations) {
            params.distinguished_name.push(ty, organization.as_str());
        }
        // Positive and 16 bytes long, as public CAs do.
        let serial: [u8; 16] = std::array::from_fn(|n| fastrand::u8(if n == 0 { 1..128 } else { 0..255 }));
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.subject_alt_names = self.subject_alt_names()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match self.usage {
            CertificateUsage::Server => ExtendedKeyUsagePurpose::ServerAuth,
            CertificateUsage::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate_for(self.key_type.algorithm())?;
        let certificate = params.signed_by(&key, &self.ca.issuer)?;
        Ok(Identity {
            cert_pem: certificate.pem(),
            cert_der: certificate.der().clone(),
            key_pem: Secret::new(key.serialize_pem()),
            key_der: Zeroizing::new(key.serialize_der()),
            serial: credlet_api::hex(serial),
        })
    }

    fn subject_alt_names(&self) -> Result<Vec<SanType>, CertificateError> {
        let dns_name = |name: &str| {
            let name = name.try_into().map_err(|_| CertificateError::InvalidHost(name.to_owned()))?;
            Ok::<_, CertificateError>(SanType::DnsName(name))
        };
        match (&self.host, self.usage) {
            (Some(host), _) => Ok(vec![dns_name(host)?]),
            (None, CertificateUsage::Server) => {
                Ok(vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)), dns_name("localhost")?])
            }
            (None, CertificateUsage::Client) => Ok(Vec::new()),
        }
    }
}

/// A certificate with its private key. The key is zeroed on drop and does not appear in `Debug`.
#[derive(Clone)]
pub struct Identity {
    cert_pem: String,
    cert_der: CertificateDer<'static>,
    key_pem: Secret,
    key_der: Zeroizing<Vec<u8>>,
    serial: String,
}

impl Identity {
    /// Returns the certificate as PEM.
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// Returns the private key as PEM, in PKCS#8.
    pub fn key_pem(&self) -> &str {
        self.key_pem.expose()
    }

    /// Returns the certificate as DER.
    pub fn cert_der(&self) -> CertificateDer<'static> {
        self.cert_der.clone()
    }

    /// Returns the private key as DER, in PKCS#8.
    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key_der.to_vec()).into()
    }

    /// Returns the serial number in lower-case hex without separators.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// Returns this certificate with the key of `other`: a mismatched pair.
    pub fn with_key_of(&self, other: &Identity) -> Identity {
        Identity { key_pem: other.key_pem.clone(), key_der: other.key_der.clone(), ..self.clone() }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("serial", &self.serial).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
struct Validity {
    from: Timestamp,
    until: Timestamp,
}

impl Validity {
    fn around(now: Timestamp) -> Self {
        let until = now.checked_add(HOUR * 24).unwrap_or(Timestamp::MAX);
        Self { from: before(now, HOUR), until }
    }

    fn params(self, common_name: &str) -> Result<CertificateParams, CertificateError> {
        if self.from < Timestamp::UNIX_EPOCH || self.until < Timestamp::UNIX_EPOCH {
            return Err(CertificateError::InvalidValidity);
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.not_before = SystemTime::from(self.from).into();
        params.not_after = SystemTime::from(self.until).into();
        Ok(params)
    }
}

/// Returns the time that is `duration` before `time`, but no time before 1970.
fn before(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_sub(duration).unwrap_or(Timestamp::UNIX_EPOCH).max(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rustls::RootCertStore;
    use rustls::crypto::aws_lc_rs;
    use rustls::server::WebPkiClientVerifier;
    use rustls_pki_types::UnixTime;
    use rustls_pki_types::pem::PemObject as _;
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    use super::*;

    fn test_ca() -> CertificateAuthority {
        CertificateAuthority::new("test CA").unwrap()
    }

    fn accepts(ca: &CertificateAuthority, identity: &Identity) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(ca.der()).unwrap();
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(aws_lc_rs::default_provider()))
            .build()
            .unwrap()
            .verify_client_cert(&identity.cert_der(), &[], UnixTime::now())
            .is_ok()
    }

    fn fits(identity: &Identity) -> bool {
        let key = aws_lc_rs::sign::any_supported_type(&identity.key_der()).unwrap();
        rustls::sign::CertifiedKey::new(vec![identity.cert_der()], key).keys_match().is_ok()
    }

    #[test]
    fn client_certificate_has_user_and_groups() {
        let ca = test_ca();
        let identity = ca.client("jane").organizations(["dev", "system:masters"]).issue().unwrap();
        let der = identity.cert_der();
        let (_, parsed) = X509Certificate::from_der(&der).unwrap();
        let text = |name: &x509_parser::x509::AttributeTypeAndValue<'_>| name.as_str().unwrap().to_owned();
        assert_eq!(parsed.subject().iter_common_name().map(text).collect::<Vec<_>>(), ["jane"]);
        assert_eq!(parsed.subject().iter_organization().map(text).collect::<Vec<_>>(), ["dev", "system:masters"]);
        assert_eq!(credlet_api::hex(parsed.raw_serial()), identity.serial());
    }

    #[test]
    fn every_key_type_verifies_with_its_ca() {
        let (ca, other) = (test_ca(), test_ca());
        for key_type in KeyType::ALL {
            let identity = ca.client("jane").key_type(key_type).issue().unwrap();
            assert!(accepts(&ca, &identity), "{key_type:?}");
            assert!(!accepts(&other, &identity), "{key_type:?}");
            assert!(fits(&identity), "{key_type:?}");
        }
    }

    #[test]
    fn rejects_certificate_outside_validity() {
        let ca = test_ca();
        assert!(!accepts(&ca, &ca.client("jane").expired().issue().unwrap()));
        let tomorrow = ca.clock().now() + SignedDuration::from_hours(24);
        let identity = ca.client("jane").valid(tomorrow, tomorrow + SignedDuration::from_hours(1)).issue().unwrap();
        assert!(!accepts(&ca, &identity));
    }

    #[test]
    fn server_certificate_is_not_for_clients() {
        let ca = test_ca();
        assert!(!accepts(&ca, &ca.server().issue().unwrap()));
    }

    #[test]
    fn mismatched_key_is_rejected() {
        let ca = test_ca();
        let (one, two) = (ca.client("one").issue().unwrap(), ca.client("two").issue().unwrap());
        let mixed = one.with_key_of(&two);
        assert_eq!((mixed.cert_pem(), mixed.key_pem()), (one.cert_pem(), two.key_pem()));
        assert!(fits(&one) && !fits(&mixed));
    }

    #[test]
    fn pem_equals_der() {
        let ca = test_ca();
        let identity = ca.server().for_host("api.example").issue().unwrap();
        assert_eq!(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap(), ca.der());
        assert_eq!(CertificateDer::from_pem_slice(identity.cert_pem().as_bytes()).unwrap(), identity.cert_der());
        assert_eq!(PrivateKeyDer::from_pem_slice(identity.key_pem().as_bytes()).unwrap(), identity.key_der());
    }

    #[test]
    fn rejects_invalid_requests() {
        let ca = test_ca();
        let host = ca.server().for_host("not a host: ä").issue();
        assert!(matches!(host, Err(CertificateError::InvalidHost(_))), "{host:?}");
        let groups = ca.client("jane").organizations(["a", "b", "c"]).issue();
        assert!(matches!(groups, Err(CertificateError::TooManyOrganizations(3))), "{groups:?}");
        let early = ca.client("jane").valid(Timestamp::MIN, Timestamp::MAX).issue();
        assert!(matches!(early, Err(CertificateError::InvalidValidity)), "{early:?}");
        assert!(ca.client("jane").valid(Timestamp::UNIX_EPOCH, Timestamp::MAX).issue().is_ok());
    }

    #[test]
    fn debug_omits_keys() {
        let ca = test_ca();
        let identity = ca.client("jane").issue().unwrap();
        let text = format!("{ca:?} {identity:?} {:?}", ca.client("jane"));
        assert!(text.contains(identity.serial()) && !text.contains("PRIVATE KEY"), "{text}");
    }
}
