//! The grammar of expectations:
//!
//! ```text
//! expectation = [ words ": " ] sum ( ">=" | "<=" | ">" | "<" | "==" ) sum [ window ]
//! sum         = product { ( "+" | "-" ) product }
//! product     = factor { ( "*" | "/" ) factor }
//! factor      = number | term | "(" sum ")" | "axis(" axis ")" | function
//! function    = ( "min" | "max" | "mean" | "median" | "sum" | "half_width" ) "(" sum "over" span { "," span } ")"
//! span        = axis [ "=" value ".." value ]
//! term        = [ ( "flow" | "link" ) "[" which "]" "." ] metric [ "[" pick { "," pick } "]" ]
//! metric      = name | ( "until_s" | "until_rounds" | "until_cycles" ) "(" condition ")"
//! condition   = column ( ">=" | "<=" | ">" | "<" | "==" ) number | "state" ( "==" | "!=" ) name
//! pick        = [ axis "=" ] value [ ".." value ]
//! window      = "after" time | "before" time | "from" time "to" time
//! ```

use fullpipe_cc::Duration;
use fullpipe_scenario::units::parse_duration;

use super::{Expression, Function, Operator, Span, Term};
use crate::metrics::{Column, Comparison, Condition, Count, Level, Metric, Scope, Which, Window};

/// An expectation as it was written, before anything in it is looked up.
pub(super) struct Sentence<'a> {
    pub(super) left: Expression,
    pub(super) left_text: &'a str,
    pub(super) comparison: Comparison,
    pub(super) right: Expression,
    pub(super) window: Window,
}

/// Content of a pick: an optional axis, and one value, or the first and the last of several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Pick {
    One(Option<String>, String),
    Part(Option<String>, String, String),
}

/// The words before the last colon, which no expectation has itself, and what comes behind it.
pub(super) fn name_and_rest(text: &str) -> (Option<&str>, &str) {
    match text.rsplit_once(": ") {
        Some((name, rest)) => (Some(name.trim()), rest),
        None => (None, text),
    }
}

pub(super) fn sentence(text: &str) -> Result<Sentence<'_>, String> {
    let mut parser = Parser { rest: text.trim_start(), depth: 0 };
    let start = parser.rest;
    let left = parser.sum()?;
    let left_text = start[..start.len() - parser.rest.len()].trim_end();
    let comparison = parser.comparison()?;
    let right = parser.sum()?;
    let window = parser.window()?;
    match parser.rest {
        "" => Ok(Sentence { left, left_text, comparison, right, window }),
        rest => Err(unexpected(rest, "the end, or a window like 'after 10s'")),
    }
}

const FUNCTIONS: [(&str, Function); 6] = [
    ("min(", Function::Min),
    ("max(", Function::Max),
    ("mean(", Function::Mean),
    ("median(", Function::Median),
    ("sum(", Function::Sum),
    ("half_width(", Function::HalfWidth),
];

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
            let inner = self.deeper(Self::sum)?;
            self.close()?;
            return Ok(inner);
        }
        if self.take("axis(") {
            let axis = self.axis()?;
            self.close()?;
            return Ok(Expression::Axis(axis));
        }
        for (word, function) in FUNCTIONS {
            if self.take(word) {
                return self.deeper(|parser| parser.over(function));
            }
        }
        self.term().map(Expression::Term)
    }

    fn deeper(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("more brackets than can be meant".to_owned());
        }
        let expression = inner(self)?;
        self.depth -= 1;
        Ok(expression)
    }

    fn close(&mut self) -> Result<(), String> {
        if self.take(")") { Ok(()) } else { Err(unexpected(self.rest, "a ')'")) }
    }

    /// Parses the argument in the brackets of a function.
    fn over(&mut self, function: Function) -> Result<Expression, String> {
        let inner = self.sum()?;
        if !self.take("over ") {
            return Err(unexpected(self.rest, "'over' and a field with a list"));
        }
        let mut spans = Vec::new();
        loop {
            let axis = self.axis()?;
            let part = match self.take("=") {
                true => Some(self.part()?),
                false => None,
            };
            spans.push(Span { axis, part });
            if !self.take(",") {
                break;
            }
        }
        self.close()?;
        Ok(Expression::Over(function, Box::new(inner), spans))
    }

    /// The name of an axis, which may have brackets: `flow[0].cc`.
    fn axis(&mut self) -> Result<String, String> {
        let start = self.rest;
        let name = self.span(|c| c.is_ascii_alphanumeric() || "_.[]".contains(c));
        self.skip_space();
        match name {
            "" => Err(unexpected(start, "a field with a list")),
            name => Ok(name.to_owned()),
        }
    }

    /// `first..last`.
    fn part(&mut self) -> Result<(String, String), String> {
        let start = self.rest;
        let text = self.span(|c| !c.is_whitespace() && !",)".contains(c));
        self.skip_space();
        let (first, last) =
            text.split_once("..").ok_or_else(|| unexpected(start, "values like 1bdp..8bdp"))?;
        Ok((unquoted(first), unquoted(last)))
    }

    /// Parses the condition in the brackets after `until_s`.
    fn condition(&mut self) -> Result<Condition, String> {
        if !self.take("(") {
            return Err(unexpected(self.rest, "a condition like (queue_ms <= 5)"));
        }
        let start = self.rest;
        let name = self.name();
        self.skip_space();
        let condition = if name == "state" {
            let is = self.take("==");
            if !is && !self.take("!=") {
                return Err(unexpected(self.rest, "== or !="));
            }
            let state = self.name();
            self.skip_space();
            Condition::state(state, is)?
        } else if name.is_empty() {
            return Err(unexpected(start, "a column of the series"));
        } else {
            let column = Column::named(name)?;
            let comparison = self.comparison()?;
            match self.number()? {
                Expression::Number(bound) => Condition::number(column, comparison, bound),
                _ => return Err(unexpected(self.rest, "a number")),
            }
        };
        self.close()?;
        Ok(condition)
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
        let metric = match Count::named(name).filter(|_| level != Level::Link) {
            Some(count) => Metric::Until(count, self.condition()?),
            None => Metric::named(name, level)?,
        };
        let picks = match self.bracket()? {
            Some(text) => text.split(',').map(pick).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        self.skip_space();
        let (fixed, within) = (Vec::new(), Vec::new());
        Ok(Term { scope, metric, picks, fixed, within, probe: 0 })
    }

    /// Parses the content of `[…]`, if it comes next.
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
    let pick = match value.split_once("..") {
        Some((first, last)) => Pick::Part(axis, unquoted(first), unquoted(last)),
        None => Pick::One(axis, unquoted(value)),
    };
    match &pick {
        Pick::One(_, value) if value.is_empty() => {
            Err("[] picks nothing; write [cc=bbr3] or leave it out".into())
        }
        _ => Ok(pick),
    }
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
    inner('\'').or(inner('"')).unwrap_or(text).to_owned()
}
