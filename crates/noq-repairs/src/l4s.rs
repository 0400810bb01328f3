//! Feedback of L4S for noq, which sends ECT(0) and holds a count of ECT(1) for a changed field.

use std::sync::Arc;

use bytes::BytesMut;
use fullpipe_adapter::{EcnCounts, Marks};
use noq::PathId;
use noq::crypto::{self, CryptoError, PacketKey};

use crate::layer::{self, Layer, Space};

/// A client's TLS for one connection whose packets leave as ECT(1) where noq wrote ECT(0), at a
/// socket of its owner's: in the ACKs that noq reads, the peer's count of ECT(1) is that of ECT(0).
/// `marks` has the number of packets that the peer counted as CE.
pub fn l4s_client(
    inner: Arc<dyn crypto::ClientConfig>,
    marks: &Marks,
) -> Arc<dyn crypto::ClientConfig> {
    let counts = || EcnCounts::new(marks.clone());
    let initial = EcnCounts::of_initial(marks.clone());
    layer::client(inner, Feedback { initial, handshake: counts(), data: counts() })
}

/// The counts of each number space.
#[derive(Clone)]
struct Feedback {
    initial: EcnCounts,
    handshake: EcnCounts,
    data: EcnCounts,
}

impl Layer for Feedback {
    const SEES_DATA: bool = false;

    type Second = ();

    fn opener(&self, space: Space, inner: Box<dyn PacketKey>) -> Box<dyn PacketKey> {
        let counts = match space {
            Space::Initial => &self.initial,
            Space::Handshake => &self.handshake,
            Space::Data => &self.data,
        };
        Box::new(Opener { inner, counts: counts.clone() })
    }
}

/// A key for the peer's packets of a number space.
struct Opener {
    inner: Box<dyn PacketKey>,
    counts: EcnCounts,
}

impl PacketKey for Opener {
    fn encrypt(&self, path: PathId, number: u64, packet: &mut [u8], header_len: usize) {
        self.inner.encrypt(path, number, packet, header_len);
    }

    fn decrypt(
        &self,
        path: PathId,
        number: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.inner.decrypt(path, number, header, payload)?;
        if let Some(instead) = self.counts.opened(payload) {
            *payload = instead.as_slice().into();
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
