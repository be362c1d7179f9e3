//! The token that EKS takes: a URL of STS which tells whoever opens it who we are, good for a quarter of an hour.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_api::Secret;
use credlet_api::exec::ExecCredentialStatus;
use jiff::Timestamp;

use crate::aws::{Credentials, Endpoint, Scope, Signed};

/// A minute less than STS gives a URL, whatever that says of itself.
const LIFE: Duration = Duration::from_secs(14 * 60);

/// What the URL says of itself: authenticators up to 0.3.0 insist on it.
const EXPIRES: u32 = 60;

/// The server takes no longer one.
pub(super) const LONGEST: usize = 4096;

/// The token for a cluster, to the byte as awscli makes it, and the end of its life: never later than that of the
/// credentials it was signed with, which awscli and aws-iam-authenticator do not look at.
pub(super) fn token(cluster: &str, sts: &Endpoint, credentials: &Credentials, now: Timestamp) -> ExecCredentialStatus {
    let scope = Scope { region: &sts.region, service: "sts", at: now };
    let (scheme, rest) = sts.url.split_once("://").unwrap_or(("https", &sts.url));
    let path = format!("{}/", rest.find('/').map_or("", |at| &rest[at..]));
    let request = Signed {
        method: "GET",
        path: &path,
        query: &[("Action", "GetCallerIdentity"), ("Version", "2011-06-15")],
        headers: &[("host", sts.host()), ("x-k8s-aws-id", cluster)],
        body: b"",
    };
    let query = scope.presign(&request, credentials, EXPIRES);
    let url = Secret::new(format!("{scheme}://{}{path}?{}", sts.host(), *query));
    let token = Secret::new(format!("k8s-aws-v1.{}", URL_SAFE_NO_PAD.encode(url.expose())));
    let end = now.saturating_add(LIFE).unwrap_or(now);
    ExecCredentialStatus::token(token).expiring(credentials.expires.map_or(end, |at| at.min(end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sts(region: &str) -> Endpoint {
        Endpoint { url: format!("https://sts.{region}.amazonaws.com"), region: region.into(), chosen: false }
    }

    fn url(status: &ExecCredentialStatus) -> String {
        let token = status.token.expose().strip_prefix("k8s-aws-v1.").unwrap();
        String::from_utf8(URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap()
    }

    /// Both were made by awscli 1.46.2.
    #[test]
    fn tokens_are_awsclis_to_the_byte() {
        let keys = Credentials::new("AKIDEXAMPLE", "secretexample", None);
        let plain = token("demo", &sts("us-east-1"), &keys, "2026-11-15T19:17:49Z".parse().unwrap());
        assert_eq!(plain.token.expose().len(), 481);
        assert_eq!(
            url(&plain),
            "https://sts.us-east-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15\
             &X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20261115%2Fus-east-1%2Fsts%2Faws4_request\
             &X-Amz-Date=20261115T191749Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id\
             &X-Amz-Signature=edf9c7bf61c0b4603f83db9ae8ae82f29024786c1a45947f26d172dc0929e63e"
        );

        let lent = Credentials::new("AKIDEXAMPLE", "secretexample", Some("FwoGZXIvYXdzEXAMPLE/+token==".into()));
        let lent = token("my cluster_é", &sts("eu-west-3"), &lent, "2026-11-15T19:23:55Z".parse().unwrap());
        let signature = "43acc44701af4c1f36f740e6c9b4cc81f70c620d99ddbd3628ccb8f4b9e1bb31";
        assert!(url(&lent).ends_with(&format!(
            "&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Security-Token=FwoGZXIvYXdzEXAMPLE%2F%2Btoken%3D%3D&X-Amz-Signature={signature}"
        )));
    }

    #[test]
    fn a_token_never_outlives_the_credentials_it_was_signed_with() {
        let now = "2026-11-15T19:17:49Z".parse().unwrap();
        let end = |expires: Option<&str>| {
            let expires = expires.map(|at| at.parse().unwrap());
            let keys = Credentials::new("AKIDEXAMPLE", "secretexample", None).expiring(expires);
            token("demo", &sts("us-east-1"), &keys, now).expiration_timestamp.unwrap().to_string()
        };
        assert_eq!(end(None), "2026-11-15T19:31:49Z");
        assert_eq!(end(Some("2026-11-15T20:17:49Z")), "2026-11-15T19:31:49Z");
        assert_eq!(end(Some("2026-11-15T19:20:00Z")), "2026-11-15T19:20:00Z");
    }

    #[test]
    fn an_address_of_ones_own_is_followed_with_scheme_port_and_path() {
        let keys = Credentials::new("AKIDEXAMPLE", "secretexample", None);
        let own = Endpoint { url: "http://127.0.0.1:5111/sts".into(), region: "us-east-1".into(), chosen: true };
        let own = token("demo", &own, &keys, "2026-11-15T19:17:49Z".parse().unwrap());
        assert!(url(&own).starts_with("http://127.0.0.1:5111/sts/?Action="));
    }
}
