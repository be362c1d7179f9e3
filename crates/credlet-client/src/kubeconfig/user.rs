//! Who we are: what the files say, what the caller knows better, and whether it will do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use credlet_api::Secret;
use credlet_api::exec::ExecConfig;
use credlet_api::kubeconfig::{AuthInfo, AuthProviderConfig, Data, ExecSection};
use credlet_core::Env;

use super::cluster::{given, overriding, overriding_path};
use super::merged::{Entry, Loaded};
use super::mistake::{Findings, Mistake, Problem, Subject};
use super::origin::{Origin, Sourced};
use super::overrides::Overrides;
use super::resolved::{AuthProvider, ClientCertificate, HeaderCredential, Impersonation, TokenFile, Warning};
use super::{exec, pem, read};

const CERTIFICATE: &str = "client-certificate";
const CERTIFICATE_DATA: &str = "client-certificate-data";
const KEY: &str = "client-key";
const KEY_DATA: &str = "client-key-data";

/// A user before it is checked. What is empty is not there.
#[derive(Debug)]
pub(super) struct UserDraft<'a> {
    pub(super) name: String,
    certificate: Option<Sourced<PathBuf>>,
    certificate_data: Option<Sourced<Data>>,
    key: Option<Sourced<PathBuf>>,
    key_data: Option<Sourced<Data>>,
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
    Section(&'a ExecSection, &'a Loaded),
    Given(&'a ExecConfig),
}

/// A user that will do.
#[derive(Debug, Default)]
pub(super) struct Person {
    pub(super) header: Option<Sourced<HeaderCredential>>,
    pub(super) certificate: Option<ClientCertificate>,
    pub(super) exec: Option<Sourced<ExecConfig>>,
    pub(super) auth_provider: Option<Sourced<AuthProvider>>,
    pub(super) impersonation: Option<Impersonation>,
    pub(super) warnings: Vec<Warning>,
}

impl<'a> UserDraft<'a> {
    pub(super) fn empty(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            certificate: None,
            certificate_data: None,
            key: None,
            key_data: None,
            token: None,
            token_file: None,
            username: None,
            password: None,
            auth_provider: None,
            exec: None,
            impersonate: None,
            impersonate_uid: None,
            impersonate_groups: None,
            impersonate_user_extra: None,
        }
    }

    pub(super) fn of(entry: &Entry<'a, AuthInfo>) -> Self {
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
    pub(super) fn with(mut self, overrides: &'a Overrides, env: &dyn Env) -> Self {
        // What one asks for replaces both forms of it, or the older one might win.
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
        let exec = overrides.exec.as_ref().map(|config| Sourced::new(ExecDraft::Given(config), Origin::Override));
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

    /// Checks all of it. `None`: there are mistakes.
    pub(super) fn finish(self, mistakes: &mut Vec<Mistake>) -> Option<Person> {
        let before = mistakes.len();
        let mut findings = Findings { subject: Subject::User(self.name.clone()), mistakes };
        let findings = &mut findings;

        if let (Some(exec), Some(_)) = (&self.exec, &self.auth_provider) {
            findings.add(&exec.origin, Problem::ExecAndAuthProvider);
        }
        let exec = self.exec.and_then(|Sourced { value, origin }| {
            let config = match value {
                ExecDraft::Section(section, file) => exec::config(section, file, &origin, findings),
                ExecDraft::Given(config) => {
                    for error in config.check().err().unwrap_or_default() {
                        findings.add(&origin, Problem::Exec(error));
                    }
                    Some(config.clone())
                }
            };
            config.map(|config| Sourced::new(config, origin))
        });
        let certificate =
            client_certificate((self.certificate, self.certificate_data), (self.key, self.key_data), findings);
        let header = header((self.token, self.token_file), (self.username, self.password), findings);

        let mut warnings = Vec::new();
        let auth_provider = self.auth_provider.and_then(|Sourced { value, origin }| {
            let problem = match &*value.name.value {
                "oidc" => {
                    let provider = AuthProvider { name: value.name.value, config: value.config };
                    return Some(Sourced::new(provider, origin));
                }
                "gcp" => Problem::GcpRemoved,
                "azure" => Problem::AzureRemoved,
                _ => Problem::AuthProvider,
            };
            if header.is_some() || certificate.is_some() {
                warnings.push(Warning::AuthProviderUnused { user: self.name, origin });
            } else {
                findings.add(&origin, problem);
            }
            None
        });

        let extra = [
            self.impersonate_uid.as_ref().map(|uid| &uid.origin),
            self.impersonate_groups.as_ref().map(|groups| &groups.origin),
            self.impersonate_user_extra.as_ref().map(|extra| &extra.origin),
        ];
        if let (None, Some(origin)) = (&self.impersonate, extra.into_iter().flatten().next()) {
            findings.add(origin, Problem::ImpersonateWithoutUser);
        }
        let impersonation = self.impersonate.map(|user| Impersonation {
            user,
            uid: self.impersonate_uid,
            groups: self.impersonate_groups,
            extra: self.impersonate_user_extra,
        });
        (mistakes.len() == before).then_some(Person {
            header,
            certificate,
            exec,
            auth_provider,
            impersonation,
            warnings,
        })
    }
}

type Forms = (Option<Sourced<PathBuf>>, Option<Sourced<Data>>);

fn client_certificate(certificate: Forms, key: Forms, findings: &mut Findings<'_>) -> Option<ClientCertificate> {
    let at = certificate.0.as_ref().map(|file| &file.origin).or(certificate.1.as_ref().map(|data| &data.origin))?;
    if key.0.is_none() && key.1.is_none() {
        findings.add(at, Problem::NoKey);
    }
    let certificate = one_form(certificate, [CERTIFICATE, CERTIFICATE_DATA], findings);
    let key = one_form(key, [KEY, KEY_DATA], findings);
    let certificate = certificate.and_then(|(field, file, Sourced { value, origin })| {
        if pem::has_certificate(value.expose()) {
            return Some((file, Sourced::new(value.expose().to_vec(), origin)));
        }
        findings.add(&origin, Problem::NoCertificate(field));
        None
    });
    let key = key.and_then(|(field, file, Sourced { value, origin })| {
        match std::str::from_utf8(value.expose()).ok().filter(|text| pem::has_key(text.as_bytes())) {
            Some(text) => Some((file, Sourced::new(Secret::new(text), origin))),
            None => {
                findings.add(&origin, Problem::NoKeyInside(field));
                None
            }
        }
    });
    let ((certificate_file, certificate), (key_file, key)) = certificate.zip(key)?;
    Some(ClientCertificate { certificate, certificate_file, key, key_file })
}

/// The bytes, wherever they are: under which field, in which file, and where that is said.
fn one_form(
    (file, data): Forms,
    [file_field, data_field]: [&'static str; 2],
    findings: &mut Findings<'_>,
) -> Option<(&'static str, Option<PathBuf>, Sourced<Data>)> {
    if let (Some(file), Some(_)) = (&file, &data) {
        findings.add(&file.origin, Problem::DataAndFile(file_field));
    }
    if let Some(data) = data {
        return Some((data_field, None, data));
    }
    let Sourced { value: path, origin } = file?;
    match read::file(&path, read::SMALL) {
        Ok(bytes) => Some((file_field, Some(path), Sourced::new(Data::new(bytes), origin))),
        Err(problem) => {
            findings.add(&origin, Problem::File { field: file_field, problem });
            None
        }
    }
}

fn header(
    (token, token_file): (Option<Sourced<Secret>>, Option<Sourced<PathBuf>>),
    (username, password): (Option<Sourced<String>>, Option<Sourced<Secret>>),
    findings: &mut Findings<'_>,
) -> Option<Sourced<HeaderCredential>> {
    if let Some(Sourced { value, origin }) = &token
        && value.expose().chars().any(|c| c.is_ascii_control() && c != '\t')
    {
        findings.add(origin, Problem::NotForHeader("token"));
    }
    // A password without a name is no credential, but beside a token it is a mistake all the same.
    let basic = username.as_ref().map(|name| &name.origin);
    let any_basic = basic.or(password.as_ref().map(|password| &password.origin));
    let conflict = if token.is_some() { any_basic } else { basic.filter(|_| token_file.is_some()) };
    if let Some(origin) = conflict {
        findings.add(origin, Problem::TokenAndBasic);
    }
    match (token, token_file) {
        (inline, Some(Sourced { value: path, origin })) => {
            let file = TokenFile::new(path);
            // With an inline token to fall back to, the file may come later.
            if inline.is_none()
                && let Err(problem) = file.read()
            {
                findings.add(&origin, problem);
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
