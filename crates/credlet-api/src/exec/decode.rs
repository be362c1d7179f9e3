//! Reading a plugin's answer, by the rules of client-go and without its blind spots.

use base64::Engine as _;
use jiff::Timestamp;
use serde::de::MapAccess;

use super::{ApiVersion, Cluster, ExecCredentialSpec, ExecCredentialStatus, ProxyConfig, Response};
use crate::Secret;
use crate::wire::document::{self, Duplicates, Member, Object};
use crate::wire::fault::{Fault, Position};
use crate::wire::timestamp;

impl ExecCredentialStatus {
    /// Reads what a plugin printed, and checks all that can be checked without knowing about keys.
    ///
    /// `asked` is what the plugin was told in `version`: a client that passed no lock file does not understand a
    /// proxy, so an answer with nothing but one holds no credential for it.
    ///
    /// # Errors
    /// The plugin's author must act. No error holds any text of the answer but a version or a kind.
    pub fn decode(stdout: &[u8], version: ApiVersion, asked: &ExecCredentialSpec) -> Result<Self, AnswerError> {
        let meta: TypeMeta = match document::read(stdout, Duplicates::LastWins) {
            Err(Fault::Empty) => return Err(AnswerError::Empty),
            other => other.map_err(AnswerError::Unreadable)?,
        };
        meta.expect(version)?;
        let mut status = if version == ApiVersion::V1alpha1 {
            let document: DocumentV1alpha1 =
                document::read(stdout, Duplicates::LastWins).map_err(AnswerError::Unreadable)?;
            document.into_status()?
        } else {
            let document: Document = document::read(stdout, Duplicates::LastWins).map_err(AnswerError::Unreadable)?;
            document.status.ok_or(AnswerError::NoStatus)?.into()
        };
        if asked.lock_file_path.is_none() {
            status.proxy_config = None;
        }
        status.check()?;
        Ok(status)
    }

    /// What a client would refuse. Plugins are checked by their harness before they print.
    pub(crate) fn check(&self) -> Result<(), AnswerError> {
        let (certificate, key) = (!self.client_certificate_data.is_empty(), !self.client_key_data.is_empty());
        match (certificate, key) {
            (true, false) => return Err(AnswerError::OnlyCertificate),
            (false, true) => return Err(AnswerError::OnlyKey),
            _ => {}
        }
        if self.token.is_empty() && !certificate && self.proxy_config.is_none() {
            return Err(AnswerError::NoCredential);
        }
        // A header value may hold anything else, so everything else is the server's to judge.
        match self.token.expose().chars().position(char::is_control) {
            Some(index) => Err(AnswerError::ControlCharacterInToken { index: index + 1 }),
            None => Ok(()),
        }
    }
}

/// The message of a `Status` object, if a plugin that failed has printed one: a newer way to say why.
/// Foreign text, possibly with a secret in it: [`scrub`](crate::scrub) it.
pub fn failure_message(stdout: &[u8]) -> Option<String> {
    #[derive(Default)]
    struct Status {
        meta: TypeMeta,
        message: String,
    }

    impl Object for Status {
        fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
            match name {
                "message" => value.string("message", &mut self.message),
                _ => self.meta.member(name, value),
            }
        }
    }

    let status: Status = document::read(stdout, Duplicates::LastWins).ok()?;
    let is_status = status.meta.kind == "Status" && status.meta.api_version == "v1";
    (is_status && !status.message.is_empty()).then_some(status.message)
}

/// Why an answer is no answer. Its plugin's author must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// Nothing was printed.
    #[error("it printed nothing")]
    Empty,
    /// Something else was printed.
    #[error("what it printed {0}")]
    Unreadable(Fault),
    /// The version is missing.
    #[error("its answer has no apiVersion")]
    NoVersion,
    /// The answer is in another version than asked for.
    #[error("it was asked for {asked} and answered in {answered}")]
    OtherVersion {
        /// As configured.
        asked: ApiVersion,
        /// As answered.
        answered: ApiVersion,
    },
    /// Some other object.
    #[error("it answered with {found} instead of an ExecCredential")]
    OtherKind {
        /// Kind and version, as far as they look harmless.
        found: String,
    },
    /// There is no `status`.
    #[error("its answer has no status")]
    NoStatus,
    /// The `status` is empty.
    #[error("its answer has neither a token nor a certificate")]
    NoCredential,
    /// Half a pair.
    #[error("its answer has a clientCertificateData but no clientKeyData")]
    OnlyCertificate,
    /// Half a pair.
    #[error("its answer has a clientKeyData but no clientCertificateData")]
    OnlyKey,
    /// No header can carry this token.
    #[error("its token has a control character or line break (character {index})")]
    ControlCharacterInToken {
        /// Which character, from 1.
        index: usize,
    },
    /// The unix time of 2018's shape is no time.
    #[error("its expiry is no time that exists")]
    Expiry,
}

impl AnswerError {
    /// Where in the answer, if that is known.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Unreadable(fault) => fault.position(),
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
    /// The version, if this is an ExecCredential of one that we know. A missing kind is understood.
    pub(super) fn version(&self) -> Result<ApiVersion, AnswerError> {
        if self.api_version.is_empty() {
            return Err(AnswerError::NoVersion);
        }
        let version = self.api_version.parse().ok();
        match (version, &*self.kind) {
            (Some(version), "" | "ExecCredential") => Ok(version),
            // The name of 2018.
            (Some(ApiVersion::V1alpha1), "ExecCredentials") => Ok(ApiVersion::V1alpha1),
            _ => Err(AnswerError::OtherKind { found: self.describe() }),
        }
    }

    fn expect(&self, asked: ApiVersion) -> Result<(), AnswerError> {
        match self.version()? {
            answered if answered == asked => Ok(()),
            answered => Err(AnswerError::OtherVersion { asked, answered }),
        }
    }

    /// Names a person can act on, unless they look like anything but names: a secret may have strayed here.
    fn describe(&self) -> String {
        let is_name = |text: &str, extra: &[char]| {
            text.len() <= 63 && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(&c))
        };
        let kind = match &*self.kind {
            "" => "an object without a kind",
            kind if is_name(kind, &[]) => kind,
            _ => "an object of an odd kind",
        };
        match self.api_version.rsplit_once('/').unwrap_or(("", &self.api_version)) {
            (group, version) if version.len() <= 16 && is_name(version, &[]) && is_name(group, &['.', '-']) => {
                format!("{kind} of {}", self.api_version)
            }
            _ => format!("{kind} of an odd apiVersion"),
        }
    }
}

impl Object for TypeMeta {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        // Kubernetes finds these two whatever their case, unlike all other members.
        if name.eq_ignore_ascii_case("kind") {
            value.string("kind", &mut self.kind)
        } else if name.eq_ignore_ascii_case("apiVersion") {
            value.string("apiVersion", &mut self.api_version)
        } else {
            value.skip()
        }
    }
}

/// Versions v1 and v1beta1, both directions: the decoder of Kubernetes checks the types of `spec` in an answer too.
#[derive(Default)]
pub(super) struct Document {
    pub(super) spec: Option<Spec>,
    status: Option<Status>,
}

impl Document {
    pub(super) fn names_proxy(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.proxy_config.is_some())
    }
}

impl Object for Document {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "spec" => value.object("spec", &mut self.spec),
            "status" => value.object("status", &mut self.status),
            _ => value.skip(),
        }
    }
}

#[derive(Default)]
pub(super) struct Spec {
    cluster: Option<WireCluster>,
    interactive: bool,
    response: Option<WireResponse>,
    lock_file_path: String,
}

impl Object for Spec {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "cluster" => value.object("spec.cluster", &mut self.cluster),
            "interactive" => value.boolean("spec.interactive", &mut self.interactive),
            "response" => value.object("spec.response", &mut self.response),
            "lockFilePath" => value.string("spec.lockFilePath", &mut self.lock_file_path),
            _ => value.skip(),
        }
    }
}

impl From<Spec> for ExecCredentialSpec {
    fn from(spec: Spec) -> Self {
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

impl Object for WireCluster {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        let cluster = &mut self.0;
        match name {
            "server" => value.string("spec.cluster.server", &mut cluster.server),
            "tls-server-name" => value.string("spec.cluster.tls-server-name", &mut cluster.tls_server_name),
            "insecure-skip-tls-verify" => {
                value.boolean("spec.cluster.insecure-skip-tls-verify", &mut cluster.insecure_skip_tls_verify)
            }
            "certificate-authority-data" => {
                base64(value, "spec.cluster.certificate-authority-data", &mut cluster.certificate_authority_data)
            }
            "proxy-url" => value.secret("spec.cluster.proxy-url", &mut cluster.proxy_url),
            "disable-compression" => {
                value.boolean("spec.cluster.disable-compression", &mut cluster.disable_compression)
            }
            "config" => value.extension("spec.cluster.config", &mut cluster.config),
            _ => value.skip(),
        }
    }
}

#[derive(Default)]
struct WireResponse(Response);

impl Object for WireResponse {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "header" => value.text_lists("spec.response.header", &mut self.0.header),
            "code" => {
                let mut code = None;
                value.integer("spec.response.code", &mut code)?;
                self.0.code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or_default();
                Ok(())
            }
            _ => value.skip(),
        }
    }
}

#[derive(Default)]
struct Status {
    expiration_timestamp: Option<Timestamp>,
    token: Secret,
    client_certificate_data: String,
    client_key_data: Secret,
    proxy_config: Option<WireProxyConfig>,
}

impl Object for Status {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "expirationTimestamp" => value.parsed(
                "status.expirationTimestamp",
                "an RFC 3339 time like 2030-01-02T03:04:05Z",
                &mut self.expiration_timestamp,
                timestamp::parse,
            ),
            "token" => value.secret("status.token", &mut self.token),
            "clientCertificateData" => value.string("status.clientCertificateData", &mut self.client_certificate_data),
            "clientKeyData" => value.secret("status.clientKeyData", &mut self.client_key_data),
            "proxyConfig" => value.object("status.proxyConfig", &mut self.proxy_config),
            _ => value.skip(),
        }
    }
}

impl From<Status> for ExecCredentialStatus {
    fn from(status: Status) -> Self {
        // Go's zero time is what a careless plugin writes for "no expiry".
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

impl Object for WireProxyConfig {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            // `URL` is what a literal reading of the KEP's Go tag gives.
            "url" | "URL" => value.string("status.proxyConfig.url", &mut self.0.url),
            "certificate-authority-data" | "certificateAuthorityData" => {
                base64(value, "status.proxyConfig.certificate-authority-data", &mut self.0.certificate_authority_data)
            }
            _ => value.skip(),
        }
    }
}

/// Version v1alpha1 in both shapes: `status` as it was shipped, or the fields at the top level as first designed.
#[derive(Default)]
struct DocumentV1alpha1 {
    shipped: Document,
    designed: Status,
    expiry: Option<i64>,
}

impl DocumentV1alpha1 {
    fn into_status(self) -> Result<ExecCredentialStatus, AnswerError> {
        if let Some(status) = self.shipped.status {
            return Ok(status.into());
        }
        let mut status = ExecCredentialStatus::from(self.designed);
        if status == ExecCredentialStatus::default() {
            return Err(AnswerError::NoStatus);
        }
        // Go omits a zero, so it means that there is none.
        if let Some(expiry) = self.expiry.filter(|expiry| *expiry != 0) {
            status.expiration_timestamp = Some(Timestamp::from_second(expiry).map_err(|_| AnswerError::Expiry)?);
        }
        Ok(status)
    }
}

impl Object for DocumentV1alpha1 {
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
        match name {
            "token" => value.secret("token", &mut self.designed.token),
            "clientCertificateData" => {
                value.string("clientCertificateData", &mut self.designed.client_certificate_data)
            }
            "clientKeyData" => value.secret("clientKeyData", &mut self.designed.client_key_data),
            "expiry" => value.integer("expiry", &mut self.expiry),
            _ => self.shipped.member(name, value),
        }
    }
}

/// Bytes as Go writes them into JSON; line breaks inside are passed over, as Go does.
fn base64<'de, A: MapAccess<'de>>(
    value: Member<'_, A>,
    path: &'static str,
    into: &mut Vec<u8>,
) -> Result<(), A::Error> {
    let mut bytes = None;
    value.parsed(path, "base64", &mut bytes, |text| {
        let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        base64::engine::general_purpose::STANDARD.decode(text).ok()
    })?;
    if let Some(bytes) = bytes {
        *into = bytes;
    }
    Ok(())
}
