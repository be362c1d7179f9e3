//! Resolution of a user: entry of the kubeconfig, overrides, validation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use credlet_api::Secret;
use credlet_api::exec::ExecConfig;
use credlet_api::kubeconfig::{AuthInfo, AuthProviderConfig, ExecSection, SecretBytes};
use credlet_platform::Env;
use credlet_platform::fs::read_bounded_or_pipe;

use super::cluster::{given, overriding, overriding_path};
use super::merged::{ConfigEntry, LoadedFile};
use super::origin::{Sourced, ValueOrigin};
use super::overrides::ConfigOverrides;
use super::resolved::{AuthProvider, ClientCertificate, ConfigWarning, HeaderCredential, Impersonation, TokenFile};
use super::validation::{ConfigProblem, ConfigSubject, ProblemCollector, ValidationError};
use super::{SMALL_FILE_LIMIT, exec_config, pem};

const CERTIFICATE: &str = "client-certificate";
const CERTIFICATE_DATA: &str = "client-certificate-data";
const KEY: &str = "client-key";
const KEY_DATA: &str = "client-key-data";

/// A user before validation. Empty values count as not set.
#[derive(Debug, Default)]
pub(super) struct UserDraft<'a> {
    pub(super) name: String,
    certificate: Option<Sourced<PathBuf>>,
    certificate_data: Option<Sourced<SecretBytes>>,
    key: Option<Sourced<PathBuf>>,
    key_data: Option<Sourced<SecretBytes>>,
    token: Option<Sourced<Secret>>,
    pub(super) token_file: Option<Sourced<PathBuf>>,
    username: Option<Sourced<String>>,
    password: Option<Sourced<Secret>>,
    auth_provider: Option<Sourced<AuthProviderConfig>>,
    exec: Option<Sourced<ExecDraft<'a>>>,
    impersonate: Option<Sourced<String>>,
    impersonate_uid: Option<Sourced<String>>,
    impersonate_groups: Option<Sourced<Vec<String>>>,
    impersonate_user_extra: Option<Sourced<BTreeMap<String, Vec<String>>>>,
}

#[derive(Debug)]
enum ExecDraft<'a> {
    Section(&'a ExecSection, &'a LoadedFile),
    Override(&'a ExecConfig),
}

/// A validated user.
#[derive(Debug, Default)]
pub(super) struct ResolvedUser {
    pub(super) header: Option<Sourced<HeaderCredential>>,
    pub(super) certificate: Option<ClientCertificate>,
    pub(super) exec: Option<Sourced<ExecConfig>>,
    pub(super) auth_provider: Option<Sourced<AuthProvider>>,
    pub(super) impersonation: Option<Impersonation>,
    pub(super) warnings: Vec<ConfigWarning>,
}

impl<'a> UserDraft<'a> {
    pub(super) fn empty(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(super) fn of(entry: &ConfigEntry<'a, AuthInfo>) -> Self {
        let (file, user) = (entry.file, entry.item());
        let exec = user.exec.as_ref();
        let auth_provider = user.auth_provider.as_ref();
        Self {
            name: entry.name().to_owned(),
            certificate: file.path(&user.client_certificate),
            certificate_data: file.owned(&user.client_certificate_data),
            key: file.path(&user.client_key),
            key_data: file.owned(&user.client_key_data),
            token: file.owned(&user.token),
            token_file: file.path(&user.token_file),
            username: file.owned(&user.username),
            password: file.owned(&user.password),
            auth_provider: auth_provider.map(|found| Sourced::new(found.value.clone(), file.origin(found.line))),
            exec: exec.map(|found| Sourced::new(ExecDraft::Section(&found.value, file), file.origin(found.line))),
            impersonate: file.owned(&user.impersonate),
            impersonate_uid: file.owned(&user.impersonate_uid),
            impersonate_groups: file.owned(&user.impersonate_groups),
            impersonate_user_extra: file.owned(&user.impersonate_user_extra),
        }
    }

    #[must_use]
    pub(super) fn with(mut self, overrides: &'a ConfigOverrides, env: &dyn Env) -> Self {
        // An override replaces both forms (inline and file), or the other form might take precedence.
        if given(&overrides.token).is_some() || given(&overrides.token_file).is_some() {
            self.token = overriding(&overrides.token);
            self.token_file = overriding_path(&overrides.token_file, env);
        }
        if let Some(path) = overriding_path(&overrides.client_certificate, env) {
            (self.certificate, self.certificate_data) = (Some(path), None);
        }
        if let Some(path) = overriding_path(&overrides.client_key, env) {
            (self.key, self.key_data) = (Some(path), None);
        }
        self.username = overriding(&overrides.username).or(self.username);
        self.password = overriding(&overrides.password).or(self.password);
        let exec =
            overrides.exec.as_ref().map(|config| Sourced::new(ExecDraft::Override(config), ValueOrigin::Override));
        self.exec = exec.or(self.exec);

        self.impersonate = overriding(&overrides.impersonate).or(self.impersonate);
        self.impersonate_uid = overriding(&overrides.impersonate_uid).or(self.impersonate_uid);
        let groups = overriding(&Some(overrides.impersonate_groups.clone()));
        self.impersonate_groups = groups.or(self.impersonate_groups);
        if let Some(mut extra) = overriding(&Some(overrides.impersonate_user_extra.clone())) {
            for (name, values) in self.impersonate_user_extra.into_iter().flat_map(|old| old.value) {
                extra.value.entry(name).or_insert(values);
            }
            self.impersonate_user_extra = Some(extra);
        }
        self
    }

    /// Validates the user. Returns `None` if there are problems.
    pub(super) fn finish(self, errors: &mut Vec<ValidationError>) -> Option<ResolvedUser> {
        let before = errors.len();
        let mut problems = ProblemCollector { subject: ConfigSubject::User(self.name.clone()), errors };
        let problems = &mut problems;

        if let (Some(exec), Some(_)) = (&self.exec, &self.auth_provider) {
            problems.add(&exec.origin, ConfigProblem::ExecAndAuthProvider);
        }
        let exec = self.exec.and_then(|Sourced { value, origin }| {
            let config = match value {
                ExecDraft::Section(section, file) => exec_config::convert(section, file, &origin, problems),
                ExecDraft::Override(config) => {
                    for error in config.validate().err().unwrap_or_default() {
                        problems.add(&origin, ConfigProblem::Exec(error));
                    }
                    Some(config.clone())
                }
            };
            config.map(|config| Sourced::new(config, origin))
        });
        let certificate =
            client_certificate((self.certificate, self.certificate_data), (self.key, self.key_data), problems);
        let header = header((self.token, self.token_file), (self.username, self.password), problems);

        let mut warnings = Vec::new();
        let auth_provider = self.auth_provider.and_then(|Sourced { value, origin }| {
            let problem = match &*value.name.value {
                "oidc" => {
                    let provider = AuthProvider { name: value.name.value, config: value.config };
                    return Some(Sourced::new(provider, origin));
                }
                "gcp" => ConfigProblem::GcpRemoved,
                "azure" => ConfigProblem::AzureRemoved,
                _ => ConfigProblem::AuthProvider,
            };
            if header.is_some() || certificate.is_some() {
                warnings.push(ConfigWarning::AuthProviderUnused { user: self.name, origin });
            } else {
                problems.add(&origin, problem);
            }
            None
        });

        let extra = [
            self.impersonate_uid.as_ref().map(|uid| &uid.origin),
            self.impersonate_groups.as_ref().map(|groups| &groups.origin),
            self.impersonate_user_extra.as_ref().map(|extra| &extra.origin),
        ];
        if let (None, Some(origin)) = (&self.impersonate, extra.into_iter().flatten().next()) {
            problems.add(origin, ConfigProblem::ImpersonateWithoutUser);
        }
        let impersonation = self.impersonate.map(|user| Impersonation {
            user,
            uid: self.impersonate_uid,
            groups: self.impersonate_groups,
            extra: self.impersonate_user_extra,
        });
        (errors.len() == before).then_some(ResolvedUser {
            header,
            certificate,
            exec,
            auth_provider,
            impersonation,
            warnings,
        })
    }
}

/// File and inline form of a value.
type FileOrData = (Option<Sourced<PathBuf>>, Option<Sourced<SecretBytes>>);

fn client_certificate(
    certificate: FileOrData,
    key: FileOrData,
    problems: &mut ProblemCollector<'_>,
) -> Option<ClientCertificate> {
    let at = certificate.0.as_ref().map(|file| &file.origin).or(certificate.1.as_ref().map(|data| &data.origin))?;
    if key.0.is_none() && key.1.is_none() {
        problems.add(at, ConfigProblem::NoKey);
    }
    let certificate = read_file_or_data(certificate, [CERTIFICATE, CERTIFICATE_DATA], problems);
    let key = read_file_or_data(key, [KEY, KEY_DATA], problems);
    let certificate = certificate.and_then(|(field, file, Sourced { value, origin })| {
        if pem::has_certificate(value.expose()) {
            return Some((file, Sourced::new(value.expose().to_vec(), origin)));
        }
        problems.add(&origin, ConfigProblem::NoCertificate(field));
        None
    });
    let key = key.and_then(|(field, file, Sourced { value, origin })| {
        match std::str::from_utf8(value.expose()).ok().filter(|text| pem::has_private_key(text.as_bytes())) {
            Some(text) => Some((file, Sourced::new(Secret::new(text), origin))),
            None => {
                problems.add(&origin, ConfigProblem::NoKeyInside(field));
                None
            }
        }
    });
    let ((certificate_file, certificate), (key_file, key)) = certificate.zip(key)?;
    Some(ClientCertificate { certificate, certificate_file, key, key_file })
}

/// Returns field name, file and content of a value that is set inline or as a file.
fn read_file_or_data(
    (file, data): FileOrData,
    [file_field, data_field]: [&'static str; 2],
    problems: &mut ProblemCollector<'_>,
) -> Option<(&'static str, Option<PathBuf>, Sourced<SecretBytes>)> {
    if let (Some(file), Some(_)) = (&file, &data) {
        problems.add(&file.origin, ConfigProblem::DataAndFile(file_field));
    }
    if let Some(data) = data {
        return Some((data_field, None, data));
    }
    let Sourced { value: path, origin } = file?;
    match read_bounded_or_pipe(&path, SMALL_FILE_LIMIT) {
        Ok(bytes) => Some((file_field, Some(path), Sourced::new(SecretBytes::new(bytes), origin))),
        Err(problem) => {
            problems.add(&origin, ConfigProblem::File { field: file_field, problem });
            None
        }
    }
}

fn header(
    (token, token_file): (Option<Sourced<Secret>>, Option<Sourced<PathBuf>>),
    (username, password): (Option<Sourced<String>>, Option<Sourced<Secret>>),
    problems: &mut ProblemCollector<'_>,
) -> Option<Sourced<HeaderCredential>> {
    if let Some(Sourced { value, origin }) = &token
        && value.expose().chars().any(|c| c.is_ascii_control() && c != '\t')
    {
        problems.add(origin, ConfigProblem::NotForHeader("token"));
    }
    // A password without a user name is not a credential, but beside a token it is still a conflict.
    let basic = username.as_ref().map(|name| &name.origin);
    let any_basic = basic.or(password.as_ref().map(|password| &password.origin));
    let conflict = if token.is_some() { any_basic } else { basic.filter(|_| token_file.is_some()) };
    if let Some(origin) = conflict {
        problems.add(origin, ConfigProblem::TokenAndBasic);
    }
    match (token, token_file) {
        (inline, Some(Sourced { value: path, origin })) => {
            let file = TokenFile::new(path);
            // With an inline token as fallback, the file may be created later.
            if inline.is_none()
                && let Err(problem) = file.read()
            {
                problems.add(&origin, problem);
            }
            let inline = inline.map(|token| token.value);
            Some(Sourced::new(HeaderCredential::TokenFile { file, inline }, origin))
        }
        (Some(token), None) => Some(token.map(HeaderCredential::Token)),
        (None, None) => {
            let password = password.map(|password| password.value).unwrap_or_default();
            username.map(|name| name.map(|username| HeaderCredential::Basic { username, password }))
        }
    }
}
