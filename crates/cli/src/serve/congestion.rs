//! Another congestion control for some clients.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use fullpipe_quic::{Choose, CongestionControl};
use ipnet::IpNet;

/// The clients of a network get an algorithm of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    network: IpNet,
    congestion: CongestionControl,
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (network, algorithm) = text
            .split_once('=')
            .ok_or("it needs a network and an algorithm, as 192.0.2.0/24=cubic")?;
        // An address alone is a network of one.
        let parsed = network.parse().or_else(|_| network.parse::<IpAddr>().map(IpNet::from));
        let network = parsed.map_err(|_| {
            format!("{network:?} is no network; write it as 192.0.2.0/24 or 2001:db8::/32")
        })?;
        let congestion = algorithm.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { network, congestion })
    }
}

/// The algorithm of a client is that of the first network which it is in.
pub(super) fn choose(rules: &[Rule]) -> Option<Choose> {
    if rules.is_empty() {
        return None;
    }
    let rules = rules.to_vec();
    Some(Arc::new(move |client| {
        // A socket of both families has IPv4 clients at mapped IPv6 addresses.
        let ip = client.address.ip().to_canonical();
        let rule = rules.iter().find(|rule| rule.network.contains(&ip))?;
        Some((rule.congestion, u64::from(client.address.port())))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_network_and_an_algorithm() {
        for (text, network) in [
            ("192.0.2.0/24=cubic", "192.0.2.0/24"),
            ("192.0.2.7=cubic", "192.0.2.7/32"),
            ("2001:db8::/32=cubic", "2001:db8::/32"),
            ("::1=cubic", "::1/128"),
        ] {
            let rule: Rule = text.parse().expect(text);
            assert_eq!(rule.network, network.parse().expect(network), "{text}");
            assert_eq!(rule.congestion.name(), "cubic", "{text}");
        }
        for (text, reason) in [
            ("cubic", "192.0.2.0/24=cubic"),
            ("192.0.2.0/33=cubic", "no network"),
            ("example.org=cubic", "no network"),
            ("192.0.2.0/24=bbr", "unknown algorithm"),
            ("=", "no network"),
        ] {
            let error = text.parse::<Rule>().expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
