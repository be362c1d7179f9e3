//! How to reach the API server: what the files say, what the caller knows better, and whether it will do.

use std::path::PathBuf;

use credlet_api::Secret;
use credlet_api::exec::Extension;
use credlet_api::kubeconfig::{Cluster, Data, EXEC_EXTENSION};
use credlet_core::Env;

use super::merged::{Entry, Given};
use super::mistake::{Findings, Mistake, Problem, Subject};
use super::origin::{Origin, Sourced};
use super::overrides::Overrides;
use super::resolved::{CertificateAuthority, Tls};
use super::{address, paths, pem, read};

const AUTHORITY: &str = "certificate-authority";
const AUTHORITY_DATA: &str = "certificate-authority-data";

/// A cluster before it is checked. What is empty is not there.
#[derive(Debug)]
pub(super) struct ClusterDraft {
    pub(super) name: String,
    /// Where to look for what is missing.
    pub(super) origin: Origin,
    pub(super) server: Option<Sourced<Secret>>,
    pub(super) authority: Option<Sourced<PathBuf>>,
    authority_data: Option<Sourced<Data>>,
    insecure: Option<Sourced<bool>>,
    tls_server_name: Option<Sourced<String>>,
    proxy_url: Option<Sourced<Secret>>,
    disable_compression: Option<Sourced<bool>>,
    config: Option<Extension>,
}

/// A cluster that will do.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) server: Sourced<String>,
    pub(super) https: bool,
    pub(super) tls: Tls,
    pub(super) proxy_url: Option<Sourced<Secret>>,
    pub(super) disable_compression: Sourced<bool>,
    pub(super) config: Option<Extension>,
}

impl ClusterDraft {
    pub(super) fn empty(name: &str, origin: Origin) -> Self {
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

    pub(super) fn of(entry: &Entry<'_, Cluster>) -> Self {
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
    pub(super) fn with(mut self, overrides: &Overrides, env: &dyn Env) -> Self {
        if overrides.insecure_skip_tls_verify || given(&overrides.certificate_authority).is_some() {
            self.insecure = overriding(&Some(overrides.insecure_skip_tls_verify));
            self.authority = overriding_path(&overrides.certificate_authority, env);
            self.authority_data = None;
        }
        // Another server has another name.
        if given(&overrides.server).is_some() || given(&overrides.tls_server_name).is_some() {
            self.tls_server_name = overriding(&overrides.tls_server_name);
        }
        self.server = overriding(&overrides.server).map(|url| url.map(Secret::new)).or(self.server);
        self.proxy_url = overriding(&overrides.proxy_url).or(self.proxy_url);
        self.disable_compression = overriding(&Some(overrides.disable_compression)).or(self.disable_compression);
        self
    }

    /// Checks all of it. `None`: there are mistakes.
    pub(super) fn finish(self, mistakes: &mut Vec<Mistake>) -> Option<Endpoint> {
        let before = mistakes.len();
        let mut findings = Findings { subject: Subject::Cluster(self.name), mistakes };

        let mut server = None;
        match self.server {
            None => findings.add(&self.origin, Problem::NoServer),
            Some(Sourced { value, origin }) => match address::server(value.expose()) {
                Ok(address) => server = Some(Sourced::new(address, origin)),
                Err(problem) => findings.add(&origin, problem),
            },
        }
        let mut proxy_url = None;
        if let Some(Sourced { value, origin }) = self.proxy_url {
            match address::proxy(value.expose()) {
                Ok(url) => proxy_url = Some(Sourced::new(url, origin)),
                Err(problem) => findings.add(&origin, problem),
            }
        }
        if let (Some(file), Some(_)) = (&self.authority, &self.authority_data) {
            findings.add(&file.origin, Problem::DataAndFile(AUTHORITY));
        }
        if let Some(Sourced { origin, .. }) = &self.insecure
            && (self.authority.is_some() || self.authority_data.is_some())
        {
            findings.add(origin, Problem::InsecureWithAuthority);
        }
        let certificate_authority = authority(self.authority, self.authority_data, &mut findings);

        let Sourced { value: address, origin } = server.filter(|_| mistakes.len() == before)?;
        let or_default = |flag: Option<Sourced<bool>>| flag.unwrap_or(Sourced::new(false, Origin::Default));
        Some(Endpoint {
            server: Sourced::new(address.url, origin),
            https: address.https,
            tls: Tls {
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
    data: Option<Sourced<Data>>,
    findings: &mut Findings<'_>,
) -> Option<Sourced<CertificateAuthority>> {
    let (field, found, file, origin) = match (file, data) {
        (_, Some(Sourced { value, origin })) => (AUTHORITY_DATA, Ok(value.expose().to_vec()), None, origin),
        (Some(Sourced { value, origin }), None) => {
            let found = read::file(&value, read::SMALL).map(|mut pem| std::mem::take(&mut *pem));
            (AUTHORITY, found, Some(value), origin)
        }
        (None, None) => return None,
    };
    match found {
        Ok(pem) if pem::has_certificate(&pem) => Some(Sourced::new(CertificateAuthority { pem, file }, origin)),
        Ok(_) => {
            findings.add(&origin, Problem::NoCertificate(field));
            None
        }
        Err(problem) => {
            findings.add(&origin, Problem::File { field, problem });
            None
        }
    }
}

/// What the caller really gave.
pub(super) fn given<T: Given>(value: &Option<T>) -> Option<&T> {
    value.as_ref().filter(|value| value.is_given())
}

pub(super) fn overriding<T: Given + Clone>(value: &Option<T>) -> Option<Sourced<T>> {
    given(value).map(|value| Sourced::new(value.clone(), Origin::Override))
}

pub(super) fn overriding_path(path: &Option<PathBuf>, env: &dyn Env) -> Option<Sourced<PathBuf>> {
    let from_here = |path: &PathBuf| paths::seen_from(env.current_dir().as_deref(), path);
    given(path).map(|path| Sourced::new(from_here(path), Origin::Override))
}
