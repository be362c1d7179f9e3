//! The certificate authority of the demo cluster, for the server and for client certificates.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use credlet_api::Secret;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::CertificateDer;

const DAY: Duration = Duration::from_secs(86_400);

/// Signs certificates. Its key is generated at the start and stays in memory.
pub(super) struct DemoCa {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, both as PEM.
pub(super) struct PemKeyPair {
    pub(super) certificate: String,
    pub(super) key: Secret,
}

impl DemoCa {
    pub(super) fn new(name: &str, now: Timestamp) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = params(name, now - DAY, now + DAY);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?;
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Ok(Self { pem, der, issuer: Issuer::new(params, key) })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    pub(super) fn der(&self) -> CertificateDer<'static> {
        self.der.clone()
    }

    /// Issues a certificate for a server on loopback.
    pub(super) fn server(&self, now: Timestamp) -> Result<PemKeyPair, rcgen::Error> {
        let mut params = params("credlet demo server", now - DAY, now + DAY);
        params.subject_alt_names =
            vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)), SanType::DnsName("localhost".try_into()?)];
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Issues a client certificate. Kubernetes takes the user from the common name and the group from the organization.
    pub(super) fn client(
        &self,
        user: &str,
        group: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<PemKeyPair, rcgen::Error> {
        let mut params = params(user, from, until);
        params.distinguished_name.push(DnType::OrganizationName, group);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Result<PemKeyPair, rcgen::Error> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(PemKeyPair { certificate: certificate.pem(), key: Secret::new(key.serialize_pem()) })
    }
}

fn params(name: &str, from: Timestamp, until: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = SystemTime::from(from).into();
    params.not_after = SystemTime::from(until).into();
    params
}
