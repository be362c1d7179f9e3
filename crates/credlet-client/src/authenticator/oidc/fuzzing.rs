//! Entry points for `fuzz/fuzz_targets` into private parsers. Not part of the public API.

use credlet_api::Secret;
use credlet_api::kubeconfig::KubeconfigFile;
use zeroize::Zeroizing;

use super::edit;

/// Replaces the value of `key` in the `auth-provider` of this user, as after a refresh. Returns `None` if the kubeconfig cannot be
/// edited.
pub fn replace_auth_provider_value(text: &str, user: &str, key: &str, value: &Secret) -> Option<Zeroizing<String>> {
    let mut config = KubeconfigFile::decode(text.as_bytes()).ok()?;
    let line = *edit::provider(&mut config, user)?.config_lines.get(key)?;
    edit::replace(text, user, key, line, value)
}
