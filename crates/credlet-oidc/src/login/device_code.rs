//! Login in a browser on any machine with a code that the user enters (RFC 8628).

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use credlet_api::escape_control_chars;
use credlet_api::oidc::{self, DeviceAuthorization, IdTokenClaims, TokenResponse};
use credlet_exec::Platform;
use http::HeaderValue;

use super::issuer::IssuerClient;
use super::loopback::{CallbackReceiver, LoopbackServer};
use super::settings::RedirectTarget;
use super::{IssuerRequestError, OidcEndpoint, OidcError, UserOutput, browser};
use crate::decode_response;
use credlet_http::fetch::FetchError;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Default polling interval (RFC 8628 section 3.2) and its increase on `slow_down` (section 3.5).
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);
const SLOW_DOWN: Duration = Duration::from_secs(5);

/// Shows the code to the user and polls the issuer until it has been entered.
pub(super) async fn log_in(
    issuer: &IssuerClient<'_>,
    platform: &Platform,
    output: &dyn UserOutput,
) -> Result<(TokenResponse, Option<IdTokenClaims>), OidcError> {
    let settings = issuer.settings;
    let device = begin(issuer).await?;
    let start_page = if settings.open_browser { StartPage::open(&device, issuer, platform).await } else { None };
    let opened = start_page.is_some();
    let (url, code) = (line(&device.verification_uri), line(&device.user_code));
    output.print_line(&if opened {
        format!("A browser window opens for the login. If none does, open {url} and enter the code {code}")
    } else {
        format!("To log in, open {url} on any device and enter the code {code}")
    });

    let seconds =
        |seconds: Option<i64>| seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    let until = platform.clock.monotonic() + seconds(device.expires_in).unwrap_or(settings.timeout);
    let mut interval = seconds(device.interval).filter(|interval| !interval.is_zero()).unwrap_or(DEFAULT_INTERVAL);
    let fields = [("grant_type", GRANT_TYPE), ("device_code", device.device_code.expose())];
    let tokens = loop {
        platform.clock.sleep(interval).await;
        if platform.clock.monotonic() > until {
            return Err(OidcError::CodeExpired);
        }
        let response = match issuer.post(OidcEndpoint::Token, &fields).await {
            Ok(response) => response,
            // RFC 8628 section 3.5: back off on connection timeouts.
            Err(OidcError::Request(IssuerRequestError::NoResponse {
                source: FetchError::TimedOut { .. } | FetchError::Connection { .. },
                ..
            })) => {
                interval *= 2;
                continue;
            }
            Err(error) => return Err(error),
        };
        if response.status.is_success() {
            break decode_response(OidcEndpoint::Token, &response, TokenResponse::decode)?;
        }
        match oidc::token_error_code(response.body()) {
            Some("authorization_pending") => {}
            Some("slow_down") => interval += SLOW_DOWN,
            _ => return Err(issuer.error_response(OidcEndpoint::Token, "code of this login", response)),
        }
    };
    if tokens.id_token.is_empty() {
        return Err(OidcError::MissingToken { host: issuer.host(), what: "id_token" });
    }
    let claims = issuer.verify(&tokens.id_token, None, None, || platform.clock.now()).await?;
    Ok((tokens, Some(claims)))
}

/// A page on this machine that sends the browser to the issuer's page, which then has the code filled in. The browser is not
/// started with that address: another user could read the code in its command line and enter it with their own account.
struct StartPage(#[expect(dead_code, reason = "serves until it is dropped")] CallbackReceiver);

impl StartPage {
    /// Returns `None` if no port is free or no browser was started. The user then opens the issuer's page.
    async fn open(device: &DeviceAuthorization, issuer: &IssuerClient<'_>, platform: &Platform) -> Option<Self> {
        let complete = Some(&device.verification_uri_complete).filter(|url| is_page(url));
        let target = HeaderValue::from_str(complete.unwrap_or(&device.verification_uri)).ok()?;
        let listen = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let loopback = LoopbackServer::bind(&[listen], &RedirectTarget::Host(listen.ip().to_string())).await.ok()?;
        let start_url = loopback.start_url();
        let page = Self(loopback.serve(target, None).ok()?);
        let command = issuer.settings.browser_command.as_deref();
        browser::open(&start_url, command, platform).await.then_some(page)
    }
}

async fn begin(issuer: &IssuerClient<'_>) -> Result<DeviceAuthorization, OidcError> {
    let what = OidcEndpoint::Device;
    let scope = issuer.settings.scopes.join(" ");
    let response = issuer.post(what, &[("scope", &scope)]).await?;
    if !response.status.is_success() {
        return Err(issuer.error_response(what, "request for a code", response));
    }
    let device = decode_response(what, &response, DeviceAuthorization::decode)?;
    let whole = !device.device_code.is_empty() && !device.user_code.is_empty() && is_page(&device.verification_uri);
    if whole { Ok(device) } else { Err(OidcError::MissingToken { host: response.host, what: "code to enter" }) }
}

/// Whether a URL may be opened. Other schemes could start a program.
fn is_page(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Escapes text of the issuer and puts it on one line.
fn line(text: &str) -> String {
    escape_control_chars(text).replace(|c: char| c.is_control(), " ")
}
