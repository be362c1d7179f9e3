use credlet_api::exec;
use credlet_api::kubeconfig::ContextSection;
use credlet_platform::Env;

use super::cluster::{ClusterDraft, given};
use super::error::KubeconfigError;
use super::in_cluster::InClusterConfig;
use super::merged::{ConfigEntry, Kubeconfig};
use super::origin::{Sourced, ValueOrigin};
use super::overrides::ConfigOverrides;
use super::resolved::{ConfigWarning, ResolvedConfig, ResolvedExec, UserCredentials};
use super::user::{ResolvedUser, UserDraft};
use super::validation::{ConfigProblem, ConfigSubject, ValidationError};

impl Kubeconfig {
    /// Selects the context with its cluster and user, applies `overrides`, and validates the entries in use. If nothing is
    /// configured and the process runs in a pod, its service account is used.
    ///
    /// Reads certificates, keys and authorities from their files. A `tokenFile` is read once to validate it.
    ///
    /// # Errors
    /// All problems of the entries in use.
    pub fn resolve(&self, overrides: &ConfigOverrides, env: &dyn Env) -> Result<ResolvedConfig, KubeconfigError> {
        let selection = self.select(overrides)?;
        let pod = InClusterConfig::find(self.service_account.as_deref(), env);
        let mut warnings = Vec::new();
        let mut errors = Vec::new();

        let (cluster, user) = match &selection.cluster {
            // An invalid selection is an error and never falls back to the service account.
            Some(name) => {
                let user = self.user_draft(&selection, &mut warnings);
                (self.cluster(name.value).map_or_else(|| unknown_cluster(name), |entry| ClusterDraft::of(&entry)), user)
            }
            // A server or a user without a context: not the in-cluster configuration.
            None if given(&overrides.server).is_some() || selection.is_user_only() => {
                (ClusterDraft::empty("", ValueOrigin::Override), self.user_draft(&selection, &mut warnings))
            }
            None if selection.context.is_some() => return Err(selection.context_error(ConfigProblem::NoCluster)),
            None => {
                let pod = pod.as_ref().ok_or_else(|| self.not_configured())?;
                let (cluster, warning) = pod.cluster();
                warnings.extend(warning);
                (cluster, pod.user(overrides))
            }
        };
        let (cluster_name, user_name) = (cluster.name.clone(), user.name.clone());
        let resolved_user = user.with(overrides, env).finish(&mut errors);
        let endpoint = match &selection.cluster {
            // With a server override the cluster need not exist.
            Some(name) if self.cluster(name.value).is_none() && given(&overrides.server).is_none() => {
                errors.push(
                    selection
                        .validation_error(&name.origin, ConfigProblem::NoSuchCluster { name: name.value.to_owned() }),
                );
                None
            }
            _ => cluster.with(overrides, env).finish(&mut errors),
        };
        let (Some(endpoint), Some(resolved_user)) = (endpoint, resolved_user) else {
            return Err(KubeconfigError::Invalid { errors });
        };

        let ResolvedUser { header, certificate, exec, auth_provider, impersonation, warnings: user_warnings } =
            resolved_user;
        warnings.extend(user_warnings);
        let mut resolved = ResolvedConfig {
            namespace: namespace(&selection, overrides, pod.as_ref(), env),
            context: selection.context.map(|(name, _)| name),
            cluster: cluster_name,
            user: user_name,
            server: endpoint.server,
            tls: endpoint.tls,
            proxy_url: endpoint.proxy_url,
            disable_compression: endpoint.disable_compression,
            identity: UserCredentials::default(),
            impersonation,
            warnings,
        };
        let cluster = exec::Cluster { config: endpoint.config, ..resolved.to_cluster() };
        let exec = exec.map(|exec| exec.map(|config| ResolvedExec { config, cluster }));
        let identity = UserCredentials { header, certificate, exec, auth_provider };
        if endpoint.https || identity.is_anonymous() {
            resolved.identity = identity;
        } else {
            let origin = resolved.server.origin.clone();
            resolved.warnings.push(ConfigWarning::PlainHttp { origin });
        }
        Ok(resolved)
    }

    fn select<'a>(&'a self, overrides: &'a ConfigOverrides) -> Result<ContextSelection<'a>, KubeconfigError> {
        let requested = given(&overrides.context).map(|name| Sourced::new(&**name, ValueOrigin::Override));
        let context = match requested.or_else(|| self.current_context()) {
            None => None,
            Some(Sourced { value: name, origin }) => match self.context(name) {
                Some(entry) => Some((Sourced::new(name.to_owned(), origin), entry)),
                None => return Err(KubeconfigError::NoSuchContext { name: name.to_owned(), origin }),
            },
        };
        let of_context = |field: fn(&ContextSection) -> &credlet_api::kubeconfig::Located<String>| {
            let (_, entry) = context.as_ref()?;
            entry.file.sourced(field(entry.item())).map(|name| name.map(|name| &**name))
        };
        let requested = given(&overrides.cluster).map(|name| Sourced::new(&**name, ValueOrigin::Override));
        if let Some(Sourced { value, origin }) = requested.as_ref().filter(|name| self.cluster(name.value).is_none()) {
            return Err(KubeconfigError::NoSuchCluster { name: (*value).to_owned(), origin: origin.clone() });
        }
        let cluster = requested.or_else(|| of_context(|context| &context.cluster));
        let requested = given(&overrides.user).map(|name| Sourced::new(&**name, ValueOrigin::Override));
        if let Some(Sourced { value, origin }) = requested.as_ref().filter(|name| self.user(name.value).is_none()) {
            return Err(KubeconfigError::NoSuchUser { name: (*value).to_owned(), origin: origin.clone() });
        }
        let user = requested.or_else(|| of_context(|context| &context.user));
        Ok(ContextSelection { context, cluster, user })
    }

    fn user_draft<'a>(&'a self, selection: &ContextSelection<'a>, warnings: &mut Vec<ConfigWarning>) -> UserDraft<'a> {
        let Some(Sourced { value: name, origin }) = &selection.user else { return UserDraft::empty("") };
        match self.user(name) {
            Some(entry) => UserDraft::of(&entry),
            None => {
                warnings.push(ConfigWarning::UserNotFound { name: (*name).to_owned(), origin: origin.clone() });
                UserDraft::empty(name)
            }
        }
    }

    fn not_configured(&self) -> KubeconfigError {
        let has_contexts = self.contexts().next().is_some();
        KubeconfigError::NotConfigured { missing: self.missing_files().to_vec(), has_contexts }
    }
}

/// Names selected by the overrides or the context.
struct ContextSelection<'a> {
    context: Option<(Sourced<String>, ConfigEntry<'a, ContextSection>)>,
    cluster: Option<Sourced<&'a str>>,
    user: Option<Sourced<&'a str>>,
}

impl ContextSelection<'_> {
    /// Whether only a user is selected.
    fn is_user_only(&self) -> bool {
        self.context.is_none() && self.user.is_some()
    }

    fn validation_error(&self, origin: &ValueOrigin, problem: ConfigProblem) -> ValidationError {
        let context = self.context.as_ref().map(|(name, _)| name.value.clone()).unwrap_or_default();
        ValidationError { subject: ConfigSubject::Context(context), origin: origin.clone(), problem }
    }

    fn context_error(&self, problem: ConfigProblem) -> KubeconfigError {
        let origin = self.context.as_ref().map_or(ValueOrigin::Default, |(_, entry)| entry.origin());
        KubeconfigError::Invalid { errors: vec![self.validation_error(&origin, problem)] }
    }
}

fn unknown_cluster(name: &Sourced<&str>) -> ClusterDraft {
    ClusterDraft::empty(name.value, name.origin.clone())
}

fn namespace(
    selection: &ContextSelection<'_>,
    overrides: &ConfigOverrides,
    pod: Option<&InClusterConfig<'_>>,
    env: &dyn Env,
) -> Sourced<String> {
    let requested = given(&overrides.namespace).map(|name| Sourced::new(name.clone(), ValueOrigin::Override));
    let of_context = || {
        let (_, entry) = selection.context.as_ref()?;
        entry.file.owned(&entry.item().namespace)
    };
    // Also with a kubeconfig: in a pod its namespace is the default, as in client-go.
    let of_pod = || pod?.namespace(env).map(|name| Sourced::new(name, ValueOrigin::InCluster));
    requested
        .or_else(of_context)
        .or_else(of_pod)
        .unwrap_or_else(|| Sourced::new("default".to_owned(), ValueOrigin::Default))
}
