//! The URL, taken apart.

use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// The transport that a URL asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scheme {
    /// QUIC.
    Https,
    /// TCP, with HTTP/1.1 and without TLS.
    Tcp,
}

/// A server and what to ask it for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Target {
    pub(super) scheme: Scheme,
    /// DNS name or IP address, as it is resolved and as the certificate must have it.
    pub(super) host: String,
    /// UDP or TCP port.
    pub(super) port: u16,
    /// Path with its query, percent-encoded.
    pub(super) path: String,
}

impl Target {
    /// `https://host:port/path` or `tcp://host:port/path`. What is wrong is told without repeating
    /// a password.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, written) = match text.split_once("://") {
            // By the rules of HTTP, which are those of no other scheme.
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("tcp") => {
                (Scheme::Tcp, format!("https://{rest}"))
            }
            _ => (Scheme::Https, text.to_owned()),
        };
        let url = Url::parse(&written)
            .map_err(|error| format!("{text:?} is no URL ({error}); {EXAMPLE}"))?;
        if url.scheme() != "https" {
            return Err(format!(
                "a URL here begins with https:// or tcp://, not {}:; {EXAMPLE}",
                url.scheme()
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!("there are no user names and no passwords here; {EXAMPLE}"));
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(ip)) => ip.to_string(),
            Some(Host::Ipv6(ip)) => ip.to_string(),
            None => return Err(format!("the URL {text:?} has no host; {EXAMPLE}")),
        };
        let port = match (explicit_port(text, &url), scheme) {
            (Some(port), _) => port,
            (None, Scheme::Https) => HTTPS_PORT,
            (None, Scheme::Tcp) => {
                return Err(format!("the URL {text:?} has no port; {EXAMPLE}"));
            }
        };
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        Ok(Self { scheme, host, port, path: format!("{}{query}", url.path()) })
    }

    /// True if one connection serves both.
    pub(super) fn is_on_the_server_of(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// Host and port, as a URL has them.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The URL without a fragment, by which the same file is known again.
    pub(super) fn url(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Https => "https",
            Scheme::Tcp => "tcp",
        };
        format!("{scheme}://{}{}", self.authority(), self.path)
    }

    /// The file name that the path ends with, decoded.
    pub(super) fn file_name(&self) -> Result<String, String> {
        let path = self.path.split_once('?').map_or(self.path.as_str(), |(path, _)| path);
        let last = path.rsplit('/').next().unwrap_or_default();
        let name = percent_decode_str(last).decode_utf8().unwrap_or_default();
        if matches!(name.as_ref(), "" | "." | "..") || name.contains(['/', '\\']) {
            return Err("the URL does not end with a file name; choose one with -o FILE".to_owned());
        }
        if name.contains(is_hidden) {
            return Err(format!(
                "the file name {name:?} has characters that steer a terminal; choose one with -o FILE"
            ));
        }
        Ok(name.into_owned())
    }
}

const EXAMPLE: &str = "it should be like https://localhost:4433/file or tcp://localhost:80/file";

/// Characters that nobody sees in a list of files and that change what is seen of others: control
/// characters, of which escape sequences are made, and marks of the direction of text.
fn is_hidden(character: char) -> bool {
    let marks = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'];
    character.is_control()
        || marks.contains(&character)
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The default port of https (RFC 9110 section 4.2.2).
const HTTPS_PORT: u16 = 443;

/// The port that is written. `Url` forgets one that is the default of https, and tcp has none.
fn explicit_port(text: &str, url: &Url) -> Option<u16> {
    let authority = text.split_once("://")?.1;
    let authority = authority.split(['/', '?', '#', '\\']).next()?;
    let digits = authority.rsplit_once(':')?.1.trim_end();
    let written = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if written { url.port_or_known_default() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, port: u16, path: &str) -> Target {
        let (scheme, host) = (Scheme::Https, host.to_owned());
        Target { scheme, host, port, path: path.to_owned() }
    }

    #[test]
    fn over_tcp_it_is_the_same() {
        let tcp = |target| Target { scheme: Scheme::Tcp, ..target };
        for (url, expected, authority) in [
            ("tcp://localhost:80/f", tcp(target("localhost", 80, "/f")), "localhost:80"),
            (
                "TCP://Example.ORG:443/a b",
                tcp(target("example.org", 443, "/a%20b")),
                "example.org:443",
            ),
            ("tcp://[::1]:8080", tcp(target("::1", 8080, "/")), "[::1]:8080"),
        ] {
            assert_eq!(Target::parse(url).as_ref(), Ok(&expected), "{url}");
            assert_eq!(expected.authority(), authority);
        }
        assert!(Target::parse("tcp://localhost/f").expect_err("no port").contains("no port"));
    }

    #[test]
    fn a_url_has_a_host_a_port_and_a_path() {
        for (url, expected) in [
            ("https://localhost:4433/f", target("localhost", 4433, "/f")),
            ("https://localhost:443/f", target("localhost", 443, "/f")),
            ("https://127.0.0.1:1", target("127.0.0.1", 1, "/")),
            ("https://[::1]:4433/a/b?c=d#e", target("::1", 4433, "/a/b?c=d")),
            ("HTTPS://Example.ORG:65535/a b/é", target("example.org", 65535, "/a%20b/%C3%A9")),
            ("https://h:1/a/../b", target("h", 1, "/b")),
            ("https://localhost/f", target("localhost", 443, "/f")),
            ("https://localhost:/f", target("localhost", 443, "/f")),
            ("https://[::443]/f:1", target("::443", 443, "/f:1")),
        ] {
            assert_eq!(Target::parse(url), Ok(expected), "{url}");
        }
    }

    #[test]
    fn anything_else_is_answered_with_what_would_be_right() {
        for (url, reason) in [
            ("tcp://localhost/f", "no port"),
            ("tcp://localhost:/f", "no port"),
            ("tcp://[::443]/f", "no port"),
            ("tcp://localhost/f:443", "no port"),
            ("http://localhost:4433/f", "https://"),
            ("ftp://localhost:4433/f", "https://"),
            ("localhost:4433/f", "https://"),
            ("file:///etc/passwd", "https://"),
            ("https://:4433/f", "no URL"),
            ("https://localhost:65536/f", "no URL"),
            ("https://localhost:x/f", "no URL"),
            ("/f", "no URL"),
            ("", "no URL"),
            ("https://me:hidden@localhost:4433/f", "no passwords"),
            ("tcp://me:hidden@localhost:4433/f", "no passwords"),
        ] {
            let error = Target::parse(url).expect_err(url);
            assert!(error.contains(reason) && error.contains(EXAMPLE), "{url}: {error}");
            assert!(!error.contains("hidden") && !error.contains('\n'), "{url}: {error}");
        }
    }

    #[test]
    fn the_file_name_is_the_last_segment_and_stays_in_the_directory() {
        for (url, name) in [
            ("https://h:1/a/b.bin", Some("b.bin")),
            ("https://h:1/b%20c?d=/e", Some("b c")),
            ("https://h:1/", None),
            ("https://h:1", None),
            ("https://h:1/a/", None),
            ("https://h:1/a%2fb", None),
            ("https://h:1/..%2fb", None),
            ("https://h:1/a%5cb", None),
            ("https://h:1/%00", None),
            ("https://h:1/%1b[2Jname", None),
            ("https://h:1/a%0ab", None),
            ("https://h:1/%c2%9b31m", None),
            ("https://h:1/gpj.%e2%80%aeexe", None),
            ("https://h:1/%d7%a9%d7%9c%d7%95%d7%9d", Some("שלום")),
            ("https://h:1/%ff", None),
        ] {
            let found = Target::parse(url).expect(url).file_name().ok();
            assert_eq!(found.as_deref(), name, "{url}");
        }
    }
}
