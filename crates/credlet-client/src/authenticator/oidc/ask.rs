//! Asking an issuer: one question, one answer of a decent size.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use credlet_core::World;
use http::header::{ACCEPT, LOCATION};
use http::{HeaderValue, Request, StatusCode};
use http_body::Body as _;
use zeroize::Zeroizing;

use super::error::{Endpoint, OidcError};
use crate::conn::{self, Body, Client, Crypto, Payload, Proxy, Roots, Server, Settings};

/// No honest answer is larger: 1 MiB.
const LARGEST: usize = 1 << 20;

/// How often a discovery document may have moved.
const REDIRECTS: usize = 3;

pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Zeroizing<Vec<u8>>,
}

/// One of the issuer's servers.
pub(super) struct Asked {
    what: Endpoint,
    server: Server,
    client: Client,
}

impl Asked {
    /// Goes through the environment's proxy, if it names one. No connection is made yet.
    pub(super) fn new(
        what: Endpoint,
        server: Server,
        roots: Roots,
        crypto: &Crypto,
        world: &World,
    ) -> Result<Self, OidcError> {
        let client = || {
            let mut settings = Settings::new(server.clone(), crypto.clone(), Arc::clone(&world.clock));
            settings.proxy = Proxy::choose(None, &server, &*world.env)?;
            settings.roots = roots;
            Client::new(settings)
        };
        let client = client().map_err(|source| OidcError::Connection { what, source })?;
        Ok(Self { what, server, client })
    }

    pub(super) fn host(&self) -> String {
        self.server.to_string()
    }

    /// Fetches a document, also if it has moved on the same server.
    pub(super) async fn get(&self, url: &str) -> Result<Answer, OidcError> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS {
            let request = Request::get(&*url).header(ACCEPT, HeaderValue::from_static("application/json"));
            let request = request.body(Payload::empty()).map_err(|_| OidcError::Issuer("is not a URL"))?;
            match self.send(request).await? {
                Ok(answer) => return Ok(answer),
                Err(to) => url = self.here(&to).ok_or_else(|| self.redirected())?,
            }
        }
        Err(self.redirected())
    }

    /// Sends a request that is never sent elsewhere.
    pub(super) async fn post(&self, request: Request<Payload>) -> Result<Answer, OidcError> {
        self.send(request).await?.map_err(|_| self.redirected())
    }

    /// The inner error is a redirect.
    async fn send(&self, request: Request<Payload>) -> Result<Result<Answer, String>, OidcError> {
        let what = self.what;
        let failed = |source| OidcError::Connection { what, source };
        let response = self.client.send(request).await.map_err(failed)?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            return Ok(Err(to.unwrap_or_default().to_owned()));
        }
        match whole(response.into_body()).await.map_err(failed)? {
            Some(body) => Ok(Ok(Answer { status, body })),
            None => Err(OidcError::TooLarge { what, host: self.host() }),
        }
    }

    /// The address that a redirect leads to, if that is on this server.
    fn here(&self, to: &str) -> Option<String> {
        if to.starts_with('/') && !to.starts_with("//") {
            return Some(to.to_owned());
        }
        let other = Server::parse(to).ok()?;
        let same = other.is_https() && other.to_string().eq_ignore_ascii_case(&self.server.to_string());
        same.then(|| to.to_owned())
    }

    fn redirected(&self) -> OidcError {
        OidcError::Redirected { what: self.what, host: self.host() }
    }
}

/// `None`: it is too large. What is left of it is not read.
async fn whole(mut body: Body) -> Result<Option<Zeroizing<Vec<u8>>>, conn::Error> {
    let mut bytes = Zeroizing::new(Vec::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame?.into_data() else { continue };
        if bytes.len() + data.len() > LARGEST {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}
