use http::{Request, Uri};

use super::{HttpError, ServerAddr};

/// Adds scheme and authority to a request that has none. Fails with [`HttpError::OtherServer`] if it names another server.
pub(super) fn set_authority<B>(server: &ServerAddr, request: &mut Request<B>) -> Result<(), HttpError> {
    let uri = request.uri();
    if let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) {
        if server.matches(scheme, authority) {
            return Ok(());
        }
    } else if uri.authority().is_none() {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(server.scheme().clone());
        parts.authority = Some(server.authority().clone());
        parts.path_and_query.get_or_insert(http::uri::PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from_parts(parts)
            .map_err(|_| HttpError::InvalidServer { reason: "cannot be combined with the path of the request" })?;
        return Ok(());
    }
    // Only the host: query and user info may hold secrets.
    let requested = uri.host().unwrap_or("an unnamed host").to_owned();
    Err(HttpError::OtherServer {
        requested: credlet_api::escape_control_chars(&requested),
        host: server.name().clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_gets_the_authority_or_is_rejected() {
        let server = ServerAddr::parse("https://api.example:6443").unwrap();
        let address = |uri: &str| {
            let mut request = Request::get(uri).body(()).unwrap();
            let addressed = set_authority(&server, &mut request);
            addressed.map(|()| request.uri().to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(address("/version?x=1").unwrap(), "https://api.example:6443/version?x=1");
        assert_eq!(address("https://API.example:6443/a").unwrap(), "https://API.example:6443/a");
        let refused = "cannot send a request for evil.example to api.example:6443";
        assert_eq!(address("https://evil.example:6443/a?token=x").unwrap_err(), refused);
        assert!(address("http://api.example:6443/a").is_err());
        assert!(address("https://api.example/a").is_err());
        let server = ServerAddr::parse("https://[fe80::1%25eth0]:6443").unwrap();
        assert_eq!(server.host(), "fe80::1%eth0");
        let mut request = Request::get("https://[fe80::1%25eth0]:6443/a").body(()).unwrap();
        assert!(set_authority(&server, &mut request).is_ok());
    }
}
