//! The grammar of expectations:
//!
//! ```text
//! expectation = sum ( ">=" | "<=" | ">" | "<" | "==" ) sum [ window ]
//! sum         = product { ( "+" | "-" ) product }
//! product     = factor { ( "*" | "/" ) factor }
//! factor      = number | term | "(" sum ")"
//! term        = [ ( "flow" | "link" ) "[" which "]" "." ] metric [ "[" pick { "," pick } "]" ]
//! pick        = value | axis "=" value
//! window      = "after" time | "before" time | "from" time "to" time
//! ```

use fullpipe_cc::Duration;

use super::metric::{Level, Metric};
use super::{Comparison, Expression, Operator, Scope, Term, Which, Window};
use crate::units::parse_duration;

/// An expectation as it was written, before anything in it is looked up.
pub(super) struct Sentence {
    pub(super) left: Expression,
    pub(super) comparison: Comparison,
    pub(super) right: Expression,
    pub(super) window: Window,
}

/// What a pick says: perhaps the axis, and the value.
pub(super) type Pick = (Option<String>, String);

pub(super) fn sentence(text: &str) -> Result<Sentence, String> {
    let mut parser = Parser { rest: text.trim_start(), depth: 0 };
    let left = parser.sum()?;
    let comparison = parser.comparison()?;
    let right = parser.sum()?;
    let window = parser.window()?;
    match parser.rest {
        "" => Ok(Sentence { left, comparison, right, window }),
        rest => Err(unexpected(rest, "the end, or a window like 'after 10s'")),
    }
}

/// Deeper brackets than anybody writes would only fill the stack.
const MAX_DEPTH: u32 = 32;

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}

fn unexpected(rest: &str, wanted: &str) -> String {
    let found: String = rest.chars().take(20).flat_map(char::escape_debug).collect();
    match found.as_str() {
        "" => format!("it ends where {wanted} should come; write it like queue_ms.p95 <= 10"),
        found => format!("'{found}' stands where {wanted} should come"),
    }
}

impl<'a> Parser<'a> {
    /// Takes a sign, and the space behind it.
    fn take(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// Takes all characters that fit, without the space behind them.
    fn span(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        loop {
            let operator = match () {
                () if self.take("+") => Operator::Plus,
                () if self.take("-") => Operator::Minus,
                () => return Ok(left),
            };
            left = Expression::Of(Box::new(left), operator, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.factor()?;
        loop {
            let operator = match () {
                () if self.take("*") => Operator::Times,
                () if self.take("/") => Operator::Over,
                () => return Ok(left),
            };
            left = Expression::Of(Box::new(left), operator, Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Expression, String> {
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.number();
        }
        if self.take("(") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err("more brackets than can be meant".to_owned());
            }
            let inner = self.sum()?;
            self.depth -= 1;
            return match self.take(")") {
                true => Ok(inner),
                false => Err(unexpected(self.rest, "a ')'")),
            };
        }
        self.term().map(Expression::Term)
    }

    fn number(&mut self) -> Result<Expression, String> {
        let digits = self.span(|c| c.is_ascii_digit() || c == '.');
        let unit = self.span(|c| c.is_alphanumeric() || c == '%');
        if !unit.is_empty() {
            return Err(format!(
                "'{digits}{}' has a unit; units are in the metrics' names, write {digits}",
                unit.escape_debug()
            ));
        }
        self.skip_space();
        digits.parse().map(Expression::Number).map_err(|_| format!("'{digits}' is no number"))
    }

    fn name(&mut self) -> &'a str {
        self.span(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
    }

    fn term(&mut self) -> Result<Term, String> {
        let start = self.rest;
        let mut name = self.name();
        if name.is_empty() {
            return Err(unexpected(start, "a metric or a number"));
        }
        if let Some((which @ ("flow" | "link"), _)) = name.split_once('.') {
            return Err(format!("which {which}? Write {which}[0]"));
        }
        let (mut scope, mut level) = (Scope::Run, Level::Run);
        if matches!(name, "flow" | "link") {
            let which = self.bracket()?.ok_or_else(|| format!("which {name}? Write {name}[0]"))?;
            let number = which.parse::<usize>().ok();
            (scope, level) = match (name, number) {
                ("flow", Some(n)) => (Scope::Flow(Which::Number(n)), Level::Flow),
                ("flow", None) => (Scope::Flow(Which::Name(unquoted(which))), Level::Flow),
                (_, Some(n)) => (Scope::Link(n), Level::Link),
                (_, None) => return Err(format!("link[{which}] is no number; write link[0]")),
            };
            if !self.take(".") {
                return Err(unexpected(self.rest, "a metric like '.goodput_mbps'"));
            }
            name = self.name();
        }
        let metric = Metric::named(name, level)?;
        let picks = match self.bracket()? {
            Some(text) => text.split(',').map(pick).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        self.skip_space();
        Ok(Term { scope, metric, picks, fixed: Vec::new(), probe: 0 })
    }

    /// What stands in `[…]`, if that comes next.
    fn bracket(&mut self) -> Result<Option<&'a str>, String> {
        let Some(inner) = self.rest.strip_prefix('[') else { return Ok(None) };
        // The name of an axis may have brackets of its own: flow[0].cc.
        let mut open = 1;
        let end = inner.find(|c| {
            open += i32::from(c == '[') - i32::from(c == ']');
            open == 0
        });
        let (inner, rest) = inner.split_at(end.ok_or_else(|| unexpected("", "a ']'"))?);
        self.rest = &rest[1..];
        Ok(Some(inner.trim()))
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        const ALL: [Comparison; 5] = [
            Comparison::AtLeast,
            Comparison::AtMost,
            Comparison::Equal,
            Comparison::More,
            Comparison::Less,
        ];
        let found = ALL.into_iter().find(|c| self.take(c.sign()));
        found.ok_or_else(|| unexpected(self.rest, "one of >=, <=, >, < and =="))
    }

    fn window(&mut self) -> Result<Window, String> {
        let start = self.rest;
        let word = self.span(|c| c.is_ascii_alphabetic());
        self.skip_space();
        match word {
            "" => Ok(Window::default()),
            "after" => Ok(Window { from: Some(self.time()?), to: None }),
            "before" => Ok(Window { from: None, to: Some(self.time()?) }),
            "from" => {
                let from = self.time()?;
                if !self.take("to") {
                    return Err(unexpected(self.rest, "'to' and a time"));
                }
                let to = self.time()?;
                if to <= from {
                    return Err("the window ends before it begins; write from 10s to 20s".into());
                }
                Ok(Window { from: Some(from), to: Some(to) })
            }
            _ => Err(unexpected(start, "a window like 'after 10s'")),
        }
    }

    fn time(&mut self) -> Result<Duration, String> {
        let text = self.span(|c| !c.is_whitespace());
        self.skip_space();
        parse_duration(text).map_err(|e| e.to_string())
    }
}

fn pick(text: &str) -> Result<Pick, String> {
    let (axis, value) = match text.split_once('=') {
        Some((axis, value)) => (Some(axis.trim().to_owned()), value),
        None => (None, text),
    };
    match unquoted(value.trim()) {
        value if value.is_empty() => {
            Err("[] picks nothing; write [cc=bbr3] or leave it out".into())
        }
        value => Ok((axis, value)),
    }
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
    inner('\'').or(inner('"')).unwrap_or(text).to_owned()
}
