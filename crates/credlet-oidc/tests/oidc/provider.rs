//! A small OpenID provider on loopback that reports what it saw and misbehaves on request.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use credlet_testkit::logs::LeakCheck;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The device's code in `verification_uri_complete`.
pub(crate) const USER_CODE: &str = "WDJB-MJHT";

/// Misbehaviour of the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProviderFault {
    #[default]
    None,
    /// The discovery document names another issuer.
    OtherIssuer,
    // Discovery.
    DiscoveryHtml,
    DiscoveryHuge,
    DiscoveryHangs,
    Discovery500,
    // Redirect.
    Iss,
    NoIss,
    Denied,
    TwoCodes,
    /// The code is rejected as already used.
    UsedCode,
    // Token response.
    TokenHtml,
    NoIdToken,
    // ID token.
    Nonce,
    Issuer,
    Audience,
    Azp,
    Expired,
    NotYet,
    AlgNone,
    Hmac,
    OtherKey,
    Changed,
    OtherSubject,
}

#[derive(Clone)]
pub(crate) struct FakeProvider {
    pub(crate) url: String,
    pub(crate) state: Arc<Mutex<ProviderState>>,
    pub(crate) hanging: Arc<Notify>,
    entered: Arc<Notify>,
    key: Arc<EcdsaKeyPair>,
    other_key: Arc<EcdsaKeyPair>,
    watch: Arc<LeakCheck>,
}

#[derive(Default)]
pub(crate) struct ProviderState {
    pub(crate) fault: ProviderFault,
    /// Number of requests per path.
    pub(crate) seen: BTreeMap<String, usize>,
    /// Forms at the token endpoint, and the Authorization header.
    pub(crate) forms: Vec<(HashMap<String, String>, String)>,
    /// Code → the query of the login.
    codes: HashMap<String, HashMap<String, String>>,
    /// The queries of all authorization requests.
    pub(crate) authorizations: Vec<HashMap<String, String>>,
    pub(crate) refresh_tokens: Vec<String>,
    pub(crate) revoked: Vec<String>,
    /// Errors for the next polls of a device; then tokens.
    pub(crate) device_errors: Vec<&'static str>,
    /// Lifetime of ID tokens in seconds.
    pub(crate) lifetime: Option<i64>,
    /// Clock offset in seconds.
    pub(crate) ahead: i64,
    pub(crate) account: Option<String>,
    pub(crate) without_refresh_tokens: bool,
    /// Whether tokens are issued only after the page for the device code was opened.
    pub(crate) waits_for_code: bool,
}

type ProviderResponse = Response<String>;

impl FakeProvider {
    pub(crate) fn start(watch: &Arc<LeakCheck>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let key = || Arc::new(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap());
        let provider = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            state: Arc::default(),
            hanging: Arc::default(),
            entered: Arc::default(),
            key: key(),
            other_key: key(),
            watch: Arc::clone(watch),
        };
        let served = provider.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(served.serve(listener));
        });
        provider
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ProviderState> {
        self.state.lock().unwrap()
    }

    pub(crate) fn fail(&self, fault: ProviderFault) {
        self.state().fault = fault;
    }

    pub(crate) fn seen(&self, path: &str) -> usize {
        self.state().seen.get(path).copied().unwrap_or_default()
    }

    async fn serve(self, listener: TcpListener) {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let provider = self.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| provider.respond(request));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<ProviderResponse, Infallible> {
        let (head, body) = request.into_parts();
        let form = parse(std::str::from_utf8(&body.collect().await.unwrap().to_bytes()).unwrap());
        let path = head.uri.path().to_owned();
        let fault = {
            let mut state = self.state();
            *state.seen.entry(path.clone()).or_default() += 1;
            state.fault
        };
        let authorization = head.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        Ok(match path.as_str() {
            "/.well-known/openid-configuration" => self.discovery(fault).await,
            "/jwks" => json_reply(&self.jwks()),
            "/auth" => self.authorize(&parse(head.uri.query().unwrap_or_default()), fault),
            "/device" => self.device(),
            "/type" => {
                self.entered.notify_one();
                Response::new(format!("the code is {}", head.uri.query().unwrap_or_default()))
            }
            "/revoke" => {
                self.state().revoked.push(form["token"].clone());
                Response::new(String::new())
            }
            "/token" => {
                if self.state().waits_for_code {
                    self.entered.notified().await;
                }
                self.state().forms.push((form.clone(), authorization.unwrap_or_default()));
                self.token(&form, fault)
            }
            _ => reply(StatusCode::NOT_FOUND, String::new()),
        })
    }

    async fn discovery(&self, fault: ProviderFault) -> ProviderResponse {
        match fault {
            ProviderFault::DiscoveryHtml => return Response::new("<html>Welcome to our hotel</html>".into()),
            ProviderFault::DiscoveryHuge => {
                return Response::new(format!("{{\"issuer\":\"{}\"}}", "x".repeat(50 << 20)));
            }
            ProviderFault::Discovery500 => return reply(StatusCode::INTERNAL_SERVER_ERROR, String::new()),
            ProviderFault::DiscoveryHangs => {
                self.hanging.notify_one();
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        let issuer = if fault == ProviderFault::OtherIssuer { "https://evil.example" } else { &self.url };
        json_reply(&json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{}/auth", self.url),
            "token_endpoint": format!("{}/token", self.url),
            "jwks_uri": format!("{}/jwks", self.url),
            "device_authorization_endpoint": format!("{}/device", self.url),
            "revocation_endpoint": format!("{}/revoke", self.url),
            "authorization_response_iss_parameter_supported": true,
        }))
    }

    fn jwks(&self) -> Value {
        let point = self.key.public_key().as_ref();
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "alg": "ES256",
                         "x": number(&point[1..33]), "y": number(&point[33..])}]})
    }

    /// Logs in without interaction.
    fn authorize(&self, query: &HashMap<String, String>, fault: ProviderFault) -> ProviderResponse {
        let code = self.watch.secret("code").expose().to_owned();
        self.state().authorizations.push(query.clone());
        self.state().codes.insert(code.clone(), query.clone());
        let code = escape(&code);
        let state = &query["state"];
        let iss = if fault == ProviderFault::Iss { "https://evil.example" } else { &self.url };
        let mut to = format!("{}?state={}", query["redirect_uri"], escape(state));
        if fault != ProviderFault::NoIss {
            to += &format!("&iss={}", escape(iss));
        }
        to += &match fault {
            ProviderFault::Denied => "&error=access_denied".to_owned(),
            ProviderFault::TwoCodes => format!("&code={code}&code=x"),
            _ => format!("&code={code}"),
        };
        let mut reply = reply(StatusCode::FOUND, String::new());
        reply.headers_mut().insert("location", to.parse().unwrap());
        reply
    }

    fn device(&self) -> ProviderResponse {
        let code = self.watch.secret("device code");
        json_reply(&json!({"device_code": code.expose(), "user_code": "WDJB-\u{1b}[2JMJHT",
            "verification_uri": format!("{}/type", self.url),
            "verification_uri_complete": format!("{}/type?user_code={USER_CODE}", self.url), "interval": 3, "expires_in": 600}))
    }

    fn token(&self, form: &HashMap<String, String>, fault: ProviderFault) -> ProviderResponse {
        let refused = |code: &str| reply(StatusCode::BAD_REQUEST, json!({"error": code}).to_string());
        let mut nonce = None;
        match form["grant_type"].as_str() {
            "authorization_code" => {
                let login = self.state().codes.remove(&form["code"]);
                let Some(login) = login.filter(|_| fault != ProviderFault::UsedCode) else {
                    return refused("invalid_grant");
                };
                let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, form["code_verifier"].as_bytes());
                assert_eq!(login["code_challenge"], URL_SAFE_NO_PAD.encode(digest), "PKCE");
                assert_eq!(login["redirect_uri"], form["redirect_uri"]);
                nonce = Some(login["nonce"].clone());
            }
            "refresh_token" => {
                let mut state = self.state();
                let known = state.refresh_tokens.iter().position(|token| *token == form["refresh_token"]);
                let Some(known) = known else { return refused("invalid_grant") };
                state.refresh_tokens.remove(known);
            }
            "client_credentials" => {
                let access = self.watch.secret("access token");
                return json_reply(&json!({"access_token": access.expose(), "expires_in": 300}));
            }
            "urn:ietf:params:oauth:grant-type:device_code" => {
                let answers = &mut self.state().device_errors;
                if !answers.is_empty() {
                    return refused(answers.remove(0));
                }
            }
            other => panic!("{other}"),
        }
        if fault == ProviderFault::TokenHtml {
            return Response::new("<html>".into());
        }
        let mut response = json!({"access_token": self.watch.secret("access token").expose(), "expires_in": 60});
        if fault != ProviderFault::NoIdToken {
            response["id_token"] = self.id_token(nonce, fault).into();
        }
        if !self.state().without_refresh_tokens {
            let refresh = self.watch.secret("refresh token").expose().to_owned();
            response["refresh_token"] = refresh.clone().into();
            self.state().refresh_tokens.push(refresh);
        }
        json_reply(&response)
    }

    fn id_token(&self, nonce: Option<String>, fault: ProviderFault) -> String {
        let (lifetime, ahead, account) = {
            let state = self.state();
            (state.lifetime.unwrap_or(3600), state.ahead, state.account.clone())
        };
        let now = now().as_second() + ahead;
        let pick = |wanted: ProviderFault, wrong: &'static str, right: String| {
            if fault == wanted { wrong.into() } else { right }
        };
        let exp = if fault == ProviderFault::Expired { now - 3600 } else { now + lifetime };
        let iat = if fault == ProviderFault::NotYet { now + 3600 } else { now };
        let mut claims = json!({
            "iss": pick(ProviderFault::Issuer, "https://evil.example", self.url.clone()),
            "aud": [pick(ProviderFault::Audience, "another", "kube".into()), "third"],
            "azp": pick(ProviderFault::Azp, "another", "kube".into()),
            "sub": pick(ProviderFault::OtherSubject, "mallory", "ada".into()),
            "email": account.unwrap_or_else(|| "ada@example.test".into()),
            "iat": iat, "exp": exp,
        });
        if let Some(nonce) = nonce {
            claims["nonce"] = pick(ProviderFault::Nonce, "another", nonce).into();
        }
        let alg = pick(ProviderFault::AlgNone, "none", pick(ProviderFault::Hmac, "HS256", "ES256".into()));
        let header = json!({"alg": alg, "kid": "one"}).to_string();
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", part(&header), part(&claims.to_string()));
        let key = if fault == ProviderFault::OtherKey { &self.other_key } else { &self.key };
        let signature = match fault {
            ProviderFault::AlgNone => Vec::new(),
            // Signed with the public key.
            ProviderFault::Hmac => {
                let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, self.key.public_key().as_ref());
                aws_lc_rs::hmac::sign(&key, signed.as_bytes()).as_ref().to_vec()
            }
            _ => key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec(),
        };
        let claims = if fault == ProviderFault::Changed {
            claims.to_string().replace("ada@", "eve@")
        } else {
            claims.to_string()
        };
        let token = format!("{}.{}.{}", part(&header), part(&claims), URL_SAFE_NO_PAD.encode(signature));
        self.watch.adopt("id token", &token);
        if let Some((_, signature)) = token.rsplit_once('.').filter(|(_, signature)| signature.len() > 24) {
            self.watch.adopt("signature", signature);
        }
        token
    }
}

#[expect(clippy::disallowed_methods, reason = "the issuer has its own clock")]
fn now() -> Timestamp {
    Timestamp::now()
}

fn reply(status: StatusCode, body: String) -> ProviderResponse {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply
}

fn json_reply(body: &Value) -> ProviderResponse {
    Response::new(body.to_string())
}

fn escape(text: &str) -> String {
    credlet_http::fetch::percent_encode(text).to_string()
}

pub(crate) fn parse(query: &str) -> HashMap<String, String> {
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'%' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                byte => byte,
            });
        }
        String::from_utf8(bytes).unwrap()
    };
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (decode(name), decode(value)));
    query.split('&').filter_map(pair).collect()
}
