//! Keys that wait for a touch, and keys that are removed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};

use credlet_http::{HttpCredential, TlsIdentity};
use credlet_proxy::sign::{SignError, SignFuture, Signer};
use credlet_testkit::ca::TestCa;
use credlet_testkit::server::{ClientCertificates, FakeApiServer as Upstream};
use http::StatusCode;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use tokio::sync::Notify;

use crate::support::{TestProxy, text, whole, within};

/// Blocks signatures until it is touched.
#[derive(Debug, Default)]
struct TouchButton {
    touched: Mutex<bool>,
    touch: Condvar,
    blinks: Notify,
    signatures: AtomicU64,
}

impl TouchButton {
    fn touch(&self) {
        *self.touched.lock().unwrap() = true;
        self.touch.notify_all();
    }
}

#[derive(Debug)]
struct TouchKey(Arc<dyn SigningKey>, Arc<TouchButton>);

impl SigningKey for TouchKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn rustls::sign::Signer>> {
        Some(Box::new(TouchSigner(self.0.choose_scheme(offered)?, Arc::clone(&self.1))))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct TouchSigner(Box<dyn rustls::sign::Signer>, Arc<TouchButton>);

impl rustls::sign::Signer for TouchSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let button = &self.1;
        button.blinks.notify_one();
        tokio::task::block_in_place(|| {
            drop(button.touch.wait_while(button.touched.lock().unwrap(), |touched| !*touched).unwrap());
        });
        button.signatures.fetch_add(1, Relaxed);
        self.0.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}

/// A certificate with a key that needs a touch and can be removed.
#[derive(Debug)]
struct Card {
    identity: TlsIdentity,
    button: Arc<TouchButton>,
    losses: AtomicU64,
}

impl Card {
    fn new(ca: &TestCa) -> Arc<Self> {
        let issued = ca.client("card").issue();
        let button = Arc::new(TouchButton::default());
        let chain = vec![CertificateDer::from_pem_slice(issued.cert_pem().as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(issued.key_pem().as_bytes()).unwrap();
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
        let key = TouchKey(key, Arc::clone(&button));
        let identity = TlsIdentity::from_certified_key(Arc::new(CertifiedKey::new(chain, Arc::new(key))));
        Arc::new(Self { identity, button, losses: AtomicU64::new(0) })
    }
}

/// The signer of the proxy.
#[derive(Debug)]
struct CardSigner(Arc<Card>);

impl Signer for CardSigner {
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async { Ok(HttpCredential::new(1, None, Some(self.0.identity.clone()))) })
    }

    fn user_action_required(&self) -> Option<std::pin::Pin<Box<dyn Future<Output = SignError> + Send + '_>>> {
        Some(Box::pin(async {
            self.0.button.blinks.notified().await;
            while *self.0.button.touched.lock().unwrap() {
                std::future::pending::<()>().await;
            }
            SignError::UserActionRequired { message: "touch the key".into() }
        }))
    }

    fn key_losses(&self) -> u64 {
        self.0.losses.load(Relaxed)
    }
}

fn upstream(ca: &TestCa, protocol: &str) -> Upstream {
    let upstream = Upstream::setup(ca).client_certificates(ClientCertificates::Required).alpn([protocol]).start();
    upstream.accept_client("card");
    upstream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn pending_touch_is_reported() {
    for protocol in ["h2", "http/1.1"] {
        let ca = TestCa::new();
        let (upstream, card) = (upstream(&ca, protocol), Card::new(&ca));
        let proxy = TestProxy::start(CardSigner(Arc::clone(&card)), &upstream, &ca).await;
        let post = http::Request::post("/echo").header("host", &proxy.authority).body(whole("hello")).unwrap();
        let response = within(proxy.send(post)).await;
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT, "{protocol}");
        assert_eq!(response.headers()["exec-proxy-error"], "person");
        assert!(text(response).await.contains(r#""message":"touch the key""#));

        card.button.touch();
        let response = within(proxy.send(proxy.get("/version"))).await;
        assert_eq!(response.status(), StatusCode::OK, "{protocol}");
        let seen = upstream.requests();
        assert_eq!(seen.iter().map(|seen| seen.method.as_str()).collect::<Vec<_>>(), ["GET"], "{protocol}");
        assert_eq!(card.button.signatures.load(Relaxed), 1, "{protocol}: the handshake went on by itself");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn removed_key_closes_connections() {
    let ca = TestCa::new();
    let (upstream, card) = (upstream(&ca, "h2"), Card::new(&ca));
    card.button.touch();
    let proxy = TestProxy::start(CardSigner(Arc::clone(&card)), &upstream, &ca).await;
    for _ in 0..2 {
        assert_eq!(within(proxy.send(proxy.get("/version"))).await.status(), StatusCode::OK);
    }
    assert_eq!((upstream.counts().connections, card.button.signatures.load(Relaxed)), (1, 1));
    card.losses.fetch_add(1, Relaxed);
    assert_eq!(within(proxy.send(proxy.get("/version"))).await.status(), StatusCode::OK);
    let counts = upstream.counts();
    assert_eq!((counts.connections, counts.resumed_handshakes), (2, 0));
    assert_eq!(card.button.signatures.load(Relaxed), 2, "the key is asked again");
    within(upstream.wait_for(|counts| counts.open_connections == 1)).await;
    assert_eq!(within(proxy.send(proxy.get("/version"))).await.status(), StatusCode::OK);
    assert_eq!(upstream.counts().connections, 2, "once");
}
