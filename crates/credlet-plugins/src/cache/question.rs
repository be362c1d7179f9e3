use credlet_api::exec::{ApiVersion, EXEC_INFO_ENV, ExecCredentialSpec, ExecInfo, InfoError};
use credlet_core::Env;

/// What the client asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// In which version it wants its answer. `None`: somebody runs this by hand, and takes what comes.
    pub version: Option<ApiVersion>,
    /// What else it says.
    pub spec: ExecCredentialSpec,
}

impl Question {
    /// Reads it from the environment.
    ///
    /// # Errors
    /// When it cannot be understood. Then it is the plugin that should say so.
    pub fn read(env: &dyn Env) -> Result<Self, InfoError> {
        let told = env.var(EXEC_INFO_ENV).unwrap_or_default();
        match ExecInfo::load(told.as_encoded_bytes()) {
            Ok(info) => Ok(Self { version: Some(info.version), spec: info.spec }),
            Err(InfoError::Unset) => {
                let spec = ExecCredentialSpec { interactive: env.stdin_is_terminal(), ..ExecCredentialSpec::default() };
                Ok(Self { version: None, spec })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the client says that its last credential was refused, which only the oldest version has words for.
    pub(super) fn was_refused(&self) -> bool {
        self.spec.response.as_ref().is_some_and(|response| response.code == 401)
    }
}
