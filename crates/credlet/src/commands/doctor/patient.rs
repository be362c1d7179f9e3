//! Who is examined.

use std::collections::HashSet;

use credlet_api::exec::InteractiveMode;
use credlet_client::kubeconfig::{Exec, Resolved};
use credlet_core::SystemEnv;

use crate::args::Global;
use crate::error::CliError;

/// A user on a cluster.
pub(super) struct Patient {
    pub(super) context: Option<String>,
    pub(super) user: String,
    /// What the kubeconfig says of them, or what is wrong with that.
    pub(super) resolved: Result<Resolved, CliError>,
}

/// The one that the flags and files choose.
pub(super) fn one(global: &Global) -> Result<Vec<Patient>, CliError> {
    let resolved = global.resolve()?;
    let context = resolved.context.as_ref().map(|context| context.value.clone());
    Ok(vec![Patient { context, user: resolved.user.clone(), resolved: Ok(resolved) }])
}

/// Every user with a plugin, on every cluster that a context uses it for.
pub(super) fn all(global: &Global) -> Result<Vec<Patient>, CliError> {
    let kubeconfig = global.kubeconfig()?;
    let mut seen = HashSet::new();
    let mut patients = Vec::new();
    for context in kubeconfig.contexts() {
        let (user, cluster) = (&context.item().user.value, &context.item().cluster.value);
        let has_plugin = kubeconfig.user(user).is_some_and(|user| user.item().exec.is_some());
        if !has_plugin || !seen.insert((user, cluster)) {
            continue;
        }
        let mut overrides = global.overrides();
        overrides.context = Some(context.name().to_owned());
        let resolved = kubeconfig.resolve(&overrides, &SystemEnv).map_err(CliError::from);
        patients.push(Patient { context: Some(context.name().to_owned()), user: user.clone(), resolved });
    }
    if patients.is_empty() {
        return Err(CliError::usage("no context uses a user with an `exec` section")
            .hint("`credlet doctor` without --all examines the current user, whatever their credential"));
    }
    Ok(patients)
}

impl Patient {
    pub(super) fn exec(&self) -> Option<&Exec> {
        self.resolved.as_ref().ok()?.identity.exec_in_use()
    }

    pub(super) fn command(&self) -> Option<&str> {
        self.exec().map(|exec| exec.config.command.as_str())
    }

    /// Whether the plugin may talk to a person.
    pub(super) fn may_talk(&self) -> bool {
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
