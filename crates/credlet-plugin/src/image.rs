use std::io::Read;

use zeroize::Zeroizing;

use super::{Failure, PluginIo, PluginRequest};
use credlet_api::image::{CredentialProviderRequest, CredentialProviderResponse};

/// Maximum size of a request, which consists of an image name, a token and some annotations.
const MAX_REQUEST_SIZE: u64 = 1 << 20;

impl PluginRequest for CredentialProviderRequest {
    type Response = CredentialProviderResponse;

    fn read(io: &mut PluginIo<'_>) -> Result<Self, Failure> {
        let mut request = Zeroizing::new(Vec::new());
        (&mut *io.stdin)
            .take(MAX_REQUEST_SIZE + 1)
            .read_to_end(&mut request)
            .map_err(|error| Failure::new("failed to read the request from stdin").because(&error))?;
        if request.len() as u64 > MAX_REQUEST_SIZE {
            return Err(Failure::new(format!("the request exceeds {MAX_REQUEST_SIZE} bytes")));
        }
        Ok(Self::decode(&request)?)
    }

    fn encode_response(&self, response: &CredentialProviderResponse) -> Result<Zeroizing<String>, Failure> {
        Ok(response.encode(self.version))
    }
}
