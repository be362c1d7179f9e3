use credlet_api::kubeconfig::Named;

use super::cluster::ClusterDraft;
use super::merged::{Entry, Kubeconfig, Loaded};
use super::mistake::{Findings, Mistake, Problem, Subject};
use super::user::UserDraft;

impl Kubeconfig {
    /// Checks everything in all files: what is used and what is not, and what an earlier file hides. The mistakes come
    /// in the order of the files. Files that entries refer to are read.
    pub fn check(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        if let Some(name) = self.current_context()
            && self.context(name.value).is_none()
        {
            let mut findings = Findings { subject: Subject::Config, mistakes: &mut mistakes };
            findings.add(&name.origin, Problem::NoSuchContext);
        }
        for file in &self.files {
            let config = &file.config;
            for context in &config.contexts {
                self.check_context(&Entry::new(file, context), &mut mistakes);
            }
            for cluster in &config.clusters {
                named(file, cluster, Subject::Cluster(String::new()), &mut mistakes);
                ClusterDraft::of(&Entry::new(file, cluster)).finish(&mut mistakes);
            }
            for user in &config.users {
                named(file, user, Subject::User(String::new()), &mut mistakes);
                UserDraft::of(&Entry::new(file, user)).finish(&mut mistakes);
            }
        }
        mistakes
    }

    fn check_context(&self, entry: &Entry<'_, credlet_api::kubeconfig::Context>, mistakes: &mut Vec<Mistake>) {
        let (file, context) = (entry.file, entry.item());
        let mut findings = Findings { subject: Subject::Context(entry.name().to_owned()), mistakes };
        if entry.name().is_empty() {
            findings.add(&entry.origin(), Problem::NoName);
        }
        match file.sourced(&context.cluster) {
            None => findings.add(&entry.origin(), Problem::NoCluster),
            Some(name) if self.cluster(name.value).is_none() => {
                findings.add(&name.origin, Problem::NoSuchCluster { name: name.value.clone() });
            }
            Some(_) => {}
        }
        match file.sourced(&context.user) {
            None => findings.add(&entry.origin(), Problem::NoUser),
            Some(name) if self.user(name.value).is_none() => {
                findings.add(&name.origin, Problem::NoSuchUser { name: name.value.clone() });
            }
            Some(_) => {}
        }
        if let Some(name) = file.sourced(&context.namespace).filter(|name| !is_dns_label(name.value)) {
            findings.add(&name.origin, Problem::Namespace);
        }
    }
}

fn named<T>(file: &Loaded, entry: &Named<T>, subject: Subject, mistakes: &mut Vec<Mistake>) {
    if entry.name.is_empty() {
        Findings { subject, mistakes }.add(&file.origin(entry.line), Problem::NoName);
    }
}

/// At most 63 of `a-z0-9-`, neither beginning nor ending with `-`.
fn is_dns_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && name.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !name.starts_with('-')
        && !name.ends_with('-')
}
