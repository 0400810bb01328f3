//! Certificates that a client takes for the server's, when the user names some.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::common::{fetch, loopback};
use fullpipe_files::{
    Client, ClientError, ClientOptions, Content, Server, ServerOptions, ServerTls, Verify,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn params(name: &str, is_ca: bool) -> CertificateParams {
    let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
    params.is_ca =
        if is_ca { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::ExplicitNoCa };
    params
}

fn write(dir: &Path, name: &str, pem: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, pem).expect("a file");
    path
}

/// Asks a server that presents `chain` as `localhost`, trusting `ca`.
async fn ask(chain: &Path, key: &Path, ca: &Path) -> Result<usize, ClientError> {
    let tls = ServerTls::from_pem_files(chain, key).expect("a certificate");
    let server = Server::bind(loopback(), &tls, Content::Bulk, ServerOptions::default());
    let server = server.expect("a server");
    let verify = Verify::Ca(ca.to_owned());
    let client =
        Client::connect(server.local_addr(), "localhost", &verify, ClientOptions::default())
            .await?;
    fetch(&client, "/bulk/100").await.map(|body| body.len())
}

fn untrusted(result: &Result<usize, ClientError>, why: &str) -> bool {
    matches!(result, Err(ClientError::Untrusted { reason, .. }) if reason.contains(why))
}

#[tokio::main]
async fn a_self_signed_certificate_is_trusted_by_itself_even_if_it_says_it_is_a_ca() {
    let dir = tempfile::tempdir().expect("a directory");
    for is_ca in [false, true] {
        let key = KeyPair::generate().expect("a key");
        let key_file = write(dir.path(), "key.pem", &key.serialize_pem());
        let signed = |params: &CertificateParams, name| {
            let certificate = params.self_signed(&key).expect("a certificate");
            write(dir.path(), name, &certificate.pem())
        };
        let mut params = params("localhost", is_ca);
        let good = signed(&params, "good.pem");
        let result = ask(&good, &key_file, &good).await;
        assert!(matches!(result, Ok(100)), "CA {is_ca}: {result:?}");

        params.not_after = (SystemTime::now() - DAY).into();
        let old = signed(&params, "old.pem");
        let result = ask(&old, &key_file, &old).await;
        assert!(untrusted(&result, "expired"), "CA {is_ca}: {result:?}");

        let elsewhere = signed(&self::params("example.org", is_ca), "elsewhere.pem");
        let result = ask(&elsewhere, &key_file, &elsewhere).await;
        assert!(untrusted(&result, "localhost"), "CA {is_ca}: {result:?}");

        // Another key under the same name is another server.
        let other_key = KeyPair::generate().expect("a key");
        let other =
            self::params("localhost", is_ca).self_signed(&other_key).expect("a certificate");
        let other = write(dir.path(), "other.pem", &other.pem());
        let result = ask(&good, &key_file, &other).await;
        assert!(untrusted(&result, ""), "CA {is_ca}: {result:?}");
    }
}

#[tokio::main]
async fn an_issuer_is_trusted_for_what_it_signed_and_for_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let ca_key = KeyPair::generate().expect("a key");
    let ca = params("an issuer", true);
    let ca_file = write(dir.path(), "ca.pem", &ca.self_signed(&ca_key).expect("a CA").pem());
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().expect("a key");
    let key_file = write(dir.path(), "key.pem", &key.serialize_pem());
    let leaf = params("localhost", false).signed_by(&key, &issuer).expect("a certificate");
    let leaf_file = write(dir.path(), "leaf.pem", &leaf.pem());
    let result = ask(&leaf_file, &key_file, &ca_file).await;
    assert!(matches!(result, Ok(100)), "{result:?}");

    let stranger = params("localhost", false).self_signed(&key).expect("a certificate");
    let stranger = write(dir.path(), "stranger.pem", &stranger.pem());
    let result = ask(&stranger, &key_file, &ca_file).await;
    assert!(untrusted(&result, ""), "{result:?}");
}

fullpipe_testkit::tests! {
    [] a_self_signed_certificate_is_trusted_by_itself_even_if_it_says_it_is_a_ca;
    [] an_issuer_is_trusted_for_what_it_signed_and_for_nothing_else;
}
