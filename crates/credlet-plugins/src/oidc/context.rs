//! The flags of a kubeconfig's plugin, so that a person need not write them again.

use std::ffi::OsString;
use std::path::Path;

use credlet_api::Secret;
use credlet_api::kubeconfig::ExecSection;
use credlet_api::plugin::Failure;
use credlet_client::kubeconfig::{Kubeconfig, LoadingRules};
use credlet_core::Env;

use super::settings::CLIENT_SECRET_ENV;

/// What a context says about its login.
pub(super) struct Known {
    /// The words after `get-token`.
    pub(super) flags: Vec<OsString>,
    /// The client's secret, if it is in the plugin's environment.
    pub(super) client_secret: Option<Secret>,
}

/// Of this context, or of the current one; in this file, or where kubectl would look.
pub(super) fn known(context: Option<&str>, file: Option<&Path>, env: &dyn Env) -> Result<Known, Failure> {
    let rules = LoadingRules::from_env(env);
    let rules = if let Some(file) = file { rules.explicit(file) } else { rules };
    let config = rules.load(env).map_err(|error| Failure::new("the kubeconfig cannot be read").because(&error))?;
    let name = match context {
        Some(name) => name.to_owned(),
        None => config.current_context().ok_or_else(|| Failure::new("no context is set"))?.value.to_owned(),
    };
    let exec = plugin(&config, &name)?;
    // Behind a cache it is not the command, but its own verb is there all the same.
    let verb = exec.args.iter().position(|word| word.expose() == "get-token");
    let verb = verb.ok_or_else(|| {
        let command = &exec.command.value;
        Failure::new(format!("the plugin of context {name:?} is `{command}`, and it is not asked to `get-token`"))
    })?;
    let flags = exec.args[verb + 1..].iter().map(|word| word.expose().into()).collect();
    let secret = exec.env.iter().find(|variable| variable.name.value == CLIENT_SECRET_ENV);
    Ok(Known { flags, client_secret: secret.map(|variable| variable.value.clone()) })
}

fn plugin<'a>(config: &'a Kubeconfig, name: &str) -> Result<&'a ExecSection, Failure> {
    let context = config.context(name).ok_or_else(|| Failure::new(format!("there is no context {name:?}")))?;
    let user = config.user(&context.item().user.value);
    let exec = user.and_then(|user| user.item().exec.as_ref());
    exec.map(|exec| &exec.value).ok_or_else(|| Failure::new(format!("the user of context {name:?} has no exec plugin")))
}
