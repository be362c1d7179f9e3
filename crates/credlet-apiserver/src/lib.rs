//! A small in-memory Kubernetes API server with TLS and authentication, for tests of clients and of what refreshes their
//! credentials.
//!
//! Real sockets, real TLS (aws-lc-rs, passed explicitly), HTTP/2 and HTTP/1.1 by ALPN. A request passes these steps:
//!
//! 1. The TLS handshake, with or without client certificate: [`ClientCertificates`].
//! 2. The request is recorded with its credential: [`ApiServer::requests`].
//! 3. A fault is injected if one is due: [`ApiServer::inject`].
//! 4. The [`Authenticator`](authn::Authenticator) returns the user, else the response is `401`.
//! 5. The [`Handler`] returns the response; [`NamespaceApi`](resources::NamespaceApi) is the default.
//!
//! | module | content |
//! |---|---|
//! | [`ca`] | a certificate authority for servers and clients |
//! | [`token`] | signed bearer tokens |
//! | [`authn`] | authentication by certificate and token, or by a list |
//! | [`resources`] | the default handler: namespaces with list and watch, `SelfSubjectReview`, discovery |
//! | [`response`] | responses and the `Status` object, for handlers of your own |
//!
//! The server is for tests and demonstrations on loopback: it has no authorization, and it keeps all data in memory.

pub mod authn;
pub mod ca;
pub mod resources;
pub mod response;
mod server;
pub mod token;

pub use server::{
    ApiServer, ApiServerBuilder, ClientCertificates, Fault, Handler, PeerCertificate, RecordedRequest, RequestContext,
    ResponseFuture, ResponseRecord, ServerCounts, StartError,
};
