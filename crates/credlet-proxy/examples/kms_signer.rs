//! An exec proxy for a client certificate with its key in another system, such as a cloud KMS.
//!
//! The proxy sees the certificate and asks the KMS for one signature per connection to the API server. Here a key in this
//! process stands for the KMS.
//!
//! ```sh
//! cargo build -p credlet-proxy --example kms_signer
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ada -keyout key.pem -out cert.pem
//! ```
//!
//! In a kubeconfig, for a client that supports exec proxies (KEP-2718):
//!
//! ```yaml
//! users:
//! - name: ada
//!   user:
//!     exec:
//!       apiVersion: client.authentication.k8s.io/v1
//!       command: target/debug/examples/kms_signer
//!       args: [cert.pem, key.pem]
//!       interactiveMode: Never
//!       provideClusterInfo: true
//! ```

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use credlet_api::exec::{EXEC_INFO_ENV, ExecInfo};
use credlet_exec::Platform;
use credlet_http::{CryptoBackend, HttpCredential, TlsIdentity};
use credlet_proxy::dir::ProxyDir;
use credlet_proxy::server::{DetachableStdio, ProxyServer, ServerOptions, UpstreamTarget};
use credlet_proxy::sign::{SignFuture, Signer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// What the key signs with.
const SCHEME: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;

/// The client of a KMS: signs and never returns the key.
#[derive(Clone)]
struct KmsKey(Arc<EcdsaKeyPair>);

impl KmsKey {
    fn open(path: &str) -> Result<Self> {
        let key = PrivatePkcs8KeyDer::from_pem_file(path)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.secret_pkcs8_der())?;
        Ok(Self(Arc::new(key)))
    }
}

impl SigningKey for KmsKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn rustls::sign::Signer>> {
        offered.contains(&SCHEME).then(|| Box::new(self.clone()) as _)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl rustls::sign::Signer for KmsKey {
    /// Called once per TLS handshake. A signature over the network belongs into `tokio::task::block_in_place`, which
    /// requires a multi-threaded runtime.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let signature = self.0.sign(&SystemRandom::new(), message);
        signature.map(|signature| signature.as_ref().to_vec()).map_err(|_| rustls::Error::General("KMS failed".into()))
    }

    fn scheme(&self) -> SignatureScheme {
        SCHEME
    }
}

impl fmt::Debug for KmsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KmsKey")
    }
}

/// Presents one client certificate on every connection to the API server.
#[derive(Debug)]
struct KmsSigner(HttpCredential);

impl KmsSigner {
    fn new(certificate: &str, key: KmsKey) -> Result<Self> {
        let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
        let identity = TlsIdentity::from_certified_key(Arc::new(CertifiedKey::new(chain, Arc::new(key))));
        // A renewed certificate would be a credential with generation 2.
        Ok(Self(HttpCredential::new(1, None, Some(identity))))
    }
}

impl Signer for KmsSigner {
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [certificate, key] = &args[..] else { return Err("usage: kms_signer CERTIFICATE KEY".into()) };
    let platform = Platform::system();
    let info = platform.env.var(EXEC_INFO_ENV).unwrap_or_default();
    let info = ExecInfo::decode(info.as_encoded_bytes())?;
    let lock_file = info.spec.lock_file_path.clone().ok_or("this client does not support exec proxies (KEP-2718)")?;

    let target = UpstreamTarget::of(&info, CryptoBackend::aws_lc_rs(), &platform)?;
    let mut options = ServerOptions::new(target, ProxyDir::of_this_process(&*platform.env)?);
    // The proxy exits when the client that ran it releases its lock.
    options.leases.push(lock_file.into());
    options.linger = Duration::ZERO;
    let server = ProxyServer::bind(Arc::new(KmsSigner::new(certificate, KmsKey::open(key)?)?), options).await?;

    let output = server.credential_status()?.encode(info.version);
    std::io::stdout().write_all(output.as_bytes())?;
    // The client reads the output until EOF.
    DetachableStdio::prepare()?.detach()?;
    server.run().await;
    Ok(())
}
