//! Policy flags.

use credlet_proxy::policy::{AllowRule, DenyRule, Policy};

/// Restricts the requests that a proxy forwards. Default: none, the API server decides.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PolicyArgs {
    /// Forward only read requests; rejects exec, attach, port-forward and proxy with any method
    #[arg(long)]
    read_only: bool,
    /// Reject these requests: exec, attach, port-forward, proxy, debug, token, impersonate
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    deny: Vec<DenyRule>,
    /// Forward only these requests (repeatable): verbs and a path, `get,list /api/v1/namespaces/shop/**`, or
    /// `discovery`
    #[arg(long, value_name = "VERBS PATH")]
    allow: Vec<AllowRule>,
}

impl PolicyArgs {
    /// The policy. `set_by` names its origin in error messages.
    pub(crate) fn policy(&self, set_by: &str) -> Policy {
        let mut policy = Policy::new(set_by);
        policy.read_only = self.read_only;
        (policy.deny, policy.allow) = (self.deny.clone(), self.allow.clone());
        policy
    }
}
