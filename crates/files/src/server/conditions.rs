//! Validators of a file and the preconditions of a request (RFC 9110 sections 8.8 and 13).

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{
    HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
};

use crate::content::Stamp;

/// Age from which a file's time of change tells its content: whoever changes it again within one
/// tick of the file system's clock, or within the second that a date has, leaves it the same time.
const SETTLED: Duration = Duration::from_secs(2);

/// The mark that tells one content of a file from another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Validator {
    /// The opaque tag, with its quotation marks.
    tag: String,
    /// True if equal validators mean equal bytes (RFC 9110 section 8.8.1).
    is_strong: bool,
    /// In whole seconds, as a date has them.
    modified: SystemTime,
}

/// The outcome of a request's preconditions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    /// Do as it asks.
    Proceed,
    /// 304: the client has it.
    NotModified,
    /// 412.
    Failed,
}

impl Validator {
    pub(super) fn of(stamp: &Stamp, now: SystemTime) -> Self {
        let since = stamp.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let is_strong = now.duration_since(stamp.modified).is_ok_and(|age| age >= SETTLED);
        // Not the tag of later: by then the file may have other content, and still this time.
        let is_new = if is_strong { "" } else { "-new" };
        let tag = format!("\"{:x}-{:x}{is_new}\"", stamp.bytes, since.as_nanos());
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs());
        Self { tag, is_strong, modified }
    }

    /// The value of ETag.
    pub(super) fn entity_tag(&self) -> String {
        if self.is_strong { self.tag.clone() } else { format!("W/{}", self.tag) }
    }

    /// The value of Last-Modified: none while the file may change within the same second, which a
    /// time in the future is as well (RFC 9110 section 8.8.2.1).
    pub(super) fn last_modified(&self) -> Option<String> {
        self.is_strong.then(|| httpdate::fmt_http_date(self.modified))
    }

    /// The preconditions in their order (RFC 9110 section 13.2.2), for GET and HEAD.
    pub(super) fn decide(&self, headers: &HeaderMap) -> Decision {
        if headers.contains_key(IF_MATCH) {
            if !self.is_listed(headers, IF_MATCH, true) {
                return Decision::Failed;
            }
        } else if date(headers, IF_UNMODIFIED_SINCE).is_some_and(|date| !self.is_of(date)) {
            return Decision::Failed;
        }
        let has_it = if headers.contains_key(IF_NONE_MATCH) {
            self.is_listed(headers, IF_NONE_MATCH, false)
        } else {
            date(headers, IF_MODIFIED_SINCE).is_some_and(|date| self.is_of(date))
        };
        if has_it { Decision::NotModified } else { Decision::Proceed }
    }

    /// True if the content of that second is still there.
    fn is_of(&self, date: SystemTime) -> bool {
        self.modified < date || self.modified == date && self.is_strong
    }

    /// True if a Range counts: there is no If-Range, or it names these bytes (RFC 9110 section
    /// 13.1.5).
    pub(super) fn allows_range(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(IF_RANGE).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return !headers.contains_key(IF_RANGE);
        };
        let value = value.to_str().unwrap_or_default().trim();
        let names_it = value == self.tag
            || httpdate::parse_http_date(value).is_ok_and(|date| date == self.modified);
        names_it && self.is_strong
    }

    /// True if a list of entity tags has this one, or is `*`, which any file is.
    fn is_listed(&self, headers: &HeaderMap, name: HeaderName, strongly: bool) -> bool {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.into_iter().any(|value| {
            value.trim() == "*"
                || entity_tags(value).any(|(is_weak, tag)| {
                    tag == self.tag && (!strongly || self.is_strong && !is_weak)
                })
        })
    }
}

/// The entity tags of a list, each with whether it is weak, up to what is none.
fn entity_tags(list: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = list;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let opaque = rest.strip_prefix("W/");
        let (is_weak, from) = (opaque.is_some(), opaque.unwrap_or(rest));
        let end = from.strip_prefix('"')?.find('"')? + 2;
        let (tag, behind) = from.split_at(end);
        rest = behind;
        Some((is_weak, tag))
    })
}

/// The date of a field that is there once; another one is to be ignored.
fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    httpdate::parse_http_date(value.to_str().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// Sun, 09 Sep 2001 01:46:40 GMT and a half.
    fn modified() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_000_500)
    }

    fn validator(age: u64) -> Validator {
        let stamp = Stamp { modified: modified(), bytes: 0x20 };
        Validator::of(&stamp, modified() + Duration::from_secs(age))
    }

    const TAG: &str = "\"20-de0b6b3c5316500\"";
    const NEW: &str = "W/\"20-de0b6b3c5316500-new\"";
    const DATE: &str = "Sun, 09 Sep 2001 01:46:40 GMT";
    const BEFORE: &str = "Sun, 09 Sep 2001 01:46:39 GMT";

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    #[test]
    fn a_file_that_was_changed_just_now_has_a_weak_validator() {
        assert_eq!(
            (validator(2).entity_tag().as_str(), validator(2).last_modified().as_deref()),
            (TAG, Some(DATE))
        );
        assert_eq!((validator(1).entity_tag().as_str(), validator(1).last_modified()), (NEW, None));
        // A file of the year 12000 has a date that HTTP cannot write.
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(316_600_000_000);
        let future = Validator::of(&Stamp { modified: far, bytes: 0 }, SystemTime::now());
        assert_eq!((future.is_strong, future.last_modified()), (false, None));
    }

    #[test]
    fn preconditions_are_looked_at_in_their_order() {
        use Decision::{Failed, NotModified, Proceed};
        let (weak, other) = (format!("W/{TAG}"), "\"a,b\", W/\"c\"");
        let listed = format!("{other} ,{TAG}");
        for (fields, strong, settled) in [
            (&[][..], Proceed, true),
            (&[(IF_NONE_MATCH, TAG)], NotModified, true),
            (&[(IF_NONE_MATCH, TAG)], Proceed, false),
            (&[(IF_NONE_MATCH, NEW)], NotModified, false),
            (&[(IF_NONE_MATCH, NEW)], Proceed, true),
            (&[(IF_MODIFIED_SINCE, DATE)], Proceed, false),
            (&[(IF_UNMODIFIED_SINCE, DATE)], Failed, false),
            (&[(IF_NONE_MATCH, &weak)], NotModified, true),
            (&[(IF_NONE_MATCH, &listed)], NotModified, true),
            (&[(IF_NONE_MATCH, "*")], NotModified, true),
            (&[(IF_NONE_MATCH, other)], Proceed, true),
            (&[(IF_NONE_MATCH, "\"")], Proceed, true),
            (&[(IF_NONE_MATCH, other), (IF_NONE_MATCH, TAG)], NotModified, true),
            (&[(IF_NONE_MATCH, other), (IF_MODIFIED_SINCE, DATE)], Proceed, true),
            (&[(IF_MODIFIED_SINCE, DATE)], NotModified, true),
            (&[(IF_MODIFIED_SINCE, BEFORE)], Proceed, true),
            (&[(IF_MODIFIED_SINCE, "yesterday")], Proceed, true),
            (&[(IF_MODIFIED_SINCE, DATE), (IF_MODIFIED_SINCE, DATE)], Proceed, true),
            (&[(IF_MATCH, TAG)], Proceed, true),
            (&[(IF_MATCH, TAG)], Failed, false),
            (&[(IF_MATCH, &weak)], Failed, true),
            (&[(IF_MATCH, "*")], Proceed, true),
            (&[(IF_MATCH, other)], Failed, true),
            (&[(IF_MATCH, TAG), (IF_UNMODIFIED_SINCE, BEFORE)], Proceed, true),
            (&[(IF_UNMODIFIED_SINCE, BEFORE)], Failed, true),
            (&[(IF_UNMODIFIED_SINCE, DATE)], Proceed, true),
            (&[(IF_MATCH, other), (IF_NONE_MATCH, TAG)], Failed, true),
        ] {
            let decision = validator(if settled { 2 } else { 1 }).decide(&headers(fields));
            assert_eq!(decision, strong, "{fields:?}, settled {settled}");
        }
    }

    #[test]
    fn a_part_is_for_who_has_the_rest_of_it() {
        let weak = format!("W/{TAG}");
        for (fields, expected) in [
            (&[][..], true),
            (&[(IF_RANGE, TAG)], true),
            (&[(IF_RANGE, DATE)], true),
            (&[(IF_RANGE, &weak)], false),
            (&[(IF_RANGE, "\"other\"")], false),
            (&[(IF_RANGE, BEFORE)], false),
            (&[(IF_RANGE, TAG), (IF_RANGE, TAG)], false),
        ] {
            assert_eq!(validator(2).allows_range(&headers(fields)), expected, "{fields:?}");
            let unsettled = validator(1).allows_range(&headers(fields));
            assert_eq!(unsettled, fields.is_empty(), "{fields:?}");
        }
    }
}
