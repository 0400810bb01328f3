//! The file as a tree whose every value knows where it stands: lists become a grid here, before
//! serde makes a scenario of each of its points.

use std::collections::HashSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Wrong;
use super::{MAX_NAME, MAX_RUNS};

/// Fields that are lists by nature, and no axis of a grid.
const LISTS: [&str; 2] = ["expect", "listed"];

/// Fields that are lists of tables, which may be empty: a variant takes elements away so.
const LISTS_OF_TABLES: [&str; 8] =
    ["down", "up", "steps", "cross", "link", "node", "fails", "reroute"];

/// The field whose table has one name, of the alternative, with its parameters. The others are in
/// lists, which are replaced whole.
const CHOICE: &str = "path.queue";

/// The alternatives of the field `network`, which has other fields too.
const SHAPES: [&str; 5] = ["dumbbell", "parking_lot", "incast", "leaf_spine", "fat_tree"];

/// A field that has a list of values, of which every run takes one.
#[derive(Clone, Debug)]
pub(super) struct GridAxis<'i> {
    /// The field, `flow[0].cc`.
    pub(super) path: String,
    /// Its values as they were written.
    pub(super) values: Vec<String>,
    items: Vec<Spanned<DeValue<'i>>>,
    at: usize,
}

impl<'i> GridAxis<'i> {
    /// Puts the value number `pick` into the place of the list.
    pub(super) fn choose(&self, root: &mut DeTable<'i>, pick: usize) {
        if let (Some(place), Some(value)) = (place_of_list(root, &self.path), self.items.get(pick))
        {
            *place = value.clone();
        }
    }
}

/// The fields with lists, in the order of the file. The lists are taken out of the tree, which is
/// copied for each point of the grid.
pub(super) fn take_axes<'i>(root: &mut DeTable<'i>) -> Result<Vec<GridAxis<'i>>, Wrong> {
    let mut axes = Vec::new();
    collect_table(root, "", &mut axes)?;
    axes.sort_by_key(|axis| axis.at);
    for axis in &axes {
        axis.choose(root, 0);
    }
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

fn collect_table<'i>(
    table: &DeTable<'i>,
    path: &str,
    axes: &mut Vec<GridAxis<'i>>,
) -> Result<(), Wrong> {
    for (key, value) in table {
        let key = key.get_ref();
        if !LISTS.contains(&key.as_ref()) {
            collect(value, &join(path, key), axes)?;
        }
    }
    Ok(())
}

fn collect<'i>(
    value: &Spanned<DeValue<'i>>,
    path: &str,
    axes: &mut Vec<GridAxis<'i>>,
) -> Result<(), Wrong> {
    match value.get_ref() {
        DeValue::Table(table) => collect_table(table, path, axes),
        DeValue::Array(items) if items.iter().any(|v| scalar(v.get_ref()).is_some()) => {
            let mut values: Vec<String> = Vec::with_capacity(items.len());
            let mut known = HashSet::new();
            for item in items.iter() {
                let text = scalar(item.get_ref()).ok_or_else(|| {
                    Wrong::new(path, "a list of values holds a table; use [[variant]] for those")
                })?;
                let length = text.chars().count();
                if length > MAX_NAME {
                    let why = format!("a value of {length} characters; the most is {MAX_NAME}");
                    return Err(Wrong::new(path, why));
                }
                if !known.insert(text.clone()) {
                    return Err(Wrong::new(path, format!("'{text}' is named twice; once runs it")));
                }
                values.push(text);
            }
            let (path, items) = (path.to_owned(), items.iter().cloned().collect());
            axes.push(GridAxis { path, values, items, at: value.span().start });
            Ok(())
        }
        DeValue::Array(items) if items.is_empty() => {
            let name = path.rsplit('.').next().unwrap_or(path);
            if LISTS_OF_TABLES.contains(&name) {
                return Ok(());
            }
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

/// The value at this path.
fn place_of_list<'a, 'i>(
    root: &'a mut DeTable<'i>,
    path: &str,
) -> Option<&'a mut Spanned<DeValue<'i>>> {
    let mut steps = path.split('.').peekable();
    let mut table = root;
    loop {
        let (key, indices) = indexed(steps.next()?);
        let mut value = table.get_mut(key)?;
        for i in indices {
            let DeValue::Array(items) = value.get_mut() else { return None };
            value = items.get_mut(i)?;
        }
        if steps.peek().is_none() {
            return Some(value);
        }
        let DeValue::Table(inner) = value.get_mut() else { return None };
        table = inner;
    }
}

/// Number of tables in a tree.
pub(super) fn tables(root: &DeTable<'_>) -> usize {
    fn of(value: &DeValue<'_>) -> usize {
        match value {
            DeValue::Table(table) => tables(table),
            DeValue::Array(items) => items.iter().map(|item| of(item.get_ref())).sum(),
            _ => 0,
        }
    }
    1 + root.iter().map(|(_, value)| of(value.get_ref())).sum::<usize>()
}

/// Lays `over` upon `base`: tables become one, everything else is replaced, and so is a list with
/// the time after which it begins again. Of alternatives the one of `over` is left.
pub(super) fn overlay<'i>(base: &mut DeTable<'i>, over: &DeTable<'i>) {
    overlay_in(base, over, "");
}

fn overlay_in<'i>(base: &mut DeTable<'i>, over: &DeTable<'i>, path: &str) {
    for (key, new) in over {
        let name: &str = key.get_ref();
        let path = join(path, name);
        match (base.get_mut(name).map(Spanned::get_mut), new.get_ref()) {
            (Some(DeValue::Table(old)), DeValue::Table(new)) if !new.contains_key("list") => {
                let has_another = |name: &str| !new.contains_key(name);
                if path == CHOICE && old.keys().any(|old| has_another(old.get_ref())) {
                    old.clear();
                }
                if path == "network" && SHAPES.iter().any(|shape| new.contains_key(*shape)) {
                    for shape in SHAPES.iter().filter(|shape| has_another(shape)) {
                        old.remove(*shape);
                    }
                }
                overlay_in(old, new, &path);
            }
            _ => {
                base.insert(key.clone(), new.clone());
            }
        }
    }
}

/// The values of `base` that `over` replaces, as far as they are amounts: a duration, or a list to
/// iterate.
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

/// Changes that `over` would make in `base`: `duration 20s of 60s`.
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

/// Place of a field, or of its nearest parent if it is not there.
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
