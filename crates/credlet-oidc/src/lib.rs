//! OpenID Connect for Kubernetes: a user logs in at an issuer once, and every cluster that trusts the issuer gets a token.
//!
//! [`OidcOptions`] are the flags of kubelogin, [`OidcSettings`] are the validated flags, and [`token`] is the plugin:
//!
//! 1. A stored token that is still fresh is returned without a lock and without a request.
//! 2. Otherwise the login's lock is taken and the stored token is checked again.
//! 3. The issuer's discovery document is fetched.
//! 4. The refresh token is exchanged for a new token. A rotated refresh token is stored before anything else happens.
//! 5. Without a valid refresh token the user logs in: in a browser on this machine (authorization code), or with a code on any
//!    device (device code). With client credentials no user is involved.
//! 6. The ID token is verified, stored and returned.
//!
//! All of that is the feature `login`, which is on by default. Without it there is only [`IssuerHttp`], for clients that store
//! their tokens elsewhere.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use credlet_exec::Platform;
//! use credlet_oidc::{self as oidc, LoginRequest, OidcOptions, NoOutput, OidcSettings};
//!
//! # async fn example() -> Result<(), oidc::OidcError> {
//! let platform = Platform::system();
//! let options = OidcOptions {
//!     issuer_url: Some("https://id.example".into()),
//!     client_id: Some("kubernetes".into()),
//!     ..OidcOptions::default()
//! };
//! let settings = OidcSettings::new(&options, &*platform.env)?;
//! let status = oidc::token(&settings, &LoginRequest::default(), &platform, &(Arc::new(NoOutput) as _)).await?;
//! # Ok(()) }
//! ```

mod issuer_http;
#[cfg(feature = "login")]
mod login;

pub use self::issuer_http::{ClientCredentials, IssuerHttp, IssuerRequestError, OidcEndpoint, decode_response};
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use self::login::fuzzing;
#[cfg(feature = "login")]
pub use self::login::{
    CLIENT_SECRET_ENV, GrantType, IdTokenError, LoginRequest, LoginSession, LogoutResult, NoOutput, OidcError,
    OidcOptions, OidcSettings, PkceMethod, TokenStorage, UnsupportedOptions, UserOutput, directory, log_in, log_out,
    log_out_all, plugin_failure, sessions, token,
};
