//! Another congestion control for some clients.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use fullpipe_files::{Arrival, Choose, ChooseByName, CongestionControl};
use ipnet::IpNet;
use url::Host;

/// Some clients get an algorithm of their own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    clients: Clients,
    congestion: CongestionControl,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Clients {
    /// Those of a network.
    Of(IpNet),
    /// Those that call the server by this name.
    Calling(String),
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (clients, algorithm) = text.split_once('=').ok_or(
            "it needs a network or a server name, and an algorithm, as 192.0.2.0/24=cubic or example.org=cubic",
        )?;
        // An address alone is a network of one.
        let network = clients.parse().or_else(|_| clients.parse::<IpAddr>().map(IpNet::from));
        let clients = match (network, Host::parse(clients)) {
            (Ok(network), _) => Clients::Of(network),
            // In a handshake a name is in lower case and without a dot at its end, as here.
            (Err(_), Ok(Host::Domain(name)))
                if name.contains(|c: char| c.is_ascii_alphabetic()) =>
            {
                Clients::Calling(name.trim_end_matches('.').to_owned())
            }
            _ => {
                return Err(format!(
                    "{clients:?} is no network and no server name; write it as 192.0.2.0/24, 2001:db8::/32 or example.org"
                ));
            }
        };
        let congestion = algorithm.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { clients, congestion })
    }
}

impl Rule {
    pub(super) fn congestion(&self) -> CongestionControl {
        self.congestion
    }

    fn fits(&self, client: SocketAddr, name: Option<&str>) -> bool {
        match &self.clients {
            // A socket of both families has IPv4 clients at mapped IPv6 addresses.
            Clients::Of(network) => network.contains(&client.ip().to_canonical()),
            Clients::Calling(own) => name.is_some_and(|name| name.eq_ignore_ascii_case(own)),
        }
    }
}

/// The algorithm of the first rule that fits a client.
fn first(rules: &[Rule], client: &Arrival, name: Option<&str>) -> Option<(CongestionControl, u64)> {
    let rule = rules.iter().find(|rule| rule.fits(client.address, name))?;
    Some((rule.congestion, u64::from(client.address.port())))
}

/// The algorithm for a client that has only its address.
pub(super) fn of_network(rules: &[Rule], client: SocketAddr) -> Option<CongestionControl> {
    rules.iter().find(|rule| rule.fits(client, None)).map(Rule::congestion)
}

/// The choice by the rules: at a client's first packet, or once its name for the server is known if
/// a rule asks for it.
pub(super) fn choose(rules: &[Rule]) -> (Option<Choose>, Option<ChooseByName>) {
    let by_name = rules.iter().any(|rule| matches!(rule.clients, Clients::Calling(_)));
    let rules = rules.to_vec();
    match (rules.is_empty(), by_name) {
        (true, _) => (None, None),
        (false, false) => (Some(Arc::new(move |client| first(&rules, client, None))), None),
        (false, true) => (None, Some(Arc::new(move |client, name| first(&rules, client, name)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_network_or_a_name_and_an_algorithm() {
        for (text, network) in [
            ("192.0.2.0/24=cubic", "192.0.2.0/24"),
            ("192.0.2.7=cubic", "192.0.2.7/32"),
            ("2001:db8::/32=cubic", "2001:db8::/32"),
            ("::1=cubic", "::1/128"),
        ] {
            let rule: Rule = text.parse().expect(text);
            assert_eq!(rule.clients, Clients::Of(network.parse().expect(network)), "{text}");
            assert_eq!(rule.congestion.name(), "cubic", "{text}");
        }
        for (text, name) in [
            ("example.org=cubic", "example.org"),
            ("LOCALHOST=cubic", "localhost"),
            ("example.org.=cubic", "example.org"),
        ] {
            let rule: Rule = text.parse().expect(text);
            assert_eq!(rule.clients, Clients::Calling(name.to_owned()), "{text}");
        }
        for (text, reason) in [
            ("cubic", "192.0.2.0/24=cubic or example.org=cubic"),
            ("192.0.2.0/33=cubic", "no network and no server name"),
            ("two words=cubic", "no network and no server name"),
            ("192.0.2.0/24=bbr", "unknown algorithm"),
            ("=", "no network and no server name"),
        ] {
            let error = text.parse::<Rule>().expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
