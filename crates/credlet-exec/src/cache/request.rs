use crate::Env;
use credlet_api::exec::{ApiVersion, EXEC_INFO_ENV, ExecCredentialSpec, ExecInfo, ExecInfoError};

/// The client's request: the content of `KUBERNETES_EXEC_INFO`.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheRequest {
    /// Requested `apiVersion`. `None`: the variable is unset, as when a user runs the command; any version is accepted.
    pub version: Option<ApiVersion>,
    /// Cluster, interactivity and the other fields of the request.
    pub spec: ExecCredentialSpec,
}

impl CacheRequest {
    /// Parses `KUBERNETES_EXEC_INFO`.
    ///
    /// # Errors
    /// If it is not an ExecCredential. The plugin should be run then, so that it reports the error.
    pub fn from_env(env: &dyn Env) -> Result<Self, ExecInfoError> {
        let info_json = env.var(EXEC_INFO_ENV).unwrap_or_default();
        match ExecInfo::decode(info_json.as_encoded_bytes()) {
            Ok(info) => Ok(Self { version: Some(info.version), spec: info.spec }),
            Err(ExecInfoError::Unset) => {
                let spec = ExecCredentialSpec { interactive: env.stdin_is_terminal(), ..ExecCredentialSpec::default() };
                Ok(Self { version: None, spec })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the client reports that the server rejected its last credential. Only `v1alpha1` has a field for that.
    pub(super) fn was_rejected(&self) -> bool {
        self.spec.response.as_ref().is_some_and(|response| response.code == 401)
    }
}
