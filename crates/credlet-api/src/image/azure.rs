//! What a node of Azure knows about itself, `/etc/kubernetes/azure.json`, as far as registries need it.

use serde::de::MapAccess;

use crate::Secret;
use crate::wire::document::{self, Duplicates, Member, Object};
use crate::wire::fault::Fault;

/// The node's configuration for Azure. JSON or YAML; what is not known is not read.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AzureConfig {
    /// `AzurePublicCloud`, or another.
    pub cloud: String,
    /// The tenant of the node's identity.
    pub tenant_id: String,
    /// The service principal, if it is not a managed identity.
    pub aad_client_id: String,
    /// Its secret.
    pub aad_client_secret: Secret,
    /// Or the file with its certificate and key.
    pub aad_client_cert_path: String,
    /// Whether the node has a managed identity.
    pub use_managed_identity_extension: bool,
    /// Which one: a client's id, or a resource's. Empty: the one that the machine has of its own.
    pub user_assigned_identity_id: String,
    /// Of a cloud that is not known by its name: who tells its addresses.
    pub resource_manager_endpoint: String,
}

impl AzureConfig {
    /// Reads the file.
    ///
    /// # Errors
    /// The file's owner must act. No text of it is in the error.
    pub fn decode(text: &[u8]) -> Result<Self, Fault> {
        document::read(text, Duplicates::LastWins)
    }
}

impl Object for AzureConfig {
    /// Azure's own provider reads names in any case.
    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, value: Member<'_, A>) -> Result<(), A::Error> {
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
    fn a_nodes_file_is_read_in_either_form() {
        let json = br#"{"cloud":"AzurePublicCloud","tenantId":"t","aadClientId":"c","aadClientSecret":"hunter2",
            "useManagedIdentityExtension":true,"userAssignedIdentityID":"u","vmType":"vmss","rateLimit":{"a":[1]}}"#;
        let yaml = b"cloud: AzurePublicCloud\nTenantID: t\naadClientId: c\naadClientSecret: hunter2\nuseManagedIdentityExtension: true\nuserAssignedIdentityID: u\n";
        let config = AzureConfig::decode(json).unwrap();
        assert_eq!(AzureConfig::decode(yaml).unwrap(), config);
        assert_eq!((&*config.tenant_id, config.aad_client_secret.expose()), ("t", "hunter2"));
        assert!(config.use_managed_identity_extension && !format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn what_is_no_such_file_is_told_without_its_content() {
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
