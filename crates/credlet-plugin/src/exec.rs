use zeroize::Zeroizing;

use super::{Failure, PluginIo, PluginRequest};
use credlet_api::exec::{ExecCredentialStatus, ExecInfo, ExecInfoError};

impl PluginRequest for ExecInfo {
    type Response = ExecCredentialStatus;

    fn read(io: &mut PluginIo<'_>) -> Result<Self, Failure> {
        let info = io.exec_info.take().unwrap_or_default();
        Self::decode(info.as_encoded_bytes()).map_err(|error| {
            let unset = error == ExecInfoError::Unset;
            let failure = Failure::from(error);
            if unset {
                failure.hint(
                    "to try it by hand, set it to \
                     {\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\"}",
                )
            } else {
                failure
            }
        })
    }

    fn encode_response(&self, response: &ExecCredentialStatus) -> Result<Zeroizing<String>, Failure> {
        if response.proxy_config.is_some() && self.spec.lock_file_path.is_none() {
            return Err(Failure::new("exec proxies are not supported by this client: it passed no spec.lockFilePath"));
        }
        response.validate().map_err(|error| Failure::new("invalid credential from this plugin").because(&error))?;
        Ok(response.encode(self.version))
    }
}
