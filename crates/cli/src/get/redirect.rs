//! Redirects: where an answer sends the client (RFC 9110 section 15.4).

use fullpipe_files::Escaped;
use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};
use url::Url;

use super::target::{Scheme, Target};

/// True if a status says that the file is elsewhere. 300 and 304 say something else.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The target that an answer names, which may be relative to the one that was asked for. From
/// https:// it is on a server with TLS again, and in no case a local file.
pub(super) fn next(from: &Target, headers: &HeaderMap) -> Result<Target, String> {
    let mut locations = headers.get_all(LOCATION).iter();
    let (Some(location), None) = (locations.next(), locations.next()) else {
        return Err("the redirect names no place, or several".to_owned());
    };
    let text = String::from_utf8_lossy(location.as_bytes());
    let shown = Escaped(&text);
    let base = match from.scheme {
        Scheme::Https => format!("https://{}{}", from.authority(), from.path),
        Scheme::Tcp => format!("http://{}{}", from.authority(), from.path),
    };
    let joined = Url::parse(&base).and_then(|base| base.join(&text));
    let joined = joined.map_err(|error| format!("the redirect leads to {shown}: {error}"))?;
    let wrong = |error| format!("the redirect leads to {shown}: {error}");
    match (joined.scheme(), from.scheme) {
        ("https", _) => Target::parse(joined.as_str()).map_err(wrong),
        ("http", Scheme::Tcp) => {
            let port = joined.port_or_known_default().unwrap_or(80);
            let host = joined.host_str().unwrap_or_default();
            let rest = &joined[url::Position::BeforePath..];
            let user = &joined[url::Position::BeforeUsername..url::Position::BeforeHost];
            Target::parse(&format!("tcp://{user}{host}:{port}{rest}")).map_err(wrong)
        }
        ("http", Scheme::Https) => Err(format!(
            "the redirect leads from https:// to {shown}, which has no TLS; it is not followed"
        )),
        _ => Err(format!("the redirect leads to {shown}, which is not followed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(from: &str, to: &str) -> Result<Target, String> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, to.parse().expect("a value"));
        next(&Target::parse(from).expect(from), &headers)
    }

    #[test]
    fn a_redirect_is_absolute_or_relative() {
        for (from, to, expected) in [
            ("https://a:1/b/c?d", "e", "https://a:1/b/e"),
            ("https://a:1/b/c", "/e?f=g#h", "https://a:1/e?f=g"),
            ("https://a:1/b", "//other/c", "https://other/c"),
            ("https://a:1/b", "https://b/c d", "https://b/c%20d"),
            ("https://[::1]:4433/b", "?q", "https://[::1]:4433/b?q"),
            ("tcp://a:1/b", "/c", "tcp://a:1/c"),
            ("tcp://a:1/b", "http://c/d", "tcp://c:80/d"),
            ("tcp://a:1/b", "http://[::1]:8/d?e", "tcp://[::1]:8/d?e"),
            ("tcp://a:1/b", "https://c/d", "https://c/d"),
        ] {
            let expected = Target::parse(expected).expect(expected);
            assert_eq!(led(from, to), Ok(expected), "{from} to {to}");
        }
    }

    #[test]
    fn a_redirect_does_not_lead_out_of_tls_or_to_a_file() {
        for (from, to) in [
            ("https://a/b", "http://a/b"),
            ("https://a/b", "tcp://a:80/b"),
            ("https://a/b", "file:///etc/passwd"),
            ("tcp://a:1/b", "file:///etc/passwd"),
            ("tcp://a:1/b", "tcp://a:1/b"),
            ("https://a/b", "ftp://a/b"),
            ("https://a/b", "data:text/plain,x"),
            ("https://a/b", "https://me:hidden@a/b"),
            ("tcp://a:1/b", "http://me:hidden@a/b"),
            ("https://a/b", "https://"),
        ] {
            let error = led(from, to).expect_err(to);
            assert!(error.contains("leads"), "{error}");
        }
        let from = Target::parse("https://a/b").expect("a URL");
        assert!(next(&from, &HeaderMap::new()).is_err());
    }
}
