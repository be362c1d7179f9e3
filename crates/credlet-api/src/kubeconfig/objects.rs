//! The fields of each section of a kubeconfig.

use std::collections::BTreeMap;

use serde::de::MapAccess;

use super::members::{data, entries, flag, object, secret, text, texts};
use super::{
    AuthInfo, AuthProviderConfig, ClusterSection, ContextSection, ExecSection, ExecSectionEnvVar, KubeconfigFile,
    Located, Preferences,
};
use crate::Secret;
use crate::wire::document::{DecodeObject, MemberValue};

/// The whole document, with `kind` and `apiVersion`.
#[derive(Default)]
pub(super) struct KubeconfigDocument {
    pub(super) kind: Located<String>,
    pub(super) api_version: Located<String>,
    pub(super) config: KubeconfigFile,
}

impl DecodeObject for KubeconfigDocument {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "kind" => text(value, "kind", &mut self.kind),
            "apiVersion" => text(value, "apiVersion", &mut self.api_version),
            "current-context" => text(value, "current-context", &mut self.config.current_context),
            "clusters" => entries(value, "clusters", &mut self.config.clusters),
            "users" => entries(value, "users", &mut self.config.users),
            "contexts" => entries(value, "contexts", &mut self.config.contexts),
            "extensions" => entries(value, "extensions", &mut self.config.extensions),
            "preferences" => {
                let found = object::<Preferences, A>(value, "preferences")?;
                self.config.preferences = found.map(|found| found.value).unwrap_or_default();
                Ok(())
            }
            _ => value.skip(),
        }
    }
}

impl DecodeObject for Preferences {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "colors" => flag(value, "preferences.colors", &mut self.colors),
            "extensions" => entries(value, "preferences.extensions", &mut self.extensions),
            _ => value.skip(),
        }
    }
}

impl DecodeObject for ClusterSection {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "server" => secret(value, "clusters[].cluster.server", &mut self.server),
            "tls-server-name" => text(value, "clusters[].cluster.tls-server-name", &mut self.tls_server_name),
            "insecure-skip-tls-verify" => {
                flag(value, "clusters[].cluster.insecure-skip-tls-verify", &mut self.insecure_skip_tls_verify)
            }
            "certificate-authority" => {
                text(value, "clusters[].cluster.certificate-authority", &mut self.certificate_authority)
            }
            "certificate-authority-data" => {
                data(value, "clusters[].cluster.certificate-authority-data", &mut self.certificate_authority_data)
            }
            "proxy-url" => secret(value, "clusters[].cluster.proxy-url", &mut self.proxy_url),
            "disable-compression" => {
                flag(value, "clusters[].cluster.disable-compression", &mut self.disable_compression)
            }
            "extensions" => entries(value, "clusters[].cluster.extensions", &mut self.extensions),
            _ => value.skip(),
        }
    }
}

impl DecodeObject for ContextSection {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "cluster" => text(value, "contexts[].context.cluster", &mut self.cluster),
            "user" => text(value, "contexts[].context.user", &mut self.user),
            "namespace" => text(value, "contexts[].context.namespace", &mut self.namespace),
            "extensions" => entries(value, "contexts[].context.extensions", &mut self.extensions),
            _ => value.skip(),
        }
    }
}

impl DecodeObject for AuthInfo {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "client-certificate" => text(value, "users[].user.client-certificate", &mut self.client_certificate),
            "client-certificate-data" => {
                data(value, "users[].user.client-certificate-data", &mut self.client_certificate_data)
            }
            "client-key" => text(value, "users[].user.client-key", &mut self.client_key),
            "client-key-data" => data(value, "users[].user.client-key-data", &mut self.client_key_data),
            "token" => secret(value, "users[].user.token", &mut self.token),
            "tokenFile" => text(value, "users[].user.tokenFile", &mut self.token_file),
            "as" => text(value, "users[].user.as", &mut self.impersonate),
            "as-uid" => text(value, "users[].user.as-uid", &mut self.impersonate_uid),
            "as-groups" => {
                let Located { value: groups, line } = texts(value, "users[].user.as-groups")?;
                let value = groups.iter().map(|group| group.expose().to_owned()).collect();
                self.impersonate_groups = Located { value, line };
                Ok(())
            }
            "as-user-extra" => {
                let line = value.line();
                let mut extra = BTreeMap::new();
                value.string_lists("users[].user.as-user-extra", &mut extra)?;
                self.impersonate_user_extra = Located { value: extra, line };
                Ok(())
            }
            "username" => text(value, "users[].user.username", &mut self.username),
            "password" => secret(value, "users[].user.password", &mut self.password),
            "auth-provider" => object(value, "users[].user.auth-provider").map(|found| self.auth_provider = found),
            "exec" => object(value, "users[].user.exec").map(|found| self.exec = found),
            "extensions" => entries(value, "users[].user.extensions", &mut self.extensions),
            _ => value.skip(),
        }
    }
}

impl DecodeObject for AuthProviderConfig {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "name" => text(value, "users[].user.auth-provider.name", &mut self.name),
            "config" => {
                let found = object::<AuthProviderSettings, A>(value, AUTH_PROVIDER_CONFIG)?;
                let AuthProviderSettings { values, lines } = found.map(|found| found.value).unwrap_or_default();
                (self.config, self.config_lines) = (values, lines);
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
        secret(value, AUTH_PROVIDER_CONFIG, &mut text)?;
        self.lines.insert(name.to_owned(), text.line);
        self.values.insert(name.to_owned(), text.value);
        Ok(())
    }
}

impl DecodeObject for ExecSection {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "command" => text(value, "users[].user.exec.command", &mut self.command),
            "args" => texts(value, "users[].user.exec.args").map(|args| self.args = args),
            "env" => {
                let mut variables = None;
                value.objects("users[].user.exec.env", &mut variables)?;
                self.env = variables.unwrap_or_default();
                Ok(())
            }
            "apiVersion" => text(value, "users[].user.exec.apiVersion", &mut self.api_version),
            "installHint" => text(value, "users[].user.exec.installHint", &mut self.install_hint),
            "provideClusterInfo" => flag(value, "users[].user.exec.provideClusterInfo", &mut self.provide_cluster_info),
            "interactiveMode" => text(value, "users[].user.exec.interactiveMode", &mut self.interactive_mode),
            _ => value.skip(),
        }
    }
}

impl DecodeObject for ExecSectionEnvVar {
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match name {
            "name" => text(value, "users[].user.exec.env[].name", &mut self.name),
            "value" => {
                self.value = Secret::default();
                value.secret("users[].user.exec.env[].value", &mut self.value)
            }
            _ => value.skip(),
        }
    }
}
