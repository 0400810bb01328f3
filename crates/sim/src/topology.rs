//! Graphs of nodes and links of one direction: shortest routes over them, and usual shapes.
//!
//! ```
//! use fullpipe_cc::Duration;
//! use fullpipe_sim::topology::{Cost, Edge, Topology};
//!
//! let delay = Duration::from_millis(1);
//! let edges = [(0, 1), (1, 2)].map(|(from, to)| Edge { from, to, delay });
//! let topology = Topology::new(3, edges.to_vec());
//! let toward = topology.toward(2, Cost::Hops, |_| true);
//! assert_eq!(toward.route(0, None), Some(vec![0, 1]));
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fullpipe_cc::Duration;
use fullpipe_traffic::{Stream, stream_seed};

/// A link of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The node at which it begins.
    pub from: usize,
    /// The node at which it ends.
    pub to: usize,
    /// Its propagation delay.
    pub delay: Duration,
}

/// The length of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cost {
    /// The number of its links.
    #[default]
    Hops,
    /// The sum of its propagation delays; of two alike the number of links.
    Delay,
}

impl Cost {
    /// It is above 0 for each link, so that each hop of a shortest route is nearer to its end.
    fn of(self, edge: &Edge) -> Length {
        match self {
            Self::Hops => (0, 1),
            Self::Delay => (edge.delay.as_nanos(), 1),
        }
    }
}

/// Nanoseconds, and then links.
type Length = (u64, u64);

fn sum(a: Length, b: Length) -> Length {
    (a.0.saturating_add(b.0), a.1 + b.1)
}

/// Nodes, which are numbers from 0, and links between them, by their index.
#[derive(Clone, Debug)]
pub struct Topology {
    edges: Vec<Edge>,
    /// The links that end at each node, and those that begin there.
    into: Vec<Vec<usize>>,
    out_of: Vec<Vec<usize>>,
}

impl Topology {
    /// A graph of so many nodes.
    ///
    /// # Panics
    /// Panics if an edge names a node that there is not.
    pub fn new(nodes: usize, edges: Vec<Edge>) -> Self {
        let mut into = vec![Vec::new(); nodes];
        let mut out_of = vec![Vec::new(); nodes];
        for (i, edge) in edges.iter().enumerate() {
            into[edge.to].push(i);
            out_of[edge.from].push(i);
        }
        Self { edges, into, out_of }
    }

    /// The links.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The link that ends at a node, where there is one alone: every route to the node ends with
    /// it.
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub fn only_link_to(&self, node: usize) -> Option<usize> {
        match self.into[node][..] {
            [link] => Some(link),
            _ => None,
        }
    }

    /// The shortest routes of all nodes to one, over links of which `is_up` holds (Dijkstra 1959).
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub fn toward(&self, to: usize, cost: Cost, is_up: impl Fn(usize) -> bool) -> Toward {
        let mut lengths: Vec<Option<Length>> = vec![None; self.into.len()];
        let mut heap = BinaryHeap::from([Reverse(((0, 0), to))]);
        lengths[to] = Some((0, 0));
        while let Some(Reverse((length, node))) = heap.pop() {
            if lengths[node].is_some_and(|best| best < length) {
                continue;
            }
            for &i in self.into[node].iter().filter(|i| is_up(**i)) {
                let edge = &self.edges[i];
                let longer = sum(length, cost.of(edge));
                if lengths[edge.from].is_none_or(|best| longer < best) {
                    lengths[edge.from] = Some(longer);
                    heap.push(Reverse((longer, edge.from)));
                }
            }
        }
        // The next links of each node: those on a shortest route.
        let is_next = |i: &usize| {
            let edge = &self.edges[*i];
            let rest = lengths[edge.to].map(|rest| sum(rest, cost.of(edge)));
            is_up(*i) && rest.is_some() && rest == lengths[edge.from]
        };
        let mut toward = Toward { to, next: Vec::new(), ends: Vec::new(), links: Vec::new() };
        for (node, out) in self.out_of.iter().enumerate() {
            toward.next.push(toward.links.len() as u32);
            if node != to {
                let next = out.iter().copied().filter(is_next);
                next.for_each(|i| {
                    toward.links.push(i as u32);
                    toward.ends.push(self.edges[i].to as u32);
                });
            }
        }
        toward.next.push(toward.links.len() as u32);
        // There may be one of these for each node and each state of the links.
        toward.links.shrink_to_fit();
        toward.ends.shrink_to_fit();
        toward
    }
}

/// The shortest routes of all nodes to one.
#[derive(Clone, Debug)]
pub struct Toward {
    to: usize,
    /// The place of each node's first link in `links`, and behind the last node's the number of
    /// all.
    next: Vec<u32>,
    /// The links on shortest routes, node by node, and the node at the end of each.
    links: Vec<u32>,
    ends: Vec<u32>,
}

impl Toward {
    /// The links from a node; `None` if there is no route. Of several that are as short each node
    /// takes the first, or one by a hash of `flow` and the node: equal-cost multipath (RFC 2992).
    pub fn route(&self, from: usize, flow: Option<u64>) -> Option<Vec<usize>> {
        let mut links = Vec::new();
        let mut node = from;
        while node != self.to {
            let (first, end) = (*self.next.get(node)?, *self.next.get(node + 1)?);
            let choices = u64::from(end - first);
            let choice = match flow {
                _ if choices == 0 => return None,
                Some(flow) => stream_seed(flow, Stream::Route, node as u64) % choices,
                None => 0,
            };
            let place = first as usize + choice as usize;
            links.push(self.links[place] as usize);
            node = self.ends[place] as usize;
        }
        Some(links)
    }

    /// Its memory.
    pub fn bytes(&self) -> usize {
        let numbers = self.next.len() + self.links.len() + self.ends.len();
        size_of::<Self>() + numbers * size_of::<u32>()
    }
}

/// A usual graph: names of nodes, and cables between them, each of which is a link in each
/// direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The hosts first.
    pub nodes: Vec<String>,
    /// The number of hosts.
    pub hosts: usize,
    /// Cables between switches, and in a shape with one bottleneck that one first.
    pub core: Vec<(usize, usize)>,
    /// Cables between a host and its switch, from the host.
    pub edge: Vec<(usize, usize)>,
}

impl Shape {
    fn named(hosts: Vec<String>, switches: Vec<String>) -> Self {
        let n = hosts.len();
        let nodes = hosts.into_iter().chain(switches).collect();
        Self { nodes, hosts: n, core: Vec::new(), edge: Vec::new() }
    }

    /// Senders `s0`, `s1`, … at `left`, as many receivers `r0`, `r1`, … at `right`, and one
    /// bottleneck from left to right.
    pub fn dumbbell(pairs: usize) -> Self {
        let hosts = names("s", pairs).chain(names("r", pairs)).collect();
        let mut shape = Self::named(hosts, vec!["left".to_owned(), "right".to_owned()]);
        let (left, right) = (2 * pairs, 2 * pairs + 1);
        shape.core = vec![(left, right)];
        let senders = (0..pairs).map(|i| (i, left));
        shape.edge = senders.chain((pairs..2 * pairs).map(|i| (i, right))).collect();
        shape
    }

    /// Switches `n0`, `n1`, … in a row with so many links between them, and one host at each:
    /// `h0`, `h1`, …
    pub fn parking_lot(hops: usize) -> Self {
        let n = hops + 1;
        let mut shape = Self::named(names("h", n).collect(), names("n", n).collect());
        shape.core = (0..hops).map(|i| (n + i, n + i + 1)).collect();
        shape.edge = (0..n).map(|i| (i, n + i)).collect();
        shape
    }

    /// So many senders `s0`, `s1`, … and one receiver `r` at a `switch`: the bottleneck is the link
    /// to the receiver.
    pub fn incast(senders: usize) -> Self {
        let hosts = names("s", senders).chain(["r".to_owned()]).collect();
        let mut shape = Self::named(hosts, vec!["switch".to_owned()]);
        shape.core = vec![(senders + 1, senders)];
        shape.edge = (0..senders).map(|i| (i, senders + 1)).collect();
        shape
    }

    /// Leaves `leaf0`, …, each with so many hosts `h0`, `h1`, … and a link to each of the spines
    /// `spine0`, …
    pub fn leaf_spine(leaves: usize, spines: usize, hosts: usize) -> Self {
        let n = leaves * hosts;
        let switches = names("leaf", leaves).chain(names("spine", spines)).collect();
        let mut shape = Self::named(names("h", n).collect(), switches);
        let each = |leaf: usize| (0..spines).map(move |spine| (n + leaf, n + leaves + spine));
        shape.core = (0..leaves).flat_map(each).collect();
        shape.edge = (0..n).map(|host| (host, n + host / hosts.max(1))).collect();
        shape
    }

    /// A fat tree of switches with `k` ports (Al-Fares, Loukissas and Vahdat 2008): `k` pods of
    /// `k`/2 edge switches `edge0`, … and as many of aggregation `agg0`, …, `(k/2)²` core switches
    /// `core0`, …, and `k³/4` hosts `h0`, … `k` is even.
    pub fn fat_tree(k: usize) -> Self {
        let half = k / 2;
        let (hosts, in_pods) = (k * half * half, k * half);
        let switches = names("edge", in_pods).chain(names("agg", in_pods));
        let switches = switches.chain(names("core", half * half)).collect();
        let mut shape = Self::named(names("h", hosts).collect(), switches);
        let (edge, agg, core) = (hosts, hosts + in_pods, hosts + 2 * in_pods);
        for pod in 0..k {
            for i in 0..half {
                let above = |j: usize| (edge + pod * half + i, agg + pod * half + j);
                shape.core.extend((0..half).map(above));
            }
            for j in 0..half {
                let above = |c: usize| (agg + pod * half + j, core + j * half + c);
                shape.core.extend((0..half).map(above));
            }
        }
        shape.edge = (0..hosts).map(|host| (host, edge + host / half.max(1))).collect();
        shape
    }
}

fn names(kind: &'static str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |i| format!("{kind}{i}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A graph of a shape, each cable both ways.
    fn topology(shape: &Shape) -> Topology {
        let cables = shape.core.iter().chain(&shape.edge);
        let edges = cables.flat_map(|&(a, b)| [(a, b), (b, a)]);
        let edge = |(from, to)| Edge { from, to, delay: Duration::from_micros(1) };
        Topology::new(shape.nodes.len(), edges.map(edge).collect())
    }

    #[test]
    fn a_fat_tree_has_the_sizes_of_its_paper_and_short_routes_between_all_hosts() {
        for k in [2, 4, 8] {
            let shape = Shape::fat_tree(k);
            assert_eq!(shape.hosts, k * k * k / 4);
            assert_eq!(shape.nodes.len() - shape.hosts, 5 * k * k / 4);
            let topology = topology(&shape);
            let ports = |node: &usize| topology.out_of[*node].len();
            assert!((shape.hosts..shape.nodes.len()).all(|node| ports(&node) == k));
            let pod = |host: usize| host / (k * k / 4);
            let edge = |host: usize| host / (k / 2);
            let toward = topology.toward(0, Cost::Hops, |_| true);
            for host in 1..shape.hosts {
                let hops = toward.route(host, Some(7)).map(|links| links.len());
                let expected = match host {
                    host if edge(host) == 0 => 2,
                    host if pod(host) == 0 => 4,
                    _ => 6,
                };
                assert_eq!(hops, Some(expected), "k {k}, host {host}");
            }
        }
    }

    /// `(k/2)²` routes between pods, and each is taken by about as many flows.
    #[test]
    fn equal_cost_multipath_spreads_flows_evenly_and_keeps_each_on_one_route() {
        let shape = Shape::fat_tree(8);
        let toward = topology(&shape).toward(127, Cost::Hops, |_| true);
        let mut taken = std::collections::HashMap::new();
        for flow in 0..1600 {
            let route = toward.route(0, Some(flow)).expect("a route");
            assert_eq!(toward.route(0, Some(flow)).as_ref(), Some(&route));
            *taken.entry(route).or_insert(0) += 1;
        }
        assert_eq!(taken.len(), 16);
        // 100 each on average; six standard deviations are 58.
        assert!(taken.values().all(|n| (42..158).contains(n)), "{taken:?}");
    }

    #[test]
    fn a_route_is_short_by_hops_or_by_delay_and_goes_around_what_is_down() {
        let ms = Duration::from_millis;
        // 0 -> 3 in one long link, in two over 1, and in two over 2.
        let edges = [(0, 3, 9), (0, 1, 2), (1, 3, 2), (0, 2, 2), (2, 3, 3)];
        let edges = edges.map(|(from, to, delay)| Edge { from, to, delay: ms(delay) });
        let topology = Topology::new(5, edges.to_vec());
        let route =
            |cost, down: &[usize]| topology.toward(3, cost, |i| !down.contains(&i)).route(0, None);
        assert_eq!(route(Cost::Hops, &[]), Some(vec![0]));
        assert_eq!(route(Cost::Delay, &[]), Some(vec![1, 2]));
        assert_eq!(route(Cost::Delay, &[2]), Some(vec![3, 4]));
        assert_eq!(route(Cost::Delay, &[2, 3]), Some(vec![0]));
        assert_eq!(route(Cost::Delay, &[0, 1, 3]), None);
        assert_eq!(topology.toward(4, Cost::Hops, |_| true).route(0, None), None);
    }

    /// Cables without delay are no circle.
    #[test]
    fn links_without_delay_make_no_loop() {
        let edges = [(0, 1), (1, 0), (1, 2), (2, 1)];
        let edge = |(from, to)| Edge { from, to, delay: Duration::ZERO };
        let topology = Topology::new(3, edges.map(edge).to_vec());
        for flow in 0..50 {
            let toward = topology.toward(2, Cost::Delay, |_| true);
            assert_eq!(toward.route(0, Some(flow)), Some(vec![0, 2]));
        }
    }
}
