use zeroize::Zeroizing;

use super::{Failure, Question, World};
use crate::exec::{ExecCredentialStatus, ExecInfo, InfoError};

impl Question for ExecInfo {
    type Answer = ExecCredentialStatus;

    fn read(world: &mut World<'_>) -> Result<Self, Failure> {
        let info = world.exec_info.take().unwrap_or_default();
        Self::load(info.as_encoded_bytes()).map_err(|error| {
            let unset = error == InfoError::Unset;
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

    fn write(&self, answer: &ExecCredentialStatus) -> Result<Zeroizing<String>, Failure> {
        if answer.proxy_config.is_some() && self.spec.lock_file_path.is_none() {
            return Err(Failure::new("this client cannot be sent through a proxy (it passed no spec.lockFilePath)"));
        }
        answer.check().map_err(|error| Failure::new("this plugin has a mistake").because(&error))?;
        Ok(answer.encode(self.version))
    }
}
