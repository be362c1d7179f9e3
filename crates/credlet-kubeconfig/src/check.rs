use credlet_api::kubeconfig::NamedEntry;

use super::cluster::ClusterDraft;
use super::merged::{ConfigEntry, Kubeconfig, LoadedFile};
use super::user::UserDraft;
use super::validation::{ConfigProblem, ConfigSubject, ProblemCollector, ValidationError};

impl Kubeconfig {
    /// Validates all entries of all files, including unused ones and those that an earlier file overrides. Returns the
    /// problems in the order of the files. Reads the files that entries refer to.
    pub fn check(&self) -> Vec<ValidationError> {
        let mut errors = Vec::new();
        if let Some(name) = self.current_context()
            && self.context(name.value).is_none()
        {
            let mut problems = ProblemCollector { subject: ConfigSubject::Config, errors: &mut errors };
            problems.add(&name.origin, ConfigProblem::NoSuchContext);
        }
        for file in &self.files {
            let config = &file.config;
            for context in &config.contexts {
                self.check_context(&ConfigEntry::new(file, context), &mut errors);
            }
            for cluster in &config.clusters {
                check_name(file, cluster, ConfigSubject::Cluster(String::new()), &mut errors);
                ClusterDraft::of(&ConfigEntry::new(file, cluster)).finish(&mut errors);
            }
            for user in &config.users {
                check_name(file, user, ConfigSubject::User(String::new()), &mut errors);
                UserDraft::of(&ConfigEntry::new(file, user)).finish(&mut errors);
            }
        }
        errors
    }

    fn check_context(
        &self,
        entry: &ConfigEntry<'_, credlet_api::kubeconfig::ContextSection>,
        errors: &mut Vec<ValidationError>,
    ) {
        let (file, context) = (entry.file, entry.item());
        let mut problems = ProblemCollector { subject: ConfigSubject::Context(entry.name().to_owned()), errors };
        if entry.name().is_empty() {
            problems.add(&entry.origin(), ConfigProblem::NoName);
        }
        match file.sourced(&context.cluster) {
            None => problems.add(&entry.origin(), ConfigProblem::NoCluster),
            Some(name) if self.cluster(name.value).is_none() => {
                problems.add(&name.origin, ConfigProblem::NoSuchCluster { name: name.value.clone() });
            }
            Some(_) => {}
        }
        match file.sourced(&context.user) {
            None => problems.add(&entry.origin(), ConfigProblem::NoUser),
            Some(name) if self.user(name.value).is_none() => {
                problems.add(&name.origin, ConfigProblem::NoSuchUser { name: name.value.clone() });
            }
            Some(_) => {}
        }
        if let Some(name) = file.sourced(&context.namespace).filter(|name| !is_dns_label(name.value)) {
            problems.add(&name.origin, ConfigProblem::Namespace);
        }
    }
}

fn check_name<T>(file: &LoadedFile, entry: &NamedEntry<T>, subject: ConfigSubject, errors: &mut Vec<ValidationError>) {
    if entry.name.is_empty() {
        ProblemCollector { subject, errors }.add(&file.origin(entry.line), ConfigProblem::NoName);
    }
}

/// Whether the name is a DNS label (RFC 1123): 1 to 63 of `a-z0-9-`, not beginning or ending with `-`.
fn is_dns_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !name.starts_with('-')
        && !name.ends_with('-')
}
