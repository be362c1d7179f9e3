use credlet_api::exec;
use credlet_api::kubeconfig::Context;
use credlet_core::Env;

use super::cluster::{ClusterDraft, Endpoint, given};
use super::error::KubeconfigError;
use super::in_cluster::InCluster;
use super::merged::{Entry, Kubeconfig};
use super::mistake::{Mistake, Problem, Subject};
use super::origin::{Origin, Sourced};
use super::overrides::Overrides;
use super::resolved::{Exec, Identity, Resolved, Warning};
use super::user::{Person, UserDraft};

impl Kubeconfig {
    /// Picks the context, its cluster and its user, lays `overrides` over them, and checks what is used and nothing
    /// else. Where nothing is configured and this is a pod, its service account is used.
    ///
    /// Certificates, keys and authorities in files are read here; a `tokenFile` is looked at, to be read again later.
    ///
    /// # Errors
    /// All mistakes in what is used, at once.
    pub fn resolve(&self, overrides: &Overrides, env: &dyn Env) -> Result<Resolved, KubeconfigError> {
        let choice = self.choose(overrides)?;
        let pod = InCluster::find(self.service_account.as_deref(), env);
        let mut warnings = Vec::new();
        let mut mistakes = Vec::new();

        let (cluster, user) = match &choice.cluster {
            // Somebody chose: a mistake in that is never answered with another identity.
            Some(name) => {
                let user = self.user_draft(&choice, &mut warnings);
                (self.cluster(name.value).map_or_else(|| unknown(name), |entry| ClusterDraft::of(&entry)), user)
            }
            // Whoever is somebody, or knows the server, does not mean the pod.
            None if given(&overrides.server).is_some() || choice.is_personal() => {
                (ClusterDraft::empty("", Origin::Override), self.user_draft(&choice, &mut warnings))
            }
            None if choice.context.is_some() => return Err(choice.leads_nowhere(Problem::NoCluster)),
            None => {
                let pod = pod.as_ref().ok_or_else(|| self.nothing())?;
                let (cluster, warning) = pod.cluster();
                warnings.extend(warning);
                (cluster, pod.user(overrides))
            }
        };
        let (cluster_name, user_name) = (cluster.name.clone(), user.name.clone());
        let person = user.with(overrides, env).finish(&mut mistakes);
        let endpoint = match &choice.cluster {
            // With an address from the caller there is nothing to miss.
            Some(name) if self.cluster(name.value).is_none() && given(&overrides.server).is_none() => {
                mistakes.push(choice.mistake(&name.origin, Problem::NoSuchCluster { name: name.value.to_owned() }));
                None
            }
            _ => cluster.with(overrides, env).finish(&mut mistakes),
        };
        let (Some(endpoint), Some(person)) = (endpoint, person) else {
            return Err(KubeconfigError::Invalid { mistakes });
        };

        let cluster = cluster_info(&endpoint);
        let Person { header, certificate, exec, auth_provider, impersonation, warnings: of_person } = person;
        warnings.extend(of_person);
        let exec = exec.map(|exec| exec.map(|config| Exec { config, cluster }));
        let mut identity = Identity { header, certificate, exec, auth_provider };
        if !endpoint.https && !identity.is_anonymous() {
            identity = Identity::default();
            warnings.push(Warning::PlainHttp { origin: endpoint.server.origin.clone() });
        }
        Ok(Resolved {
            namespace: namespace(&choice, overrides, pod.as_ref(), env),
            context: choice.context.map(|(name, _)| name),
            cluster: cluster_name,
            user: user_name,
            server: endpoint.server,
            tls: endpoint.tls,
            proxy_url: endpoint.proxy_url,
            disable_compression: endpoint.disable_compression,
            identity,
            impersonation,
            warnings,
        })
    }

    fn choose<'a>(&'a self, overrides: &'a Overrides) -> Result<Choice<'a>, KubeconfigError> {
        let asked = given(&overrides.context).map(|name| Sourced::new(&**name, Origin::Override));
        let context = match asked.or_else(|| self.current_context()) {
            None => None,
            Some(Sourced { value: name, origin }) => match self.context(name) {
                Some(entry) => Some((Sourced::new(name.to_owned(), origin), entry)),
                None => return Err(KubeconfigError::NoSuchContext { name: name.to_owned(), origin }),
            },
        };
        let of_context = |field: fn(&Context) -> &credlet_api::kubeconfig::Located<String>| {
            let (_, entry) = context.as_ref()?;
            entry.file.sourced(field(entry.item())).map(|name| name.map(|name| &**name))
        };
        let asked = given(&overrides.cluster).map(|name| Sourced::new(&**name, Origin::Override));
        if let Some(Sourced { value, origin }) = asked.as_ref().filter(|name| self.cluster(name.value).is_none()) {
            return Err(KubeconfigError::NoSuchCluster { name: (*value).to_owned(), origin: origin.clone() });
        }
        let cluster = asked.or_else(|| of_context(|context| &context.cluster));
        let asked = given(&overrides.user).map(|name| Sourced::new(&**name, Origin::Override));
        if let Some(Sourced { value, origin }) = asked.as_ref().filter(|name| self.user(name.value).is_none()) {
            return Err(KubeconfigError::NoSuchUser { name: (*value).to_owned(), origin: origin.clone() });
        }
        let user = asked.or_else(|| of_context(|context| &context.user));
        Ok(Choice { context, cluster, user })
    }

    fn user_draft<'a>(&'a self, choice: &Choice<'a>, warnings: &mut Vec<Warning>) -> UserDraft<'a> {
        let Some(Sourced { value: name, origin }) = &choice.user else { return UserDraft::empty("") };
        match self.user(name) {
            Some(entry) => UserDraft::of(&entry),
            None => {
                warnings.push(Warning::UserNotFound { name: (*name).to_owned(), origin: origin.clone() });
                UserDraft::empty(name)
            }
        }
    }

    fn nothing(&self) -> KubeconfigError {
        let has_contexts = self.contexts().next().is_some();
        KubeconfigError::Nothing { missing: self.missing_files().to_vec(), has_contexts }
    }
}

/// Whose names were chosen, by the caller or by a context.
struct Choice<'a> {
    context: Option<(Sourced<String>, Entry<'a, Context>)>,
    cluster: Option<Sourced<&'a str>>,
    user: Option<Sourced<&'a str>>,
}

impl Choice<'_> {
    /// The caller chose a user and nothing else.
    fn is_personal(&self) -> bool {
        self.context.is_none() && self.user.is_some()
    }

    fn mistake(&self, origin: &Origin, problem: Problem) -> Mistake {
        let context = self.context.as_ref().map(|(name, _)| name.value.clone()).unwrap_or_default();
        Mistake { subject: Subject::Context(context), origin: origin.clone(), problem }
    }

    fn leads_nowhere(&self, problem: Problem) -> KubeconfigError {
        let origin = self.context.as_ref().map_or(Origin::Default, |(_, entry)| entry.origin());
        KubeconfigError::Invalid { mistakes: vec![self.mistake(&origin, problem)] }
    }
}

fn unknown(name: &Sourced<&str>) -> ClusterDraft {
    ClusterDraft::empty(name.value, name.origin.clone())
}

fn namespace(
    choice: &Choice<'_>,
    overrides: &Overrides,
    pod: Option<&InCluster<'_>>,
    env: &dyn Env,
) -> Sourced<String> {
    let asked = given(&overrides.namespace).map(|name| Sourced::new(name.clone(), Origin::Override));
    let of_context = || {
        let (_, entry) = choice.context.as_ref()?;
        entry.file.owned(&entry.item().namespace)
    };
    // Also with a kubeconfig: a pod's own namespace is nearer than `default`.
    let of_pod = || pod?.namespace(env).map(|name| Sourced::new(name, Origin::InCluster));
    asked.or_else(of_context).or_else(of_pod).unwrap_or_else(|| Sourced::new("default".to_owned(), Origin::Default))
}

/// What a plugin is told.
fn cluster_info(endpoint: &Endpoint) -> exec::Cluster {
    let Endpoint { server, tls, proxy_url, disable_compression, config, .. } = endpoint;
    let authority = tls.certificate_authority.as_ref();
    exec::Cluster {
        server: server.value.clone(),
        tls_server_name: tls.server_name.as_ref().map(|name| name.value.clone()).unwrap_or_default(),
        insecure_skip_tls_verify: tls.insecure_skip_verify.value,
        certificate_authority_data: authority.map(|authority| authority.pem.clone()).unwrap_or_default(),
        proxy_url: proxy_url.as_ref().map(|url| url.value.clone()).unwrap_or_default(),
        disable_compression: disable_compression.value,
        config: config.clone(),
    }
}
