//! The endpoints of the issuer.

use std::collections::HashMap;
use std::convert::Infallible;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};

use super::form::escape;
use super::{
    FakeIssuer, IssuerFault, IssuerRequest, IssuerResponse, RefreshGrant, ResponseOverride, USER_CODE, parse_form,
};

const DISCOVERY: &str = "/.well-known/openid-configuration";

impl FakeIssuer {
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Result<IssuerResponse, Infallible> {
        let (head, body) = request.into_parts();
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            // The client closed the connection, so no response will be read.
            Err(_) => return Ok(reply(StatusCode::BAD_REQUEST, "")),
        };
        let request = IssuerRequest {
            path: head.uri.path().to_owned(),
            query: parse_form(head.uri.query().unwrap_or_default()),
            headers: head.headers,
            form: parse_form(std::str::from_utf8(&body).expect("a form")),
        };
        self.shared.requests.send_modify(|requests| requests.push(request.clone()));
        let (fault, replaced) = {
            let state = self.state();
            (state.fault, state.overrides.get(&request.path).cloned())
        };
        let mut secret_in_form = false;
        match replaced {
            Some(ResponseOverride::Respond(status, body)) => {
                return Ok(reply(StatusCode::from_u16(status).expect("a status"), body));
            }
            Some(ResponseOverride::RedirectTo(url)) => return Ok(redirect(StatusCode::TEMPORARY_REDIRECT, &url)),
            Some(ResponseOverride::Hang) => std::future::pending().await,
            Some(ResponseOverride::SecretInForm) => secret_in_form = true,
            None => {}
        }
        Ok(match request.path.as_str() {
            DISCOVERY => self.discovery(fault).await,
            "/jwks" => json_reply(&self.shared.keys.jwks()),
            "/auth" => self.authorize(&request.query, fault),
            "/device" => self.device(),
            "/type" => {
                self.shared.code_entered.notify_one();
                reply(StatusCode::OK, format!("the code is {}", head.uri.query().unwrap_or_default()))
            }
            "/revoke" => {
                self.state().revoked.push(request.form["token"].clone());
                reply(StatusCode::OK, "")
            }
            "/token" => {
                if self.state().waits_for_code {
                    self.shared.code_entered.notified().await;
                }
                self.shared.paused.subscribe().wait_for(|paused| !paused).await.expect("the issuer holds the sender");
                self.token(&request, fault, secret_in_form)
            }
            _ => reply(StatusCode::NOT_FOUND, ""),
        })
    }

    async fn discovery(&self, fault: IssuerFault) -> IssuerResponse {
        match fault {
            IssuerFault::DiscoveryHtml => return reply(StatusCode::OK, "<html>Welcome to our hotel</html>"),
            IssuerFault::DiscoveryHuge => {
                return reply(StatusCode::OK, format!("{{\"issuer\":\"{}\"}}", "x".repeat(50 << 20)));
            }
            IssuerFault::Discovery500 => return reply(StatusCode::INTERNAL_SERVER_ERROR, ""),
            IssuerFault::DiscoveryHangs => {
                self.hanging.notify_one();
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        let url = self.url();
        let issuer = if fault == IssuerFault::OtherIssuer { "https://evil.example" } else { url };
        json_reply(&json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{url}/auth"),
            "token_endpoint": format!("{url}/token"),
            "jwks_uri": format!("{url}/jwks"),
            "device_authorization_endpoint": format!("{url}/device"),
            "revocation_endpoint": format!("{url}/revoke"),
            "authorization_response_iss_parameter_supported": true,
        }))
    }

    /// Logs in without interaction.
    fn authorize(&self, query: &HashMap<String, String>, fault: IssuerFault) -> IssuerResponse {
        let code = self.secret("code");
        self.state().codes.insert(code.clone(), query.clone());
        let code = escape(&code);
        let iss = if fault == IssuerFault::Iss { "https://evil.example" } else { self.url() };
        let mut to = format!("{}?state={}", query["redirect_uri"], escape(&query["state"]));
        if fault != IssuerFault::NoIss {
            to += &format!("&iss={}", escape(iss));
        }
        to += &match fault {
            IssuerFault::Denied => "&error=access_denied".to_owned(),
            IssuerFault::TwoCodes => format!("&code={code}&code=x"),
            _ => format!("&code={code}"),
        };
        redirect(StatusCode::FOUND, &to)
    }

    fn device(&self) -> IssuerResponse {
        let page = format!("{}/type", self.url());
        json_reply(&json!({"device_code": self.secret("device code"), "user_code": "WDJB-\u{1b}[2JMJHT",
            "verification_uri": page, "verification_uri_complete": format!("{page}?user_code={USER_CODE}"),
            "interval": 3, "expires_in": 600}))
    }

    fn token(&self, request: &IssuerRequest, fault: IssuerFault, secret_in_form: bool) -> IssuerResponse {
        let form = &request.form;
        let refused = |status, code: &str| {
            let mut error = json!({"error": code});
            if self.shared.client.is_some() {
                error["error_description"] = format!("{request:?}").into();
            }
            reply(status, error.to_string())
        };
        if let Some(client) = &self.shared.client {
            let is_known = if secret_in_form {
                form.get("client_secret") == Some(&client.secret)
            } else {
                request.authorization() == Some(&client.basic)
            };
            if !is_known {
                return refused(StatusCode::UNAUTHORIZED, "invalid_client");
            }
        }
        let refused = |code| refused(StatusCode::BAD_REQUEST, code);
        let mut nonce = None;
        match form.get("grant_type").map(String::as_str).unwrap_or_default() {
            "authorization_code" => {
                let login = self.state().codes.remove(&form["code"]);
                let Some(login) = login.filter(|_| fault != IssuerFault::UsedCode) else {
                    return refused("invalid_grant");
                };
                let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, form["code_verifier"].as_bytes());
                assert_eq!(login["code_challenge"], URL_SAFE_NO_PAD.encode(digest), "PKCE");
                assert_eq!(login["redirect_uri"], form["redirect_uri"]);
                nonce = Some(login["nonce"].clone());
            }
            "refresh_token" => {
                let mut state = self.state();
                if let Some(grant) = state.grants.remove(&form["refresh_token"]) {
                    return granted(grant);
                }
                let known = state.refresh_tokens.iter().position(|token| *token == form["refresh_token"]);
                let Some(known) = known else { return refused("invalid_grant") };
                state.refresh_tokens.remove(known);
            }
            "client_credentials" => {
                let fixed = self.state().access_token.clone();
                let lifetime = if fixed.is_some() { 3600 } else { 300 };
                let token = fixed.unwrap_or_else(|| self.secret("access token"));
                return json_reply(&json!({"access_token": token, "expires_in": lifetime}));
            }
            "urn:ietf:params:oauth:grant-type:device_code" => {
                let errors = &mut self.state().device_errors;
                if !errors.is_empty() {
                    return refused(errors.remove(0));
                }
            }
            other => panic!("{other}"),
        }
        if fault == IssuerFault::TokenHtml {
            return reply(StatusCode::OK, "<html>");
        }
        let mut response = json!({"access_token": self.secret("access token"), "expires_in": 60});
        if fault != IssuerFault::NoIdToken {
            response["id_token"] = self.id_token(nonce, fault).into();
        }
        if !self.state().without_refresh_tokens {
            let refresh = self.secret("refresh token");
            response["refresh_token"] = refresh.clone().into();
            self.state().refresh_tokens.push(refresh);
        }
        json_reply(&response)
    }

    fn secret(&self, label: &str) -> String {
        self.shared.watch.secret(label).expose().to_owned()
    }
}

fn granted(grant: RefreshGrant) -> IssuerResponse {
    json_reply(&json!({
        "access_token": "unused",
        "token_type": "bearer",
        "expires_in": 60,
        "id_token": grant.id_token,
        "refresh_token": grant.refresh_token,
    }))
}

fn reply(status: StatusCode, body: impl Into<Bytes>) -> IssuerResponse {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply
}

fn redirect(status: StatusCode, to: &str) -> IssuerResponse {
    let mut reply = reply(status, "");
    reply.headers_mut().insert("location", to.parse().expect("a header value"));
    reply
}

fn json_reply(body: &Value) -> IssuerResponse {
    reply(StatusCode::OK, body.to_string())
}
