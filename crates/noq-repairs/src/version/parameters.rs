//! The transport parameter version_information (RFC 9368 section 3).

use noq_proto::transport_parameters::TransportParameters;

use super::QuicVersions;
use crate::wire::Reader;

const VERSION_INFORMATION: u64 = 0x11;
/// grease_quic_bit (RFC 9287). The bit that it is about is the mark of version 2 here.
const GREASE_QUIC_BIT: u64 = 0x2ab2;

/// The versions that a peer speaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct VersionInformation {
    /// The version of the packets.
    pub(super) chosen: u32,
    /// All, the preferred one first.
    pub(super) available: Vec<u32>,
}

/// The parameters as they are sent: noq's, without the leave to clear the fixed bit, and with the
/// versions.
pub(super) fn encode(
    parameters: &TransportParameters,
    chosen: u32,
    versions: QuicVersions,
) -> Vec<u8> {
    let mut all = Vec::new();
    parameters.write(&mut all);
    let mut encoded = Vec::with_capacity(all.len() + 14);
    let mut rest = Reader(&all);
    while let Some(parameter) = rest.parameter() {
        if parameter.id != GREASE_QUIC_BIT {
            encoded.extend_from_slice(parameter.whole);
        }
    }
    let available = versions.available();
    // Both numbers are below 64, so that each is one byte.
    encoded.extend_from_slice(&[VERSION_INFORMATION as u8, 4 + 4 * available.len() as u8]);
    for version in [&[chosen], available].into_iter().flatten() {
        encoded.extend_from_slice(&version.to_be_bytes());
    }
    encoded
}

/// The peer's versions among its transport parameters; `Ok(None)` if it tells none.
///
/// # Errors
/// It is malformed, which ends the connection with TRANSPORT_PARAMETER_ERROR.
pub(super) fn decode(parameters: &[u8]) -> Result<Option<VersionInformation>, Malformed> {
    let mut rest = Reader(parameters);
    while !rest.0.is_empty() {
        let parameter = rest.parameter().ok_or(Malformed)?;
        if parameter.id != VERSION_INFORMATION {
            continue;
        }
        let (words, odd) = parameter.value.as_chunks::<4>();
        let mut versions = words.iter().map(|word| u32::from_be_bytes(*word));
        let chosen = versions.next().ok_or(Malformed)?;
        let available: Vec<u32> = versions.collect();
        if !odd.is_empty() || chosen == 0 || available.contains(&0) {
            return Err(Malformed);
        }
        return Ok(Some(VersionInformation { chosen, available }));
    }
    Ok(None)
}

/// The bytes are not what the RFC asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

#[cfg(test)]
mod tests {
    use noq::Side;

    use super::*;
    use crate::wire::{V1, V2};

    #[test]
    fn what_is_encoded_is_decoded() {
        // ack_delay_exponent and grease_quic_bit.
        let mut received = &[0x0a, 1, 7, 0x6a, 0xb2, 0][..];
        let parameters = TransportParameters::read(Side::Server, &mut received).expect("valid");
        let encoded = encode(&parameters, V1, QuicVersions::V1AndV2);
        let information = VersionInformation { chosen: V1, available: vec![V2, V1] };
        assert_eq!(decode(&encoded), Ok(Some(information)));
        let mut rest = Reader(&encoded);
        let ids: Vec<u64> =
            std::iter::from_fn(|| rest.parameter()).map(|parameter| parameter.id).collect();
        assert!(ids.contains(&0x0a) && !ids.contains(&GREASE_QUIC_BIT), "{ids:x?}");
        let mut all = Vec::new();
        parameters.write(&mut all);
        assert!(all.windows(2).any(|id| id == [0x6a, 0xb2]), "noq allows it");
        assert_eq!(decode(&all), Ok(None));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        assert_eq!(decode(&[0x11, 8, 0, 0, 0, 1, 0, 0]), Err(Malformed), "cut off");
        assert_eq!(decode(&[0x11, 3, 0, 0, 1]), Err(Malformed), "no version");
        assert_eq!(decode(&[0x11, 6, 0, 0, 0, 1, 0, 0]), Err(Malformed), "half a version");
        assert_eq!(decode(&[0x11, 4, 0, 0, 0, 0]), Err(Malformed), "version 0");
        assert_eq!(decode(&[0x40]), Err(Malformed), "no parameter");
        let alone = VersionInformation { chosen: V1, available: Vec::new() };
        assert_eq!(decode(&[0x11, 4, 0, 0, 0, 1]), Ok(Some(alone)));
    }
}
