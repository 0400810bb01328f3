//! Fields of a request that the user adds.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// Fields that the transport or another switch sets.
const OURS: [&str; 11] = [
    "connection",
    "content-length",
    "host",
    "if-range",
    "keep-alive",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that are for the server that the user named, and no other one.
const SECRET: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// `Name: value`, as curl takes it.
pub(super) fn parse(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or("a field is like 'Name: value'; there is no colon in this one")?;
    let known = HeaderName::from_bytes(name.as_bytes());
    let name = known.map_err(|_| format!("{:?} is no name of a field", name.escape_debug()))?;
    if OURS.contains(&name.as_str()) {
        return Err(format!("{name} is not for -H: fullpipe sets it, --continue the range"));
    }
    let value = HeaderValue::from_str(value.trim_matches([' ', '\t']));
    let value =
        value.map_err(|_| format!("the value of {name} has characters that no field has"))?;
    Ok((name, value))
}

/// All of them; a name may come several times.
pub(super) fn of(given: &[(HeaderName, HeaderValue)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in given {
        fields.append(name, value.clone());
    }
    fields
}

/// Leaves out what is not for another server.
pub(super) fn for_another_server(fields: &mut HeaderMap) {
    for name in SECRET {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_a_name_and_a_value() {
        for (text, name, value) in [
            ("Accept: text/html", "accept", "text/html"),
            ("X-Empty:", "x-empty", ""),
            ("a: b:c ", "a", "b:c"),
        ] {
            let (parsed, of_it) = parse(text).expect(text);
            assert_eq!((parsed.as_str(), of_it.to_str().expect("ASCII")), (name, value));
        }
        for (text, reason) in [
            ("hidden", "no colon"),
            (": x", "no name"),
            ("a b: x", "no name"),
            (":path: /", "no name"),
            ("Host: x", "not for -H"),
            ("Range: bytes=0-", "--continue"),
            ("Authorization: hidden\r\nx: y", "authorization"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(reason) && !error.contains("hidden"), "{text}: {error}");
        }
    }

    #[test]
    fn another_server_gets_no_password() {
        let given = ["Authorization: a", "Cookie: b", "Accept: c", "Accept: d"];
        let mut fields = of(&given.map(|field| parse(field).expect(field)));
        assert_eq!(fields.len(), 4);
        for_another_server(&mut fields);
        assert_eq!(fields.get_all("accept").iter().count(), 2);
        assert_eq!(fields.len(), 2);
    }
}
