//! The fields of each section of a kubeconfig.

use std::collections::BTreeMap;

use serde::de::MapAccess;

use super::{
    AuthInfo, AuthProviderConfig, ClusterSection, ContextSection, ExecSection, ExecSectionEnvVar, KubeconfigFile,
    Located, Preferences,
};
use crate::Secret;
use crate::wire::document::{DecodeObject, MemberValue, decode_object};

/// The whole document, with `kind` and `apiVersion`.
#[derive(Default)]
pub(super) struct KubeconfigDocument {
    pub(super) kind: Located<String>,
    pub(super) api_version: Located<String>,
    pub(super) config: KubeconfigFile,
}

decode_object! { KubeconfigDocument, "",
    "kind" => located_string(kind),
    "apiVersion" => located_string(api_version),
    "current-context" => located_string(config.current_context),
    "clusters" => list(config.clusters),
    "users" => list(config.users),
    "contexts" => list(config.contexts),
    "extensions" => list(config.extensions),
    "preferences" => section(config.preferences),
}

decode_object! { Preferences, "preferences.",
    "colors" => located_flag(colors),
    "extensions" => list(extensions),
}

decode_object! { ClusterSection, "clusters[].cluster.",
    "server" => located_secret(server),
    "tls-server-name" => located_string(tls_server_name),
    "insecure-skip-tls-verify" => located_flag(insecure_skip_tls_verify),
    "certificate-authority" => located_string(certificate_authority),
    "certificate-authority-data" => located_data(certificate_authority_data),
    "proxy-url" => located_secret(proxy_url),
    "disable-compression" => located_flag(disable_compression),
    "extensions" => list(extensions),
}

decode_object! { ContextSection, "contexts[].context.",
    "cluster" => located_string(cluster),
    "user" => located_string(user),
    "namespace" => located_string(namespace),
    "extensions" => list(extensions),
}

decode_object! { AuthInfo, "users[].user.",
    "client-certificate" => located_string(client_certificate),
    "client-certificate-data" => located_data(client_certificate_data),
    "client-key" => located_string(client_key),
    "client-key-data" => located_data(client_key_data),
    "token" => located_secret(token),
    "tokenFile" => located_string(token_file),
    "as" => located_string(impersonate),
    "as-uid" => located_string(impersonate_uid),
    "as-groups" => located_groups(impersonate_groups),
    "as-user-extra" => located_lists(impersonate_user_extra),
    "username" => located_string(username),
    "password" => located_secret(password),
    "auth-provider" => located_object(auth_provider),
    "exec" => located_object(exec),
    "extensions" => list(extensions),
}

impl DecodeObject for AuthProviderConfig {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "name" => value.located_string("users[].user.auth-provider.name", &mut self.name),
            "config" => {
                let mut settings = AuthProviderSettings::default();
                value.section(AUTH_PROVIDER_CONFIG, &mut settings)?;
                (self.config, self.config_lines) = (settings.values, settings.lines);
                Ok(())
            }
            _ => value.skip(),
        }
    }
}

const AUTH_PROVIDER_CONFIG: &str = "users[].user.auth-provider.config";

/// The mapping `config`, with keys that depend on the auth provider.
#[derive(Default)]
struct AuthProviderSettings {
    values: BTreeMap<String, Secret>,
    lines: BTreeMap<String, usize>,
}

impl DecodeObject for AuthProviderSettings {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        let mut text = Located::default();
        value.located_secret(AUTH_PROVIDER_CONFIG, &mut text)?;
        self.lines.insert(name.to_owned(), text.line);
        self.values.insert(name.to_owned(), text.value);
        Ok(())
    }
}

decode_object! { ExecSection, "users[].user.exec.",
    "command" => located_string(command),
    "args" => located_strings(args),
    "env" => list(env),
    "apiVersion" => located_string(api_version),
    "installHint" => located_string(install_hint),
    "provideClusterInfo" => located_flag(provide_cluster_info),
    "interactiveMode" => located_string(interactive_mode),
}

decode_object! { ExecSectionEnvVar, "users[].user.exec.env[].",
    "name" => located_string(name),
    "value" => secret(value),
}
