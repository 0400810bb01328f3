//! The file as a tree whose every value knows where it stands: lists become a grid here, before
//! serde makes a scenario of each of its points.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::MAX_RUNS;
use super::error::Wrong;

/// Fields that are lists by nature, and no axis of a grid.
const LISTS: [&str; 2] = ["expect", "listed"];

/// A field that has a list of values, of which every run takes one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Axis {
    /// The field, `flow[0].cc`.
    pub(super) path: String,
    /// Its values as they were written.
    pub(super) values: Vec<String>,
    at: usize,
}

/// The fields with lists, in the order of the file.
pub(super) fn axes(root: &DeTable<'_>) -> Result<Vec<Axis>, Wrong> {
    let mut axes = Vec::new();
    collect_table(root, "", &mut axes)?;
    axes.sort_by_key(|axis| axis.at);
    let runs = axes.iter().map(|a| a.values.len()).try_fold(1_usize, usize::checked_mul);
    match (runs.filter(|n| *n <= MAX_RUNS), axes.first()) {
        (None, Some(first)) => {
            let lengths: Vec<String> = axes.iter().map(|a| a.values.len().to_string()).collect();
            let product = runs.map_or("too many".to_owned(), |n| n.to_string());
            Err(Wrong::new(
                &first.path,
                format!(
                    "the lists make {} = {product} runs, the most is {MAX_RUNS}; shorten one",
                    lengths.join(" x ")
                ),
            ))
        }
        _ => Ok(axes),
    }
}

fn collect_table(table: &DeTable<'_>, path: &str, axes: &mut Vec<Axis>) -> Result<(), Wrong> {
    for (key, value) in table {
        let key = key.get_ref();
        if !LISTS.contains(&key.as_ref()) {
            collect(value, &join(path, key), axes)?;
        }
    }
    Ok(())
}

fn collect(value: &Spanned<DeValue<'_>>, path: &str, axes: &mut Vec<Axis>) -> Result<(), Wrong> {
    match value.get_ref() {
        DeValue::Table(table) => collect_table(table, path, axes),
        DeValue::Array(items) if items.iter().any(|v| scalar(v.get_ref()).is_some()) => {
            let mut values: Vec<String> = Vec::with_capacity(items.len());
            for item in items.iter() {
                let text = scalar(item.get_ref()).ok_or_else(|| {
                    Wrong::new(path, "a list of values holds a table; use [[variant]] for those")
                })?;
                if values.contains(&text) {
                    return Err(Wrong::new(path, format!("'{text}' is named twice; once runs it")));
                }
                values.push(text);
            }
            axes.push(Axis { path: path.to_owned(), values, at: value.span().start });
            Ok(())
        }
        DeValue::Array(items) if items.is_empty() => {
            Err(Wrong::new(path, "an empty list makes no run; write a value, or leave it out"))
        }
        DeValue::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(i, item)| collect(item, &format!("{path}[{i}]"), axes)),
        _ => Ok(()),
    }
}

/// A single value as it was written.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(s) => Some(s.to_string()),
        DeValue::Integer(i) => Some(i.to_string()),
        DeValue::Float(f) => Some(f.to_string()),
        DeValue::Boolean(b) => Some(b.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Leaves of the list at `path` only the value number `pick`.
pub(super) fn choose(root: &mut DeTable<'_>, path: &str, pick: usize) {
    let mut steps = path.split('.').peekable();
    let mut table = root;
    while let Some(step) = steps.next() {
        let (key, indices) = indexed(step);
        let Some(mut value) = table.get_mut(key) else { return };
        for i in indices {
            let DeValue::Array(items) = value.get_mut() else { return };
            let Some(item) = items.get_mut(i) else { return };
            value = item;
        }
        if steps.peek().is_none() {
            let DeValue::Array(items) = value.get_ref() else { return };
            if let Some(one) = items.get(pick).cloned() {
                *value = one;
            }
            return;
        }
        match value.get_mut() {
            DeValue::Table(inner) => table = inner,
            _ => return,
        }
    }
}

/// Lays `over` upon `base`: tables become one, everything else is replaced.
pub(super) fn overlay<'i>(base: &mut DeTable<'i>, over: &DeTable<'i>) {
    for (key, new) in over {
        let name: &str = key.get_ref();
        match (base.get_mut(name).map(Spanned::get_mut), new.get_ref()) {
            (Some(DeValue::Table(old)), DeValue::Table(new)) => overlay(old, new),
            _ => {
                base.insert(key.clone(), new.clone());
            }
        }
    }
}

/// What `over` lies upon in `base`, as far as that is an amount: a duration, or a list to go through.
pub(super) fn below<'i>(base: &DeTable<'i>, over: &DeTable<'_>) -> DeTable<'i> {
    let mut all = DeTable::new();
    for (key, old) in base {
        let name: &str = key.get_ref();
        match (old.get_ref(), over.get(name).map(Spanned::get_ref)) {
            (DeValue::Table(old_table), Some(DeValue::Table(new))) => {
                let table = DeValue::Table(below(old_table, new));
                all.insert(key.clone(), Spanned::new(old.span(), table));
            }
            (DeValue::Array(items), Some(_)) if name != "expect" && items.iter().all(is_scalar) => {
                all.insert(key.clone(), old.clone());
            }
            (_, Some(_)) if name == "duration" => {
                all.insert(key.clone(), old.clone());
            }
            _ => {}
        }
    }
    all
}

fn is_scalar(value: &Spanned<DeValue<'_>>) -> bool {
    scalar(value.get_ref()).is_some()
}

/// What `over` would change in `base`: `duration 20s of 60s`.
pub(super) fn differences(base: &DeTable<'_>, over: &DeTable<'_>) -> Vec<String> {
    let mut all = Vec::new();
    for (key, new) in over {
        let name: &str = key.get_ref();
        match (base.get(name).map(Spanned::get_ref), new.get_ref()) {
            (Some(DeValue::Table(old)), DeValue::Table(new)) => all.extend(differences(old, new)),
            (old, new) => {
                let (old, new) = (old.map_or("none".to_owned(), in_short), in_short(new));
                if old != new {
                    all.push(format!("{name} {old} of {new}"));
                }
            }
        }
    }
    all
}

fn in_short(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Array(items) => format!("{} values", items.len()),
        value => scalar(value).unwrap_or_else(|| "a table".to_owned()),
    }
}

/// Splits `flow[0]` into `flow` and its indices.
fn indexed(step: &str) -> (&str, Vec<usize>) {
    let (key, rest) = step.split_once('[').unwrap_or((step, ""));
    let numbers = rest.split(['[', ']']).filter_map(|n| n.parse().ok());
    (key, numbers.collect())
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The field in which the text at this offset stands, as deep as possible.
pub(super) fn field_at(root: &DeTable<'_>, offset: usize) -> String {
    let mut found = String::new();
    deepest(root, "", offset, &mut found);
    found
}

fn deepest(table: &DeTable<'_>, path: &str, offset: usize, found: &mut String) {
    for (key, value) in table {
        let here = join(path, key.get_ref());
        if key.span().contains(&offset) || covers(value, offset) {
            found.clone_from(&here);
        }
        deepest_value(value, &here, offset, found);
    }
}

fn deepest_value(value: &Spanned<DeValue<'_>>, path: &str, offset: usize, found: &mut String) {
    match value.get_ref() {
        DeValue::Table(inner) => deepest(inner, path, offset, found),
        DeValue::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                let here = format!("{path}[{i}]");
                if item.get_ref().is_table() && covers(item, offset) {
                    found.clone_from(&here);
                }
                deepest_value(item, &here, offset, found);
            }
        }
        _ => {}
    }
}

fn covers(value: &Spanned<DeValue<'_>>, offset: usize) -> bool {
    value.span().contains(&offset)
}

/// Where a field stands, or what holds it when it is not there.
pub(super) fn place_of(root: &DeTable<'_>, field: &str) -> Option<Range<usize>> {
    let mut place = None;
    let mut table = root;
    for step in field.split('.') {
        let (key, indices) = indexed(step);
        let Some(mut value) = table.get(key) else { break };
        place = Some(value.span());
        for i in indices {
            let Some(item) = value.get_ref().as_array().and_then(|items| items.get(i)) else {
                break;
            };
            value = item;
            place = Some(value.span());
        }
        let Some(inner) = value.get_ref().as_table() else { break };
        table = inner;
    }
    place
}

/// The line of an offset, from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count()
}
