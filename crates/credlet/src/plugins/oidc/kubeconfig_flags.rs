//! Plugin flags of a kubeconfig, for `login --context` and `logout --context`.

use std::ffi::OsString;
use std::path::Path;

use credlet_api::Secret;
use credlet_api::kubeconfig::ExecSection;
use credlet_exec::Env;
use credlet_kubeconfig::{Kubeconfig, LoadingRules};
use credlet_plugin::Failure;

use credlet_oidc::CLIENT_SECRET_ENV;

/// The OIDC flags of the plugin of a context.
pub(super) struct KubeconfigFlags {
    /// The arguments after `get-token`.
    pub(super) flags: Vec<OsString>,
    /// Client secret, if it is in the plugin's environment.
    pub(super) client_secret: Option<Secret>,
}

impl KubeconfigFlags {
    /// Reads the flags of `context`, or of the current context, in `file`, or in the files that kubectl would read.
    pub(super) fn load(context: Option<&str>, file: Option<&Path>, env: &dyn Env) -> Result<Self, Failure> {
        let rules = LoadingRules::from_env(env);
        let rules = if let Some(file) = file { rules.explicit(file) } else { rules };
        let config = rules.load(env).map_err(|error| Failure::new("failed to read the kubeconfig").because(&error))?;
        let name = match context {
            Some(name) => name.to_owned(),
            None => config.current_context().ok_or_else(|| Failure::new("no context is set"))?.value.to_owned(),
        };
        let exec = plugin(&config, &name)?;
        // With a cache in front of the plugin, `get-token` is still among the arguments.
        let subcommand = exec.args.iter().position(|arg| arg.expose() == "get-token");
        let subcommand = subcommand.ok_or_else(|| {
            let command = &exec.command.value;
            Failure::new(format!(
                "the plugin of context {name:?} is `{command}` without the required argument `get-token`"
            ))
        })?;
        let flags = exec.args[subcommand + 1..].iter().map(|arg| arg.expose().into()).collect();
        let secret = exec.env.iter().find(|variable| variable.name.value == CLIENT_SECRET_ENV);
        Ok(Self { flags, client_secret: secret.map(|variable| variable.value.clone()) })
    }
}

fn plugin<'a>(config: &'a Kubeconfig, name: &str) -> Result<&'a ExecSection, Failure> {
    let context =
        config.context(name).ok_or_else(|| Failure::new(format!("context {name:?} not found in the kubeconfig")))?;
    let user = config.user(&context.item().user.value);
    let exec = user.and_then(|user| user.item().exec.as_ref());
    exec.map(|exec| &exec.value).ok_or_else(|| Failure::new(format!("the user of context {name:?} has no exec plugin")))
}
