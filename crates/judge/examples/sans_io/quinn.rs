//! quinn-proto with its own congestion controls.

super::world::quic_peer!(quinn_proto, {
    use quinn_proto::congestion::{BbrConfig, CubicConfig, NewRenoConfig};

    fn set_congestion_control(transport: &mut TransportConfig, name: &str) {
        match name {
            "bbr" => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
            "cubic" => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
            _ => transport.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        };
    }

    fn endpoint(seed: u8, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(Arc::new(EndpointConfig::default()), server, true, Some([seed; 32]))
    }

    fn handle(
        endpoint: &mut Endpoint,
        now: StdInstant,
        remote: SocketAddr,
        datagram: BytesMut,
        reply: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        endpoint.handle(now, remote, None, None, datagram, reply)
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
        connection.poll_transmit(now, 10, buffer).map(|t| (t.size, t.segment_size))
    }
});
