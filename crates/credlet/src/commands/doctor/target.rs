//! The users and clusters to check.

use std::collections::HashSet;

use credlet_api::exec::InteractiveMode;
use credlet_exec::SystemEnv;
use credlet_kubeconfig::{ResolvedConfig, ResolvedExec};

use crate::args::GlobalArgs;
use crate::error::CliError;

/// A user of the kubeconfig on a cluster.
pub(super) struct CheckTarget {
    pub(super) context: Option<String>,
    pub(super) user: String,
    /// The resolved kubeconfig, or the error in it.
    pub(super) resolved: Result<ResolvedConfig, CliError>,
}

/// The target that the flags and the kubeconfig select.
pub(super) fn one(global: &GlobalArgs) -> Result<Vec<CheckTarget>, CliError> {
    let resolved = global.resolve()?;
    let context = resolved.context.as_ref().map(|context| context.value.clone());
    Ok(vec![CheckTarget { context, user: resolved.user.clone(), resolved: Ok(resolved) }])
}

/// Returns every user with an exec plugin on every cluster that a context combines it with.
pub(super) fn all(global: &GlobalArgs) -> Result<Vec<CheckTarget>, CliError> {
    let kubeconfig = global.kubeconfig()?;
    let mut seen = HashSet::new();
    let mut targets = Vec::new();
    for context in kubeconfig.contexts() {
        let (user, cluster) = (&context.item().user.value, &context.item().cluster.value);
        let has_plugin = kubeconfig.user(user).is_some_and(|user| user.item().exec.is_some());
        if !has_plugin || !seen.insert((user, cluster)) {
            continue;
        }
        let mut overrides = global.overrides();
        overrides.context = Some(context.name().to_owned());
        let resolved = kubeconfig.resolve(&overrides, &SystemEnv).map_err(CliError::from);
        targets.push(CheckTarget { context: Some(context.name().to_owned()), user: user.clone(), resolved });
    }
    if targets.is_empty() {
        return Err(CliError::usage("no context uses a user with an `exec` section")
            .hint("run `credlet doctor` without --all to check the current user, with any kind of credential"));
    }
    Ok(targets)
}

impl CheckTarget {
    pub(super) fn exec(&self) -> Option<&ResolvedExec> {
        self.resolved.as_ref().ok()?.identity.exec_in_use()
    }

    pub(super) fn command(&self) -> Option<&str> {
        self.exec().map(|exec| exec.config.command.as_str())
    }

    /// Whether the plugin may use the terminal.
    pub(super) fn is_interactive(&self) -> bool {
        self.exec().is_some_and(|exec| exec.config.interactive_mode != InteractiveMode::Never)
    }

    pub(super) fn title(&self) -> String {
        let of = self.context.as_ref().map(|context| format!(" in context \"{context}\"")).unwrap_or_default();
        match self.user.as_str() {
            "" => format!("anonymous{of}"),
            user => format!("user \"{user}\"{of}"),
        }
    }
}
