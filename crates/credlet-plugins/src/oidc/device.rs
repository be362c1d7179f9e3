//! Logging in with a browser on any machine, by typing a code (RFC 8628).

use std::time::Duration;

use credlet_api::oidc::{self, Claims, DeviceAuthorization, Tokens};
use credlet_api::visible;
use credlet_core::World;

use super::issuer::Issuer;
use super::{Endpoint, Error, Talk, browser};
use crate::web::WebError;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Where the issuer does not say: section 3.2 and section 3.5.
const INTERVAL: Duration = Duration::from_secs(5);
const SLOWER: Duration = Duration::from_secs(5);

/// Shows a code to a person and asks the issuer until it has been typed.
pub(super) async fn log_in(
    issuer: &Issuer<'_>,
    world: &World,
    talk: &dyn Talk,
) -> Result<(Tokens, Option<Claims>), Error> {
    let settings = issuer.settings;
    let device = begin(issuer).await?;
    let complete = is_page(&device.verification_uri_complete).then_some(device.verification_uri_complete.as_str());
    let page = complete.unwrap_or(&device.verification_uri);
    let opened = settings.open_browser && browser::open(page, settings.browser_command.as_deref(), world).await;
    let (place, code) = (line(&device.verification_uri), line(&device.user_code));
    talk.say(&if opened {
        format!("A browser window opens for the login. If none does, open {place} and enter the code {code}")
    } else {
        format!("To log in, open {place} on any device and enter the code {code}")
    });

    let seconds =
        |seconds: Option<i64>| seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    let until = world.clock.monotonic() + seconds(device.expires_in).unwrap_or(settings.timeout);
    let mut interval = seconds(device.interval).filter(|interval| !interval.is_zero()).unwrap_or(INTERVAL);
    let fields = [("grant_type", GRANT), ("device_code", device.device_code.expose())];
    let tokens = loop {
        world.clock.sleep(interval).await;
        if world.clock.monotonic() > until {
            return Err(Error::CodeExpired);
        }
        let answer = match issuer.post(Endpoint::Token, &fields).await {
            Ok(answer) => answer,
            // The network may come back before the person does; but it is asked less often.
            Err(Error::Web { source: WebError::TimedOut { .. } | WebError::Connection { .. }, .. }) => {
                interval *= 2;
                continue;
            }
            Err(error) => return Err(error),
        };
        if answer.status.is_success() {
            break Tokens::decode(answer.body()).map_err(|fault| Error::Nonsense {
                what: Endpoint::Token,
                host: answer.host.clone(),
                fault,
            })?;
        }
        match oidc::refusal_code(answer.body()) {
            Some("authorization_pending") => {}
            Some("slow_down") => interval += SLOWER,
            _ => return Err(issuer.refused(Endpoint::Token, "code of this login", answer)),
        }
    };
    if tokens.id_token.is_empty() {
        return Err(Error::NoToken { host: issuer.host(), what: "id_token" });
    }
    let claims = issuer.verify(&tokens.id_token, None, None, || world.clock.now()).await?;
    Ok((tokens, Some(claims)))
}

async fn begin(issuer: &Issuer<'_>) -> Result<DeviceAuthorization, Error> {
    let what = Endpoint::Device;
    let scope = issuer.settings.scopes.join(" ");
    let answer = issuer.post(what, &[("scope", &scope)]).await?;
    if !answer.status.is_success() {
        return Err(issuer.refused(what, "request for a code", answer));
    }
    let device = DeviceAuthorization::decode(answer.body()).map_err(|fault| Error::Nonsense {
        what,
        host: answer.host.clone(),
        fault,
    })?;
    let whole = !device.device_code.is_empty() && !device.user_code.is_empty() && is_page(&device.verification_uri);
    if whole { Ok(device) } else { Err(Error::NoToken { host: answer.host, what: "code to enter" }) }
}

/// Whether it may be opened: anything else could start a program.
fn is_page(url: &str) -> bool {
    url.starts_with("https://") || url.starts_with("http://")
}

/// Foreign text on one line.
fn line(text: &str) -> String {
    visible(text).replace(|c: char| c.is_control(), " ")
}
