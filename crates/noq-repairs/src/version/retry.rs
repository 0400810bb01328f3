//! The integrity tag of Retry packets (RFC 9001 section 5.8, RFC 9369 section 3.3.3).

use noq::ConnectionId;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::wire::V2;

const KEY_V1: [u8; 16] = 0xbe0c_690b_9f66_575a_1d76_6b54_e368_c84e_u128.to_be_bytes();
const NONCE_V1: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];
const KEY_V2: [u8; 16] = 0x8fb4_b01b_56ac_48e2_60fb_cbce_ad7c_cc92_u128.to_be_bytes();
const NONCE_V2: [u8; 12] = [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a];

/// The tag of a Retry without it, as it is on the wire.
pub fn tag(version: u32, first_id: ConnectionId, packet: &[u8]) -> Option<[u8; 16]> {
    let (key, nonce) = if version == V2 { (KEY_V2, NONCE_V2) } else { (KEY_V1, NONCE_V1) };
    let mut pseudo_packet = Vec::with_capacity(1 + first_id.len() + packet.len());
    pseudo_packet.push(u8::try_from(first_id.len()).ok()?);
    pseudo_packet.extend_from_slice(&first_id);
    pseudo_packet.extend_from_slice(packet);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(&pseudo_packet), &mut []).ok()?;
    tag.as_ref().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::V1;

    /// The packets of RFC 9001 appendix A.4 and RFC 9369 appendix A.4.
    #[test]
    fn the_rfcs_packets_have_these_tags() {
        let first_id = ConnectionId::new(&0x8394_c8f0_3e51_5708_u64.to_be_bytes());
        let packet = |first: u8, version: u32| {
            let source = 0xf067_a550_2a42_62b5_u64.to_be_bytes();
            [&[first][..], &version.to_be_bytes(), &[0, 8], &source, b"token"].concat()
        };
        let v1 = tag(V1, first_id, &packet(0xff, V1)).map(u128::from_be_bytes);
        assert_eq!(v1, Some(0x04a2_65ba_2eff_4d82_9058_fb3f_0f24_96ba));
        let v2 = tag(V2, first_id, &packet(0xcf, V2)).map(u128::from_be_bytes);
        assert_eq!(v2, Some(0xc864_6ce8_bfe3_3952_d955_5436_65dc_c7b6));
    }
}
