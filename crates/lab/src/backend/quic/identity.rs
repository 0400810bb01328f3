//! The certificate of a run's servers.

use std::sync::Arc;

use noq_proto::rustls::crypto::ring;
use noq_proto::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use noq_proto::rustls::version::TLS13;
use noq_proto::rustls::{ClientConfig, RootCertStore};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber};

use crate::backend::RunError;

/// A certificate that signs itself, its key and what trusts it. All its sizes are the same in each
/// run: signatures of Ed25519 have one length.
#[derive(Debug)]
pub(in crate::backend) struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    roots: Arc<RootCertStore>,
}

impl Identity {
    /// Of a server with this DNS name.
    pub(in crate::backend) fn new(name: &str) -> Result<Self, RunError> {
        let key = KeyPair::generate_for(&PKCS_ED25519).map_err(certificate)?;
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(certificate)?;
        params.serial_number = Some(SerialNumber::from(1));
        let own = params.self_signed(&key).map_err(certificate)?.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(own.clone()).map_err(certificate)?;
        Ok(Self { certificate: own, key: key.serialize_der(), roots: Arc::new(roots) })
    }

    /// For the server.
    pub(in crate::backend) fn chain_and_key(
        &self,
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        (vec![self.certificate.clone()], PrivatePkcs8KeyDer::from(self.key.clone()).into())
    }

    /// For its clients.
    pub(in crate::backend) fn roots(&self) -> Arc<RootCertStore> {
        self.roots.clone()
    }

    /// TLS of its clients, as the stacks make it of [`Self::roots`].
    pub(in crate::backend) fn client(&self) -> Result<Arc<ClientConfig>, RunError> {
        let provider = Arc::new(ring::default_provider());
        let versions = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(certificate)?;
        let mut config = versions.with_root_certificates(self.roots()).with_no_client_auth();
        config.enable_early_data = true;
        Ok(Arc::new(config))
    }
}

pub(in crate::backend) fn certificate(
    error: impl std::error::Error + Send + Sync + 'static,
) -> RunError {
    RunError::Certificate(Box::new(error))
}
