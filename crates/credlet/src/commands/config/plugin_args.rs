//! A plugin's arguments, to be looked at.

use credlet_api::scrub;

const REDACTED: &str = "[redacted]";

/// Parts of the names of flags whose values are nobody's business.
const SECRET: [&str; 6] = ["secret", "password", "passwd", "token", "credential", "key"];

/// The arguments without what is a secret by the name of its flag or by its looks.
pub(super) fn masked(args: &[String]) -> Vec<String> {
    let mut masked = Vec::with_capacity(args.len());
    let mut value_of_secret = false;
    for arg in args {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg.as_str(), None),
        };
        let is_flag = arg.starts_with('-');
        let is_secret = is_flag && SECRET.iter().any(|part| name.to_ascii_lowercase().contains(part));
        masked.push(match value {
            Some(_) if is_secret => format!("{name}={REDACTED}"),
            None if value_of_secret && !is_flag => REDACTED.to_owned(),
            _ => scrub(arg, []),
        });
        value_of_secret = is_secret && value.is_none();
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(args: &[&str]) -> String {
        masked(&args.iter().map(ToString::to_string).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn values_of_flags_that_sound_secret_are_masked() {
        assert_eq!(shown(&["login", "--oidc-client-secret=hunter2"]), "login --oidc-client-secret=[redacted]");
        assert_eq!(shown(&["--Password", "hunter2", "x"]), "--Password [redacted] x");
        assert_eq!(shown(&["--token", "--verbose", "x"]), "--token --verbose x");
    }

    #[test]
    fn what_looks_like_a_credential_is_masked_wherever_it_stands() {
        assert_eq!(shown(&["k8s-aws-v1.aHR0cHM6Ly9zdHM"]), "[redacted]");
    }

    #[test]
    fn the_rest_stays() {
        let args = ["eks", "get-token", "--cluster-name", "blue", "--region=eu-west-1"];
        assert_eq!(shown(&args), args.join(" "));
    }
}
