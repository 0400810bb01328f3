use noq::crypto::ServerConfig as _;

use super::*;
use crate::version::parameters::VersionInformation;

#[test]
fn the_version_is_that_of_the_first_packet_unless_the_client_offers_another() {
    let hello = |chosen, available: &[u32], resumes| {
        let available = available.to_vec();
        Hello { versions: Some(VersionInformation { chosen, available }), resumes }
    };
    let both = QuicVersions::V1AndV2;
    let silent = Hello::default();
    for (hello, begun, mine, version) in [
        (&silent, V1, both, V1),
        (&silent, V2, both, V2),
        (&hello(V1, &[V2, V1], false), V1, both, V2),
        (&hello(V1, &[V2, V1], false), V1, QuicVersions::V1, V1),
        (&hello(V1, &[V2, V1], true), V1, both, V1),
        (&hello(V2, &[V2], true), V2, both, V2),
        (&hello(V1, &[V1], false), V1, both, V1),
    ] {
        assert_eq!(chosen(hello, begun, mine).expect("a version"), version, "{hello:?}");
    }
    for (hello, begun, code) in [
        (&hello(V1, &[V2], false), V1, TransportErrorCode::TRANSPORT_PARAMETER_ERROR),
        (&hello(V2, &[V2, V1], false), V1, version_error("").code),
        (&hello(V1, &[V2, V1], false), V2, version_error("").code),
        (&hello(RESERVED, &[RESERVED, V1], false), V1, version_error("").code),
    ] {
        let error = chosen(hello, begun, both).expect_err("no version");
        assert_eq!(error.code, code, "{hello:?} in {begun:#x}");
    }
}

/// A version that nobody speaks (RFC 9000 section 15).
const RESERVED: u32 = 0x0a0a_0a0a;

/// A server of both versions with a certificate of its own.
fn server(notes: NegotiationTable) -> ServerCrypto {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key.into())
        .expect("a pair");
    config.alpn_protocols = vec![b"a protocol".to_vec()];
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let suite = suite.tls13().and_then(|suite| suite.quic_suite()).expect("ring has it");
    let config = Arc::new(config);
    ServerCrypto { v1: config.clone(), v2: config, suite, versions: QuicVersions::V1AndV2, notes }
}

/// The answer of a server to a ClientHello that tells one version, in packets of another.
fn answer(told: u32, begun: u32) -> Result<bool, TransportError> {
    let notes = NegotiationTable::default();
    let crypto = server(notes.clone());
    // initial_source_connection_id, which a client always sends.
    let parameters = |side| {
        let mut bytes = &[0x0f, 1, 7][..];
        TransportParameters::read(side, &mut bytes).expect("valid")
    };
    let id = ConnectionId::new(&[1; 8]);
    if begun == V2 {
        notes.begins_with_v2(id);
    }
    let mut server = crypto.start_session(V1, &parameters(Side::Server));
    let _keys = server.initial_keys(id, Side::Server);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"a protocol".to_vec()];
    let name = ServerName::try_from("localhost").expect("a name");
    let told = encode(&parameters(Side::Client), told, QuicVersions::V1AndV2);
    let client = ClientConnection::new(Arc::new(config), labels(begun), name, told);
    let mut hello = Vec::new();
    let _none_yet = client.expect("a client").write_hs(&mut hello);
    server.read_handshake(&hello)
}

/// RFC 9368 section 4.
#[test]
fn a_client_has_to_tell_the_version_of_its_packets() {
    for (told, begun) in [(V1, V1), (V2, V2)] {
        assert!(answer(told, begun).is_ok(), "{told:#x} in {begun:#x}");
    }
    for (told, begun) in [(V2, V1), (V1, V2)] {
        let error = answer(told, begun).expect_err("another version");
        assert_eq!(error.code, version_error("").code, "{told:#x} in {begun:#x}");
    }
}
