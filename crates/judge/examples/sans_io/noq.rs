//! noq-proto with its own congestion controls.

super::world::quic_peer!(noq_proto, {
    use std::num::NonZeroUsize;

    use noq_proto::congestion::{Bbr3Config, CubicConfig, NewRenoConfig};

    fn set_congestion_control(transport: &mut TransportConfig, name: &str) {
        match name {
            "bbr3" => transport.congestion_controller_factory(Arc::new(Bbr3Config::default())),
            "cubic" => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
            _ => transport.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        };
    }

    fn endpoint(seed: u8, server: Option<Arc<ServerConfig>>) -> Endpoint {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([seed; 32]));
        Endpoint::new(Arc::new(config), server, true)
    }

    fn handle(
        endpoint: &mut Endpoint,
        now: StdInstant,
        remote: SocketAddr,
        datagram: BytesMut,
        reply: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, noq_proto::FourTuple::from_remote(remote), None, datagram, reply)
    }

    fn timer(connection: &mut Connection) -> Option<StdInstant> {
        connection.poll_timeout()
    }

    /// The bytes of a burst, and of each datagram in it.
    fn transmit(
        connection: &mut Connection,
        now: StdInstant,
        buffer: &mut Vec<u8>,
    ) -> Option<(usize, Option<usize>)> {
        const MOST: NonZeroUsize = NonZeroUsize::new(10).expect("ten");
        connection.poll_transmit(now, MOST, buffer).map(|t| (t.size, t.segment_size))
    }
});
