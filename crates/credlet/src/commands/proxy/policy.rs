//! What a proxy passes on, by its arguments.

use credlet_proxy::policy::{Allow, Deny, Policy};

/// Rules for what is passed on. Without any, what the user may do is the API server's to say.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PolicyArgs {
    /// Pass on only what changes nothing: no exec, attach, port-forward or proxy either, whatever their method
    #[arg(long)]
    read_only: bool,
    /// Do not pass on these: exec, attach, port-forward, proxy, debug, token, impersonate
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    deny: Vec<Deny>,
    /// Pass on only this, and what other --allow say: verbs and a path, `get,list /api/v1/namespaces/shop/**`; or
    /// `discovery`
    #[arg(long, value_name = "VERBS PATH")]
    allow: Vec<Allow>,
}

impl PolicyArgs {
    /// These rules, and who set them, for whoever is refused by one.
    pub(crate) fn policy(&self, set_by: &str) -> Policy {
        let mut policy = Policy::new(set_by);
        policy.read_only = self.read_only;
        (policy.deny, policy.allow) = (self.deny.clone(), self.allow.clone());
        policy
    }
}
