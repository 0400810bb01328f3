//! Nodes and the links between them, as a file or a usual shape has them.

use std::collections::HashMap;

use fullpipe_cc::Duration;
use fullpipe_sim::topology::{Cost, Edge, Shape, Topology};

use super::error::Wrong;
use super::quantity::Time;
use super::schema::{Document, LinkTable};
use crate::suggest::did_you_mean;

/// The most nodes of a graph, and the most links of one direction.
const MAX_NODES: usize = 5_000;
const MAX_LINKS: usize = 20_000;

/// A node of a graph.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeTable {
    /// Its name, which links and flows have.
    pub name: String,
}

/// A graph of a usual shape, and how routes are found.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkTable {
    dumbbell: Option<Dumbbell>,
    parking_lot: Option<ParkingLot>,
    incast: Option<Incast>,
    leaf_spine: Option<LeafSpine>,
    fat_tree: Option<FatTree>,
    /// The links between switches, and those of hosts.
    core: Option<LinkTable>,
    edge: Option<LinkTable>,
    /// The round trip that a BDP refers to.
    pub(super) rtt: Option<Time>,
    /// The length by which routes are short.
    shortest: Option<Shortest>,
    /// True if flows are spread over routes that are as short as each other.
    ecmp: Option<bool>,
    /// The time from the failure or repair of a link to new routes.
    reroute_after: Option<Time>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Dumbbell {
    pairs: usize,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct ParkingLot {
    hops: usize,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Incast {
    senders: usize,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct LeafSpine {
    leaves: usize,
    spines: usize,
    hosts: usize,
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct FatTree {
    k: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Shortest {
    #[default]
    Hops,
    Delay,
}

/// The assignment of several receivers to several senders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairs {
    /// The first to the first, and so on; one to all, or all to one.
    #[default]
    InOrder,
    /// Each to another one, by chance; each receives from one.
    Permutation,
}

/// A later route of a flow.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Reroute {
    /// From this time on.
    pub at: Time,
    /// The links of a chain, or the nodes.
    pub route: String,
}

/// A cable of the file, or of a shape: the properties of its links, and where they stand.
pub(super) struct Cable<'a> {
    pub(super) table: &'a LinkTable,
    pub(super) field: String,
}

/// The time in which a link carries nothing.
pub(super) struct Outage {
    pub(super) link: usize,
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// Nodes by name, and links of one direction by index: those of the file, those of the shape, and
/// then the other directions of those that no table describes.
pub(super) struct Nodes {
    pub(super) names: Vec<String>,
    pub(super) topology: Topology,
    pub(super) cost: Cost,
    pub(super) ecmp: bool,
    pub(super) reroute_after: Duration,
    pub(super) outages: Vec<Outage>,
    by_name: HashMap<String, usize>,
    links: HashMap<(usize, usize), usize>,
}

impl Nodes {
    /// The graph of a file that has one, and the cable of each link.
    pub(super) fn of(doc: &Document) -> Result<Option<(Self, Vec<Cable<'_>>)>, Wrong> {
        if doc.node.is_empty() && doc.network.is_none() {
            return match doc.link.iter().position(|l| l.from.is_some() || l.to.is_some()) {
                None => Ok(None),
                Some(i) => {
                    let why = "there are no nodes; write [[node]] name = \"…\" for each, or leave \
                               from and to out of all links";
                    Err(Wrong::new(format!("link[{i}]"), why))
                }
            };
        }
        if doc.path.is_some() {
            let why = "a path is one link, and there are nodes too; write one of them";
            return Err(Wrong::new("path", why));
        }
        let shape = doc.network.as_ref().map_or(Ok(None), NetworkTable::shape)?;
        let mut draft = Draft::default();
        for (i, node) in doc.node.iter().enumerate() {
            draft.add_node(&node.name, &format!("node[{i}].name"))?;
        }
        for name in shape.iter().flat_map(|(shape, _)| &shape.nodes) {
            draft.add_node(name, "node")?;
        }
        for (i, link) in doc.link.iter().enumerate() {
            let field = format!("link[{i}]");
            let ends = draft.ends(link, &field)?;
            draft.add(ends, Cable { table: link, field })?;
        }
        if let (Some((shape, kind)), Some(network)) = (&shape, &doc.network) {
            draft.add_shape(shape, network, kind)?;
        }
        let network = doc.network.as_ref();
        let (draft, cables) = draft.both_ways();
        if draft.edges.is_empty() {
            return Err(Wrong::new("node", "no link; write [[link]] with from and to"));
        }
        let is_used = |node: usize| draft.edges.iter().any(|e| e.from == node || e.to == node);
        if let Some(i) = (0..doc.node.len()).find(|i| !is_used(*i)) {
            let name = doc.node[i].name.escape_debug();
            let why = format!("'{name}' has no link; write a [[link]] from or to it");
            return Err(Wrong::new(format!("node[{i}]"), why));
        }
        let outages = outages(&cables)?;
        let nodes = Self {
            topology: Topology::new(draft.names.len(), draft.edges),
            names: draft.names,
            cost: match network.and_then(|n| n.shortest).unwrap_or_default() {
                Shortest::Hops => Cost::Hops,
                Shortest::Delay => Cost::Delay,
            },
            ecmp: network.and_then(|n| n.ecmp).unwrap_or(true),
            reroute_after: network.and_then(|n| n.reroute_after).map_or(Duration::ZERO, |t| t.0),
            outages,
            by_name: draft.by_name,
            links: draft.links,
        };
        Ok(Some((nodes, cables)))
    }

    /// A node by its name.
    pub(super) fn node(&self, name: &str, field: &str) -> Result<usize, Wrong> {
        self.by_name.get(name).copied().ok_or_else(|| unknown(name, &self.names, field))
    }

    /// The nodes that a name stands for: with `*` in it all that it matches, in their order.
    pub(super) fn nodes(&self, pattern: &str, field: &str) -> Result<Vec<usize>, Wrong> {
        if !pattern.contains('*') {
            return self.node(pattern, field).map(|node| vec![node]);
        }
        let found = self.names.iter().enumerate().filter(|(_, name)| matches(pattern, name));
        let found: Vec<usize> = found.map(|(i, _)| i).collect();
        if found.is_empty() {
            let why = format!("no node is like '{}'", pattern.escape_debug());
            return Err(Wrong::new(field, why));
        }
        Ok(found)
    }

    /// The link from one node to another one.
    pub(super) fn link(&self, from: usize, to: usize) -> Option<usize> {
        self.links.get(&(from, to)).copied()
    }
}

impl NetworkTable {
    /// The shape that it names, and the name.
    fn shape(&self) -> Result<Option<(Shape, &'static str)>, Wrong> {
        let all = [
            self.dumbbell.map(|d| (d.pairs, 1, "dumbbell")),
            self.parking_lot.map(|p| (p.hops, 1, "parking_lot")),
            self.incast.map(|i| (i.senders, 1, "incast")),
            self.leaf_spine.map(|l| {
                let size = |of: usize| l.leaves.saturating_mul(of);
                // Its nodes, or a quarter of its links of one direction, whichever is more.
                let nodes = size(l.hosts).saturating_add(l.leaves).saturating_add(l.spines);
                let links = size(l.hosts).saturating_add(size(l.spines));
                let least = l.leaves.min(l.hosts).min(l.spines);
                (if least == 0 { 0 } else { nodes.max(links / 2) }, 1, "leaf_spine")
            }),
            self.fat_tree.map(|f| {
                let hosts = f.k.saturating_pow(3) / 4;
                let switches = f.k.saturating_pow(2).saturating_mul(5) / 4;
                // Three links of both directions for each host.
                let links = hosts.saturating_mul(3);
                (hosts.saturating_add(switches).max(links / 2), 2, "fat_tree")
            }),
        ];
        let mut named = all.into_iter().flatten();
        let Some((size, least, name)) = named.next() else {
            for (field, link) in [("core", &self.core), ("edge", &self.edge)] {
                if link.is_some() {
                    let why = "there is no shape whose links it would be; write dumbbell, \
                               parking_lot, incast, leaf_spine or fat_tree beside it";
                    return Err(Wrong::new(format!("network.{field}"), why));
                }
            }
            return Ok(None);
        };
        if let Some((.., other)) = named.next() {
            let why = format!("there is {name} too; write one of them");
            return Err(Wrong::new(format!("network.{other}"), why));
        }
        let field = format!("network.{name}");
        if size < least || size > MAX_NODES {
            let why = format!("too small or too large; the most are {MAX_NODES} nodes");
            return Err(Wrong::new(field, why));
        }
        let shape = match *self {
            Self { dumbbell: Some(d), .. } => Shape::dumbbell(d.pairs),
            Self { parking_lot: Some(p), .. } => Shape::parking_lot(p.hops),
            Self { incast: Some(i), .. } => Shape::incast(i.senders),
            Self { leaf_spine: Some(l), .. } => {
                if l.leaves == 0 || l.spines == 0 || l.hosts == 0 {
                    let why = "leaves, spines and hosts are at least 1 each";
                    return Err(Wrong::new(field, why));
                }
                Shape::leaf_spine(l.leaves, l.spines, l.hosts)
            }
            Self { fat_tree: Some(f), .. } => {
                if !f.k.is_multiple_of(2) {
                    let why = "switches have an even number of ports; write k = 4, or 8";
                    return Err(Wrong::new(format!("{field}.k"), why));
                }
                Shape::fat_tree(f.k)
            }
            _ => return Ok(None),
        };
        Ok(Some((shape, name)))
    }
}

/// A graph that grows.
#[derive(Default)]
struct Draft<'a> {
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    edges: Vec<Edge>,
    links: HashMap<(usize, usize), usize>,
    cables: Vec<Cable<'a>>,
}

impl<'a> Draft<'a> {
    fn add_node(&mut self, name: &str, field: &str) -> Result<(), Wrong> {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        if name.is_empty() || name.chars().count() > super::MAX_NAME || !name.chars().all(is_name) {
            let why = format!(
                "'{}' is no name; write letters, digits, _, -, . and : alone",
                name.escape_debug()
            );
            return Err(Wrong::new(field, why));
        }
        if self.by_name.insert(name.to_owned(), self.names.len()).is_some() {
            return Err(Wrong::new(field, format!("'{name}' is named twice; once is enough")));
        }
        self.names.push(name.to_owned());
        if self.names.len() > MAX_NODES {
            let why = format!("more nodes than a graph can have; the most are {MAX_NODES}");
            return Err(Wrong::new(field, why));
        }
        Ok(())
    }

    fn ends(&self, link: &LinkTable, field: &str) -> Result<(usize, usize), Wrong> {
        let node = |name: &Option<String>, end: &str| {
            let name = name.as_ref().ok_or_else(|| {
                let why = format!("no {end}, and there are nodes; write {end} = \"…\"");
                Wrong::new(field, why)
            })?;
            let known = self.by_name.get(name).copied();
            known.ok_or_else(|| unknown(name, &self.names, &format!("{field}.{end}")))
        };
        let ends = (node(&link.from, "from")?, node(&link.to, "to")?);
        if ends.0 == ends.1 {
            let why = "a link from a node to itself; write another one";
            return Err(Wrong::new(format!("{field}.to"), why));
        }
        Ok(ends)
    }

    fn add(&mut self, (from, to): (usize, usize), cable: Cable<'a>) -> Result<(), Wrong> {
        if self.links.insert((from, to), self.edges.len()).is_some() {
            let why = format!(
                "a second link from '{}' to '{}'; write one with the sum of their rates",
                self.names[from], self.names[to]
            );
            return Err(Wrong::new(cable.field, why));
        }
        let delay = cable.table.delay.map_or(Duration::ZERO, |t| t.0);
        self.edges.push(Edge { from, to, delay });
        if self.edges.len() > MAX_LINKS {
            let why = format!("more links than a graph can have; the most are {MAX_LINKS}");
            return Err(Wrong::new(cable.field, why));
        }
        self.cables.push(cable);
        Ok(())
    }

    fn add_shape(
        &mut self,
        shape: &Shape,
        network: &'a NetworkTable,
        kind: &str,
    ) -> Result<(), Wrong> {
        let table = |link: &'a Option<LinkTable>, name: &str| {
            let field = format!("network.{name}");
            let Some(table) = link else {
                let why = format!(
                    "no {name}; write {name} = {{ rate = \"10gbit\", delay = \"1us\", buffer = \"100pkts\" }}"
                );
                return Err(Wrong::new(format!("network.{kind}"), why));
            };
            if table.from.is_some() || table.to.is_some() {
                let why = "describes many links; leave from and to out";
                return Err(Wrong::new(field, why));
            }
            Ok((table, field))
        };
        for (cables, link, name) in
            [(&shape.core, &network.core, "core"), (&shape.edge, &network.edge, "edge")]
        {
            let (table, field) = table(link, name)?;
            for &(from, to) in cables {
                // Nodes of the file stand before those of the shape.
                let ends = (self.by_name[&shape.nodes[from]], self.by_name[&shape.nodes[to]]);
                self.add(ends, Cable { table, field: field.clone() })?;
            }
        }
        Ok(())
    }

    /// Adds the other direction of each link that no table describes.
    fn both_ways(mut self) -> (Self, Vec<Cable<'a>>) {
        for i in 0..self.edges.len() {
            let Edge { from, to, delay } = self.edges[i];
            if self.links.contains_key(&(to, from)) {
                continue;
            }
            self.links.insert((to, from), self.edges.len());
            self.edges.push(Edge { from: to, to: from, delay });
            let Cable { table, field } = &self.cables[i];
            let back = Cable { table, field: field.clone() };
            self.cables.push(back);
        }
        let cables = std::mem::take(&mut self.cables);
        (self, cables)
    }
}

fn unknown(name: &str, names: &[String], field: &str) -> Wrong {
    let hint = did_you_mean(name, names.iter().map(String::as_str));
    let why = format!("no node is called '{}'{hint}", name.escape_debug());
    Wrong::new(field, why)
}

/// The outages of all links; a cable fails in both directions.
fn outages(cables: &[Cable<'_>]) -> Result<Vec<Outage>, Wrong> {
    let mut all = Vec::new();
    for (link, Cable { table, field }) in cables.iter().enumerate() {
        for (from, to) in times(table, field)? {
            all.push(Outage { link, from, to });
        }
    }
    Ok(all)
}

/// The outages of a link, each from and to a time.
pub(super) fn times(table: &LinkTable, field: &str) -> Result<Vec<(Duration, Duration)>, Wrong> {
    let mut before = Duration::ZERO;
    let each = table.fails.iter().enumerate().map(|(i, failure)| {
        let (from, to) = (failure.at.0, failure.until.map_or(Duration::MAX, |t| t.0));
        if from < before || to <= from {
            let why = "each failure has to end after it begins, and before the next one";
            return Err(Wrong::new(format!("{field}.fails[{i}]"), why));
        }
        before = to;
        Ok((from, to))
    });
    each.collect()
}

/// True if a name is like a pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        let cases = [
            ("h*", "h12", true),
            ("h*", "leaf0", false),
            ("*", "x", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("h1", "h12", false),
        ];
        for (pattern, name, is_like) in cases {
            assert_eq!(matches(pattern, name), is_like, "{pattern} {name}");
        }
    }
}
