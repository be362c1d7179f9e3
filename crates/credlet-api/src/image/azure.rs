//! `/etc/kubernetes/azure.json`, the configuration of an Azure node.

use serde::de::MapAccess;

use crate::Secret;
use crate::wire::document::{self, DecodeObject, DuplicateKeys, MemberValue};
use crate::wire::error::DocumentError;

/// The fields of an Azure node's configuration that registry credentials need. JSON or YAML; unknown fields are
/// ignored.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AzureConfig {
    /// Name of the cloud, such as `AzurePublicCloud`.
    pub cloud: String,
    /// Tenant of the node's identity.
    pub tenant_id: String,
    /// Client id of the service principal, if the node has no managed identity.
    pub aad_client_id: String,
    /// Client secret of the service principal.
    pub aad_client_secret: Secret,
    /// File with certificate and key of the service principal, instead of a secret.
    pub aad_client_cert_path: String,
    /// Whether the node has a managed identity.
    pub use_managed_identity_extension: bool,
    /// Client id or resource id of a user-assigned identity. Empty: the system-assigned identity.
    pub user_assigned_identity_id: String,
    /// Resource manager that serves the endpoints of a custom cloud.
    pub resource_manager_endpoint: String,
}

impl AzureConfig {
    /// Decodes the file.
    ///
    /// # Errors
    /// If the file is not an object with fields of these types. The error quotes nothing of it.
    pub fn decode(text: &[u8]) -> Result<Self, DocumentError> {
        document::read(text, DuplicateKeys::LastWins)
    }
}

impl DecodeObject for AzureConfig {
    /// Matches names case-insensitively, as Azure's provider does.
    fn decode_member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: MemberValue<'_, A>) -> Result<(), A::Error> {
        match &*name.to_ascii_lowercase() {
            "cloud" => value.string("cloud", &mut self.cloud),
            "tenantid" => value.string("tenantId", &mut self.tenant_id),
            "aadclientid" => value.string("aadClientId", &mut self.aad_client_id),
            "aadclientsecret" => value.secret("aadClientSecret", &mut self.aad_client_secret),
            "aadclientcertpath" => value.string("aadClientCertPath", &mut self.aad_client_cert_path),
            "usemanagedidentityextension" => {
                value.boolean("useManagedIdentityExtension", &mut self.use_managed_identity_extension)
            }
            "userassignedidentityid" => value.string("userAssignedIdentityID", &mut self.user_assigned_identity_id),
            "resourcemanagerendpoint" => value.string("resourceManagerEndpoint", &mut self.resource_manager_endpoint),
            _ => value.skip(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_json_and_yaml() {
        let json = br#"{"cloud":"AzurePublicCloud","tenantId":"t","aadClientId":"c","aadClientSecret":"hunter2",
            "useManagedIdentityExtension":true,"userAssignedIdentityID":"u","vmType":"vmss","rateLimit":{"a":[1]}}"#;
        let yaml = b"cloud: AzurePublicCloud\nTenantID: t\naadClientId: c\naadClientSecret: hunter2\nuseManagedIdentityExtension: true\nuserAssignedIdentityID: u\n";
        let config = AzureConfig::decode(json).unwrap();
        assert_eq!(AzureConfig::decode(yaml).unwrap(), config);
        assert_eq!((&*config.tenant_id, config.aad_client_secret.expose()), ("t", "hunter2"));
        assert!(config.use_managed_identity_extension && !format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn errors_quote_nothing() {
        for bad in [
            &b""[..],
            b"hunter2",
            b"{\"aadClientSecret\":\"hunter2\"",
            b"[1]",
            br#"{"aadClientSecret":["hunter2"]}"#,
            br#"{"useManagedIdentityExtension":"hunter2"}"#,
        ] {
            let error = AzureConfig::decode(bad).unwrap_err().to_string();
            assert!(!error.is_empty() && !error.contains("hunter2"), "{error}");
        }
    }
}
