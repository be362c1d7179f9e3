//! Resolution of a cluster: entry of the kubeconfig, overrides, validation.

use std::path::PathBuf;

use credlet_api::Secret;
use credlet_api::exec::RawExtension;
use credlet_api::kubeconfig::{ClusterSection, EXEC_EXTENSION, SecretBytes};
use credlet_platform::Env;
use credlet_platform::fs::read_bounded_or_pipe;

use super::merged::{ConfigEntry, IsSet};
use super::origin::{Sourced, ValueOrigin};
use super::overrides::ConfigOverrides;
use super::resolved::{CertificateAuthority, ClusterTls};
use super::validation::{ConfigProblem, ConfigSubject, ProblemCollector, ValidationError};
use super::{SMALL_FILE_LIMIT, address, paths, pem};

const AUTHORITY: &str = "certificate-authority";
const AUTHORITY_DATA: &str = "certificate-authority-data";

/// A cluster before validation. Empty values count as not set.
#[derive(Debug)]
pub(super) struct ClusterDraft {
    pub(super) name: String,
    /// Position at which missing fields are reported.
    pub(super) origin: ValueOrigin,
    pub(super) server: Option<Sourced<Secret>>,
    pub(super) authority: Option<Sourced<PathBuf>>,
    authority_data: Option<Sourced<SecretBytes>>,
    insecure: Option<Sourced<bool>>,
    tls_server_name: Option<Sourced<String>>,
    proxy_url: Option<Sourced<Secret>>,
    disable_compression: Option<Sourced<bool>>,
    config: Option<RawExtension>,
}

/// A validated cluster.
#[derive(Debug)]
pub(super) struct ResolvedCluster {
    pub(super) server: Sourced<String>,
    pub(super) https: bool,
    pub(super) tls: ClusterTls,
    pub(super) proxy_url: Option<Sourced<Secret>>,
    pub(super) disable_compression: Sourced<bool>,
    pub(super) config: Option<RawExtension>,
}

impl ClusterDraft {
    pub(super) fn empty(name: &str, origin: ValueOrigin) -> Self {
        Self {
            name: name.to_owned(),
            origin,
            server: None,
            authority: None,
            authority_data: None,
            insecure: None,
            tls_server_name: None,
            proxy_url: None,
            disable_compression: None,
            config: None,
        }
    }

    pub(super) fn of(entry: &ConfigEntry<'_, ClusterSection>) -> Self {
        let (file, cluster) = (entry.file, entry.item());
        let mut configs = cluster.extensions.iter().filter(|extension| extension.name == EXEC_EXTENSION);
        Self {
            name: entry.name().to_owned(),
            origin: entry.origin(),
            server: file.owned(&cluster.server),
            authority: file.path(&cluster.certificate_authority),
            authority_data: file.owned(&cluster.certificate_authority_data),
            insecure: file.owned(&cluster.insecure_skip_tls_verify),
            tls_server_name: file.owned(&cluster.tls_server_name),
            proxy_url: file.owned(&cluster.proxy_url),
            disable_compression: file.owned(&cluster.disable_compression),
            config: configs.find_map(|extension| extension.item.clone()),
        }
    }

    #[must_use]
    pub(super) fn with(mut self, overrides: &ConfigOverrides, env: &dyn Env) -> Self {
        if overrides.insecure_skip_tls_verify || given(&overrides.certificate_authority).is_some() {
            self.insecure = overriding(&Some(overrides.insecure_skip_tls_verify));
            self.authority = overriding_path(&overrides.certificate_authority, env);
            self.authority_data = None;
        }
        // The `tls-server-name` of the kubeconfig belongs to its server.
        if given(&overrides.server).is_some() || given(&overrides.tls_server_name).is_some() {
            self.tls_server_name = overriding(&overrides.tls_server_name);
        }
        self.server = overriding(&overrides.server).map(|url| url.map(Secret::new)).or(self.server);
        self.proxy_url = overriding(&overrides.proxy_url).or(self.proxy_url);
        self.disable_compression = overriding(&Some(overrides.disable_compression)).or(self.disable_compression);
        self
    }

    /// Validates the cluster. Returns `None` if there are problems.
    pub(super) fn finish(self, errors: &mut Vec<ValidationError>) -> Option<ResolvedCluster> {
        let before = errors.len();
        let mut problems = ProblemCollector { subject: ConfigSubject::Cluster(self.name), errors };

        let mut server = None;
        match self.server {
            None => problems.add(&self.origin, ConfigProblem::NoServer),
            Some(Sourced { value, origin }) => match address::server(value.expose()) {
                Ok(address) => server = Some(Sourced::new(address, origin)),
                Err(problem) => problems.add(&origin, problem),
            },
        }
        let mut proxy_url = None;
        if let Some(Sourced { value, origin }) = self.proxy_url {
            match address::proxy(value.expose()) {
                Ok(url) => proxy_url = Some(Sourced::new(url, origin)),
                Err(problem) => problems.add(&origin, problem),
            }
        }
        if let (Some(file), Some(_)) = (&self.authority, &self.authority_data) {
            problems.add(&file.origin, ConfigProblem::DataAndFile(AUTHORITY));
        }
        if let Some(Sourced { origin, .. }) = &self.insecure
            && (self.authority.is_some() || self.authority_data.is_some())
        {
            problems.add(origin, ConfigProblem::InsecureWithAuthority);
        }
        let certificate_authority = authority(self.authority, self.authority_data, &mut problems);

        let Sourced { value: address, origin } = server.filter(|_| errors.len() == before)?;
        let or_default = |flag: Option<Sourced<bool>>| flag.unwrap_or(Sourced::new(false, ValueOrigin::Default));
        Some(ResolvedCluster {
            server: Sourced::new(address.url, origin),
            https: address.https,
            tls: ClusterTls {
                server_name: self.tls_server_name,
                insecure_skip_verify: or_default(self.insecure),
                certificate_authority,
            },
            proxy_url,
            disable_compression: or_default(self.disable_compression),
            config: self.config,
        })
    }
}

fn authority(
    file: Option<Sourced<PathBuf>>,
    data: Option<Sourced<SecretBytes>>,
    problems: &mut ProblemCollector<'_>,
) -> Option<Sourced<CertificateAuthority>> {
    let (field, found, file, origin) = match (file, data) {
        (_, Some(Sourced { value, origin })) => (AUTHORITY_DATA, Ok(value.expose().to_vec()), None, origin),
        (Some(Sourced { value, origin }), None) => {
            let found = read_bounded_or_pipe(&value, SMALL_FILE_LIMIT).map(|mut pem| std::mem::take(&mut *pem));
            (AUTHORITY, found, Some(value), origin)
        }
        (None, None) => return None,
    };
    match found {
        Ok(pem) if pem::has_certificate(&pem) => Some(Sourced::new(CertificateAuthority { pem, file }, origin)),
        Ok(_) => {
            problems.add(&origin, ConfigProblem::NoCertificate(field));
            None
        }
        Err(problem) => {
            problems.add(&origin, ConfigProblem::File { field, problem });
            None
        }
    }
}

/// The value of an override if it is set and not empty.
pub(super) fn given<T: IsSet>(value: &Option<T>) -> Option<&T> {
    value.as_ref().filter(|value| value.is_set())
}

pub(super) fn overriding<T: IsSet + Clone>(value: &Option<T>) -> Option<Sourced<T>> {
    given(value).map(|value| Sourced::new(value.clone(), ValueOrigin::Override))
}

pub(super) fn overriding_path(path: &Option<PathBuf>, env: &dyn Env) -> Option<Sourced<PathBuf>> {
    let from_here = |path: &PathBuf| paths::resolve_path(env.current_dir().as_deref(), path);
    given(path).map(|path| Sourced::new(from_here(path), ValueOrigin::Override))
}
