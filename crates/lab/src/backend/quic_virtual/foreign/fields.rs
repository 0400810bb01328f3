//! The text of `#[derive(Debug)]`, field by field, while it is printed.

use std::fmt::{self, Debug, Write};

/// Hands each field of a struct to `take`, by its name and with the text of its value. The values
/// of fields named `skip` are thrown away as they come: such a field may be a queue of ten thousand
/// packets. With `ends_there` nothing is printed from that field on.
pub(super) fn read(value: &dyn Debug, skip: &str, ends_there: bool, take: impl FnMut(&str, &str)) {
    let mut reader = Reader {
        take,
        skip,
        ends_there,
        depth: 0,
        part: Part::Name,
        name: String::new(),
        value: String::new(),
    };
    // An error is the end that was asked for.
    let _ = write!(reader, "{value:?}");
}

/// The same of a struct that is printed already.
#[cfg(feature = "quinn")]
pub(super) fn read_text(text: &str, take: impl FnMut(&str, &str)) {
    read(&format_args!("{text}"), "", false, take);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Name,
    Value,
    Skipped,
}

struct Reader<'a, F> {
    take: F,
    skip: &'a str,
    ends_there: bool,
    /// Brackets that are open; the fields are within the first.
    depth: u32,
    part: Part,
    name: String,
    value: String,
}

impl<F: FnMut(&str, &str)> Reader<'_, F> {
    fn field_ends(&mut self) {
        if self.part == Part::Value {
            (self.take)(self.name.trim(), self.value.trim());
        }
        self.name.clear();
        self.value.clear();
        self.part = Part::Name;
    }

    fn push(&mut self, c: char) {
        match self.part {
            Part::Name => self.name.push(c),
            Part::Value => self.value.push(c),
            Part::Skipped => {}
        }
    }
}

impl<F: FnMut(&str, &str)> Write for Reader<'_, F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '{' | '[' | '(' => {
                    self.depth += 1;
                    if self.depth > 1 {
                        self.push(c);
                    }
                }
                '}' | ']' | ')' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.field_ends();
                    } else {
                        self.push(c);
                    }
                }
                ',' if self.depth == 1 => self.field_ends(),
                ':' if self.depth == 1 && self.part == Part::Name => {
                    let is_skipped = self.name.trim() == self.skip;
                    if is_skipped && self.ends_there {
                        return Err(fmt::Error);
                    }
                    self.part = if is_skipped { Part::Skipped } else { Part::Value };
                }
                // The name of the struct.
                _ if self.depth == 0 => {}
                c => self.push(c),
            }
        }
        Ok(())
    }
}

/// A struct of values that are read from fields of the same names, and which of them were.
macro_rules! values {
    ($name:ident { $($field:ident: $type:ty = $read:expr),* $(,)? }) => {
        #[derive(Default)]
        struct $name {
            $($field: $type,)*
            found: u64,
        }

        impl $name {
            const NAMES: &[&str] = &[$(stringify!($field)),*];

            fn take(&mut self, name: &str, text: &str) {
                let mut bit = 1;
                $(
                    if name == stringify!($field) {
                        if let Some(value) = $read(text) {
                            self.$field = value;
                            self.found |= bit;
                        }
                        return;
                    }
                    bit <<= 1;
                )*
                let _one_past_the_last = bit;
            }

            /// The first field that did not come, or whose text says something else.
            fn missing(&self) -> Option<&'static str> {
                (0..).zip(Self::NAMES).find(|(i, _)| self.found >> i & 1 == 0).map(|(_, name)| *name)
            }
        }
    };
}

pub(super) use values;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[expect(dead_code)]
    struct Inner {
        a: Option<u64>,
        packets: u8,
    }

    #[derive(Debug)]
    #[expect(dead_code)]
    struct Outer {
        first: u64,
        inner: Inner,
        state: Result<u8, (u8, u8)>,
        packets: [Vec<Inner>; 2],
        last: f64,
    }

    fn outer() -> Outer {
        let inner = || Inner { a: Some(3), packets: 9 };
        Outer {
            first: 1,
            inner: inner(),
            state: Err((4, 5)),
            packets: [vec![inner(), inner()], vec![]],
            last: 0.5,
        }
    }

    fn all(ends_there: bool) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        read(&outer(), "packets", ends_there, |name, value| {
            fields.push((name.to_owned(), value.to_owned()));
        });
        fields
    }

    #[test]
    fn the_fields_of_the_outer_struct_come_with_the_whole_of_their_values() {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let before = [
            ("first", "1"),
            ("inner", "Inner { a: Some(3), packets: 9 }"),
            ("state", "Err((4, 5))"),
        ];
        assert_eq!(all(true), before.map(owned));
        let (mut fields, last) = (all(false), owned(("last", "0.5")));
        assert_eq!(fields.pop(), Some(last));
        assert_eq!(fields, before.map(owned));
    }

    #[test]
    fn a_field_that_is_not_there_is_told_by_its_name() {
        values!(Some3 {
            first: u64 = |t: &str| t.parse().ok(),
            last: f64 = |t: &str| t.parse().ok(),
            state: u8 = |t: &str| t.parse().ok()
        });
        let mut values = Some3::default();
        read(&outer(), "packets", true, |name, text| values.take(name, text));
        assert_eq!((values.first, values.missing()), (1, Some("last")));
        read(&outer(), "packets", false, |name, text| values.take(name, text));
        assert_eq!((values.last, values.missing()), (0.5, Some("state")));
        assert_eq!(values.state, 0);
    }
}
