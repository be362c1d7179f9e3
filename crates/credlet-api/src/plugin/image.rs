use std::io::Read;

use zeroize::Zeroizing;

use super::{Failure, Question, World};
use crate::image::{CredentialProviderRequest, CredentialProviderResponse};

/// A request is an image's name, a token and some annotations. More than this is no request.
const LIMIT: u64 = 1 << 20;

impl Question for CredentialProviderRequest {
    type Answer = CredentialProviderResponse;

    fn read(world: &mut World<'_>) -> Result<Self, Failure> {
        let mut request = Zeroizing::new(Vec::new());
        (&mut *world.stdin)
            .take(LIMIT + 1)
            .read_to_end(&mut request)
            .map_err(|error| Failure::new("cannot read the request from standard input").because(&error))?;
        if request.len() as u64 > LIMIT {
            return Err(Failure::new(format!("the request is longer than {LIMIT} bytes")));
        }
        Ok(Self::decode(&request)?)
    }

    fn write(&self, answer: &CredentialProviderResponse) -> Result<Zeroizing<String>, Failure> {
        Ok(answer.encode(self.version))
    }
}
