//! Decoding of both directions: the standard output of a plugin, by the rules of client-go, and `KUBERNETES_EXEC_INFO`.

use base64::Engine as _;
use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, MapAccess};

use super::{ApiVersion, Cluster, ExecCredentialSpec, ExecCredentialStatus, FailedResponse, ProxyConfig};
use crate::Secret;
use crate::wire::document::{self, DecodeObject, DuplicateKeys, MemberValue, decode_object};
use crate::wire::error::{DocumentError, Position};
use crate::wire::timestamp;

impl ExecCredentialStatus {
    /// Decodes and [validates](Self::validate) the standard output of a plugin. Certificate and key are not parsed.
    ///
    /// `request` is the spec that the plugin received in `version`. A client that passed no lock file does not support
    /// exec proxies, so `proxyConfig` is then ignored.
    ///
    /// # Errors
    /// If clients would reject the output. The error quotes nothing of it but a version or a kind.
    pub fn decode(stdout: &[u8], version: ApiVersion, request: &ExecCredentialSpec) -> Result<Self, InvalidCredential> {
        let meta: TypeMeta = match document::read(stdout, DuplicateKeys::LastWins) {
            Err(DocumentError::Empty) => return Err(InvalidCredential::Empty),
            other => other.map_err(InvalidCredential::InvalidDocument)?,
        };
        meta.expect(version)?;
        let mut status = if version == ApiVersion::V1alpha1 {
            let document: WireDocumentV1alpha1 =
                document::read(stdout, DuplicateKeys::LastWins).map_err(InvalidCredential::InvalidDocument)?;
            document.into_status()?
        } else {
            let document: WireDocument =
                document::read(stdout, DuplicateKeys::LastWins).map_err(InvalidCredential::InvalidDocument)?;
            document.status.ok_or(InvalidCredential::MissingStatus)?.into()
        };
        if request.lock_file_path.is_none() {
            status.proxy_config = None;
        }
        status.validate()?;
        Ok(status)
    }

    /// Checks the rules that clients enforce: a token without control characters, or a certificate with its key, or a
    /// proxy.
    ///
    /// # Errors
    /// The first rule that is violated.
    pub fn validate(&self) -> Result<(), InvalidCredential> {
        let (certificate, key) = (!self.client_certificate_data.is_empty(), !self.client_key_data.is_empty());
        match (certificate, key) {
            (true, false) => return Err(InvalidCredential::MissingClientKey),
            (false, true) => return Err(InvalidCredential::MissingClientCertificate),
            _ => {}
        }
        if self.token.is_empty() && !certificate && self.proxy_config.is_none() {
            return Err(InvalidCredential::MissingCredential);
        }
        // Any other character is valid in a header.
        match self.token.expose().chars().position(char::is_control) {
            Some(index) => Err(InvalidCredential::ControlCharacterInToken { index: index + 1 }),
            None => Ok(()),
        }
    }
}

/// Returns the message of a `metav1.Status` object, which newer plugins print when they fail. The text may contain a
/// secret: [`redact`](crate::redact) it before it is shown.
pub fn status_message(stdout: &[u8]) -> Option<String> {
    #[derive(Default)]
    struct Status {
        meta: TypeMeta,
        message: String,
    }

    impl DecodeObject for Status {
        fn decode_member<'de, A: MapAccess<'de>>(
            &mut self,
            name: &str,
            value: MemberValue<'_, A>,
        ) -> Result<(), A::Error> {
            match name {
                "message" => value.string("message", &mut self.message),
                _ => self.meta.decode_member(name, value),
            }
        }
    }

    let status: Status = document::read(stdout, DuplicateKeys::LastWins).ok()?;
    let is_status = status.meta.kind == "Status" && status.meta.api_version == "v1";
    (is_status && !status.message.is_empty()).then_some(status.message)
}

/// Error in the standard output of an exec plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCredential {
    /// The plugin printed nothing.
    #[error("standard output is empty")]
    Empty,
    /// The output is not a JSON or YAML object with fields of the right types.
    #[error(transparent)]
    InvalidDocument(DocumentError),
    /// `apiVersion` is missing.
    #[error("missing apiVersion")]
    MissingApiVersion,
    /// The output has another version than the client requested.
    #[error("unexpected apiVersion {received}: the client requested {requested}")]
    VersionMismatch {
        /// Version in the kubeconfig.
        requested: ApiVersion,
        /// Version of the output.
        received: ApiVersion,
    },
    /// The output is another object, or has an unknown version.
    #[error("not an ExecCredential: found {found}")]
    UnexpectedKind {
        /// Kind and version, replaced by a description if they do not look like names.
        found: String,
    },
    /// `status` is missing.
    #[error("missing status")]
    MissingStatus,
    /// The `status` has no credential.
    #[error("missing credential: the status has neither a token nor a certificate")]
    MissingCredential,
    /// The certificate has no key.
    #[error("missing clientKeyData for the clientCertificateData")]
    MissingClientKey,
    /// The key has no certificate.
    #[error("missing clientCertificateData for the clientKeyData")]
    MissingClientCertificate,
    /// The token is not valid in a header.
    #[error("invalid token: control character or line break (character {index})")]
    ControlCharacterInToken {
        /// Number of the character, from 1.
        index: usize,
    },
    /// The Unix time in the draft form of v1alpha1 is out of range.
    #[error("invalid expiry: out of range")]
    InvalidExpiry,
}

impl InvalidCredential {
    /// Returns the position of the error in the output, if it is known.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::InvalidDocument(error) => error.position(),
            _ => None,
        }
    }
}

#[derive(Default)]
pub(super) struct TypeMeta {
    kind: String,
    api_version: String,
}

impl TypeMeta {
    pub(super) fn has_member(name: &str) -> bool {
        name.eq_ignore_ascii_case("kind") || name.eq_ignore_ascii_case("apiVersion")
    }

    /// The version of an ExecCredential. A missing kind is accepted, as by client-go.
    pub(super) fn version(&self) -> Result<ApiVersion, InvalidCredential> {
        if self.api_version.is_empty() {
            return Err(InvalidCredential::MissingApiVersion);
        }
        let version = self.api_version.parse().ok();
        match (version, &*self.kind) {
            (Some(version), "" | "ExecCredential") => Ok(version),
            // The kind in the draft form of v1alpha1.
            (Some(ApiVersion::V1alpha1), "ExecCredentials") => Ok(ApiVersion::V1alpha1),
            _ => Err(InvalidCredential::UnexpectedKind { found: self.describe() }),
        }
    }

    fn expect(&self, requested: ApiVersion) -> Result<(), InvalidCredential> {
        match self.version()? {
            received if received == requested => Ok(()),
            received => Err(InvalidCredential::VersionMismatch { requested, received }),
        }
    }

    /// Describes kind and version for an error message. Text that does not look like a name may be a secret and is left
    /// out.
    fn describe(&self) -> String {
        let is_name = |text: &str, extra: &[char]| {
            text.len() <= 63 && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(&c))
        };
        let kind = match &*self.kind {
            "" => "an object without a kind",
            kind if is_name(kind, &[]) => kind,
            _ => "an object of an invalid kind",
        };
        match self.api_version.rsplit_once('/').unwrap_or(("", &self.api_version)) {
            (group, version) if version.len() <= 16 && is_name(version, &[]) && is_name(group, &['.', '-']) => {
                format!("{kind} of {}", self.api_version)
            }
            _ => format!("{kind} of an invalid apiVersion"),
        }
    }
}

impl DecodeObject for TypeMeta {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        // Kubernetes matches these two names case-insensitively, unlike all others.
        if name.eq_ignore_ascii_case("kind") {
            value.string("kind", &mut self.kind)
        } else if name.eq_ignore_ascii_case("apiVersion") {
            value.string("apiVersion", &mut self.api_version)
        } else {
            value.skip()
        }
    }
}

/// A document of v1 or v1beta1 in either direction. Like Kubernetes, it checks the types in `spec` also in a plugin's
/// output.
#[derive(Default)]
pub(super) struct WireDocument {
    spec: Option<WireSpec>,
    status: Option<WireStatus>,
}

impl WireDocument {
    /// Returns `spec` and `status`. Fields of `spec` that `version` lacks are dropped, as Kubernetes does.
    pub(super) fn into_parts(self, version: ApiVersion) -> (Option<ExecCredentialSpec>, Option<ExecCredentialStatus>) {
        let mut spec = self.spec.map(ExecCredentialSpec::from);
        if let Some(spec) = &mut spec {
            match version {
                ApiVersion::V1alpha1 => (spec.cluster, spec.lock_file_path) = (None, None),
                ApiVersion::V1beta1 | ApiVersion::V1 => spec.response = None,
            }
        }
        (spec, self.status.map(ExecCredentialStatus::from))
    }

    pub(super) fn has_proxy_config(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.proxy_config.is_some())
    }
}

decode_object! { WireDocument, "",
    "spec" => object(spec),
    "status" => object(status),
}

#[derive(Default)]
struct WireSpec {
    cluster: Option<WireCluster>,
    interactive: bool,
    response: Option<WireResponse>,
    lock_file_path: String,
}

decode_object! { WireSpec, "spec.",
    "cluster" => object(cluster),
    "interactive" => boolean(interactive),
    "response" => object(response),
    "lockFilePath" => string(lock_file_path),
}

impl From<WireSpec> for ExecCredentialSpec {
    fn from(spec: WireSpec) -> Self {
        Self {
            cluster: spec.cluster.map(|cluster| cluster.0),
            interactive: spec.interactive,
            response: spec.response.map(|response| response.0),
            lock_file_path: Some(spec.lock_file_path).filter(|path| !path.is_empty()),
        }
    }
}

#[derive(Default)]
struct WireCluster(Cluster);

decode_object! { WireCluster, "spec.cluster.",
    "server" => string(0.server),
    "tls-server-name" => string(0.tls_server_name),
    "insecure-skip-tls-verify" => boolean(0.insecure_skip_tls_verify),
    "certificate-authority-data" => certificate_data(0.certificate_authority_data),
    "proxy-url" => secret(0.proxy_url),
    "disable-compression" => boolean(0.disable_compression),
    "config" => extension(0.config),
}

#[derive(Default)]
struct WireResponse(FailedResponse);

decode_object! { WireResponse, "spec.response.",
    "header" => string_lists(0.header),
    "code" => status_code(0.code),
}

#[derive(Default)]
struct WireStatus {
    expiration_timestamp: Option<Timestamp>,
    token: Secret,
    client_certificate_data: String,
    client_key_data: Secret,
    proxy_config: Option<WireProxyConfig>,
}

decode_object! { WireStatus, "status.",
    "expirationTimestamp" => timestamp(expiration_timestamp),
    "token" => secret(token),
    "clientCertificateData" => string(client_certificate_data),
    "clientKeyData" => secret(client_key_data),
    "proxyConfig" => object(proxy_config),
}

impl From<WireStatus> for ExecCredentialStatus {
    fn from(status: WireStatus) -> Self {
        // Plugins written in Go may print the zero time for "no expiry".
        let zero = timestamp::parse("0001-01-01T00:00:00Z");
        Self {
            expiration_timestamp: status.expiration_timestamp.filter(|at| Some(*at) != zero),
            token: status.token,
            client_certificate_data: status.client_certificate_data,
            client_key_data: status.client_key_data,
            proxy_config: status.proxy_config.map(|proxy| proxy.0),
        }
    }
}

#[derive(Default)]
struct WireProxyConfig(ProxyConfig);

decode_object! { WireProxyConfig, "status.proxyConfig.",
    // KEP-2718 spells the JSON tag `URL`.
    "url" | "URL" => string(0.url),
    "certificate-authority-data" | "certificateAuthorityData" => certificate_data(0.certificate_authority_data),
}

/// A document of v1alpha1: in the released form with `status`, or in the draft form with the fields at the top level.
#[derive(Default)]
struct WireDocumentV1alpha1 {
    released: WireDocument,
    draft: WireStatus,
    expiry: Option<i64>,
}

impl WireDocumentV1alpha1 {
    fn into_status(self) -> Result<ExecCredentialStatus, InvalidCredential> {
        if let Some(status) = self.released.status {
            return Ok(status.into());
        }
        let mut status = ExecCredentialStatus::from(self.draft);
        if status == ExecCredentialStatus::default() {
            return Err(InvalidCredential::MissingStatus);
        }
        // Go omits a zero value, so 0 means no expiry.
        if let Some(expiry) = self.expiry.filter(|expiry| *expiry != 0) {
            status.expiration_timestamp =
                Some(Timestamp::from_second(expiry).map_err(|_| InvalidCredential::InvalidExpiry)?);
        }
        Ok(status)
    }
}

impl DecodeObject for WireDocumentV1alpha1 {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "token" => value.secret("token", &mut self.draft.token),
            "clientCertificateData" => value.string("clientCertificateData", &mut self.draft.client_certificate_data),
            "clientKeyData" => value.secret("clientKeyData", &mut self.draft.client_key_data),
            "expiry" => value.integer("expiry", &mut self.expiry),
            _ => self.released.decode_member(name, value),
        }
    }
}

/// Implements `Deserialize` by the wire type of the decoder.
macro_rules! deserialize_as {
    ($($public:ty => $wire:ty, $convert:expr;)*) => {
        $(impl<'de> Deserialize<'de> for $public {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                document::deserialize::<$wire, D>(deserializer).map($convert)
            }
        })*
    };
}

deserialize_as! {
    ExecCredentialSpec => WireSpec, Self::from;
    ExecCredentialStatus => WireStatus, Self::from;
    Cluster => WireCluster, |wire| wire.0;
    FailedResponse => WireResponse, |wire| wire.0;
    ProxyConfig => WireProxyConfig, |wire| wire.0;
}

impl<'de, A: MapAccess<'de>> MemberValue<'_, A> {
    /// Decodes base64 with padding. Line breaks are ignored, as in Go.
    fn certificate_data(self, path: &'static str, into: &mut Vec<u8>) -> Result<(), A::Error> {
        let mut bytes = None;
        self.parsed(path, "base64", &mut bytes, |text| {
            let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            base64::engine::general_purpose::STANDARD.decode(text).ok()
        })?;
        if let Some(bytes) = bytes {
            *into = bytes;
        }
        Ok(())
    }

    /// Decodes a time in RFC 3339.
    fn timestamp(self, path: &'static str, into: &mut Option<Timestamp>) -> Result<(), A::Error> {
        self.parsed(path, "an RFC 3339 time like 2030-01-02T03:04:05Z", into, timestamp::parse)
    }

    /// Decodes a status code; one outside of 32 bits is 0.
    fn status_code(self, path: &'static str, into: &mut i32) -> Result<(), A::Error> {
        let mut code = None;
        self.integer(path, &mut code)?;
        *into = code.and_then(|code| i32::try_from(code).ok()).unwrap_or_default();
        Ok(())
    }
}
