//! Routes of flows and cross traffic: over the links of a chain, or over nodes.

use std::collections::HashMap;

use fullpipe_cc::Duration;
use fullpipe_sim::topology::Toward;
use fullpipe_sim::{Reroute, Route};
use fullpipe_traffic::{Direction, Stream, stream_seed};

use super::MAX_FLOWS;
use super::error::Wrong;
use super::nodes::{Nodes, Outage, Pairs};
use super::schema::{CrossTable, Document, FlowTable};

/// The nodes of a flow's sender and receiver; nothing over a chain.
pub(super) type Ends = Option<(usize, usize)>;

/// The routes of a run, each once, and the shortest ways that were looked for.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) list: Vec<Route>,
    pub(super) changes: Vec<Reroute>,
    known: HashMap<Route, usize>,
    /// By node, and by the state of the links.
    toward: HashMap<(usize, usize), Toward>,
    toward_bytes: usize,
    states: Vec<LinkState>,
    /// The times at which routes change, and the state of the links from then on.
    at: Vec<(Duration, usize)>,
    is_ready: bool,
}

/// The links that are known to be down, by their index, in order.
type LinkState = Vec<usize>;

/// State 0: no link is down.
const ALL_UP: usize = 0;

/// The most memory of the shortest ways that are kept; then they are looked for again.
const MAX_TOWARD_BYTES: usize = 32_000_000;

impl Routes {
    /// Learns the states of the links of a graph, each once.
    fn learn(&mut self, nodes: &Nodes) {
        if std::mem::replace(&mut self.is_ready, true) {
            return;
        }
        self.states = vec![LinkState::new()];
        let mut known = HashMap::from([(LinkState::new(), ALL_UP)]);
        for at in changes(nodes) {
            let state = state(nodes, at);
            let next = self.states.len();
            let index = *known.entry(state.clone()).or_insert(next);
            if index == next {
                self.states.push(state);
            }
            self.at.push((at, index));
        }
    }

    fn add(&mut self, route: Route) -> usize {
        if let Some(known) = self.known.get(&route) {
            return *known;
        }
        let n = self.list.len();
        self.known.insert(route.clone(), n);
        self.list.push(route);
        n
    }

    /// The route of a flow or of cross traffic over a chain of so many links.
    pub(super) fn over_chain(
        &mut self,
        text: Option<&str>,
        direction: Direction,
        links: usize,
        field: &str,
    ) -> Result<Option<usize>, Wrong> {
        let Some(text) = text else { return Ok(None) };
        let passed = chain(text, links, field)?;
        Ok(Some(self.add(match direction {
            Direction::Down => Route { there: passed, back: vec![links] },
            Direction::Up => Route { there: vec![links], back: passed },
        })))
    }

    /// The route of a flow between two nodes, and its changes: the listed ones, or the shortest.
    pub(super) fn over_nodes(
        &mut self,
        nodes: &Nodes,
        ends: (usize, usize),
        table: &FlowTable,
        flow: (usize, u64),
        field: &str,
    ) -> Result<usize, Wrong> {
        let (flow, seed) = flow;
        if let Some(text) = &table.route {
            let field = format!("{field}.route");
            let listed = self.listed(nodes, text, &field)?;
            return Ok(self.add(listed));
        }
        let hashes = hashes(nodes, flow, seed);
        self.learn(nodes);
        let first = self.shortest(nodes, ends, hashes, ALL_UP);
        let first = first.ok_or_else(|| {
            let (from, to) = (&nodes.names[ends.0], &nodes.names[ends.1]);
            let why = format!("there is no way from '{from}' to '{to}' and back");
            Wrong::new(field, why)
        })?;
        let first = self.add(first);
        let mut now = first;
        for change in 0..self.at.len() {
            let (at, state) = self.at[change];
            // Without any route the flow keeps the one that it had.
            let Some(route) = self.shortest(nodes, ends, hashes, state) else { continue };
            let route = self.add(route);
            if route != now {
                self.changes.push(Reroute { at, flow, route });
                now = route;
            }
        }
        Ok(first)
    }

    /// The shortest route in a state of the links.
    fn shortest(
        &mut self,
        nodes: &Nodes,
        (from, to): (usize, usize),
        hashes: Option<(u64, u64)>,
        state: usize,
    ) -> Option<Route> {
        self.learn(nodes);
        let there = self.shortest_links(nodes, from, to, hashes.map(|h| h.0), state)?;
        let back = self.shortest_links(nodes, to, from, hashes.map(|h| h.1), state)?;
        Some(Route { there, back })
    }

    fn shortest_links(
        &mut self,
        nodes: &Nodes,
        from: usize,
        to: usize,
        hash: Option<u64>,
        state: usize,
    ) -> Option<Vec<usize>> {
        let is_down = |link: usize| self.states[state].binary_search(&link).is_ok();
        // Hosts have one link each, and all of a switch are found together.
        let last = nodes.topology.only_link_to(to);
        if last.is_some_and(is_down) {
            return None;
        }
        let to = last.map_or(to, |link| nodes.topology.edges()[link].from);
        if self.toward_bytes > MAX_TOWARD_BYTES {
            self.toward.clear();
            self.toward_bytes = 0;
        }
        let toward = self.toward.entry((to, state)).or_insert_with(|| {
            let found = nodes.topology.toward(to, nodes.cost, |link| !is_down(link));
            self.toward_bytes += found.bytes();
            found
        });
        let mut links = toward.route(from, hash)?;
        links.extend(last);
        Some(links)
    }

    /// A route over listed nodes, and back over the same.
    fn listed(&self, nodes: &Nodes, text: &str, field: &str) -> Result<Route, Wrong> {
        let mut passed: Vec<usize> = Vec::new();
        for name in text.split(',') {
            let node = nodes.node(name.trim(), field)?;
            if passed.contains(&node) {
                let why = format!("passes '{}' twice; write each node once", nodes.names[node]);
                return Err(Wrong::new(field, why));
            }
            passed.push(node);
        }
        if passed.len() < 2 {
            let why = "one node is no route; write two or more, like \"a, b, c\"";
            return Err(Wrong::new(field, why));
        }
        let links = |pairs: &mut dyn Iterator<Item = (usize, usize)>| {
            let each = pairs.map(|(from, to)| {
                nodes.link(from, to).ok_or_else(|| {
                    let why = format!(
                        "there is no link from '{}' to '{}'",
                        nodes.names[from], nodes.names[to]
                    );
                    Wrong::new(field, why)
                })
            });
            each.collect::<Result<Vec<_>, _>>()
        };
        let there = links(&mut passed.windows(2).map(|w| (w[0], w[1])))?;
        let back = links(&mut passed.windows(2).rev().map(|w| (w[1], w[0])))?;
        Ok(Route { there, back })
    }

    /// The changes of a flow's route that its table lists.
    pub(super) fn reroute(
        &mut self,
        nodes: Option<&Nodes>,
        links: usize,
        table: &FlowTable,
        (ends, direction): (Ends, Direction),
        flow: usize,
        field: &str,
    ) -> Result<(), Wrong> {
        for (i, change) in table.reroute.iter().enumerate() {
            let field = format!("{field}.reroute[{i}]");
            let route = match (nodes, ends) {
                (Some(nodes), Some(ends)) => {
                    let route = self.listed(nodes, &change.route, &format!("{field}.route"))?;
                    let (first, last) = ends_of(nodes, &route);
                    if (first, last) != ends {
                        let (from, to) = (&nodes.names[ends.0], &nodes.names[ends.1]);
                        let why = format!("not from '{from}' to '{to}', where the flow is");
                        return Err(Wrong::new(format!("{field}.route"), why));
                    }
                    self.add(route)
                }
                _ => match self.over_chain(Some(&change.route), direction, links, &field)? {
                    Some(route) => route,
                    None => continue,
                },
            };
            self.changes.push(Reroute { at: change.at.0, flow, route });
        }
        Ok(())
    }

    /// The route of cross traffic between two nodes.
    pub(super) fn of_cross(
        &mut self,
        nodes: &Nodes,
        table: &CrossTable,
        field: &str,
    ) -> Result<usize, Wrong> {
        let route = match (&table.route, &table.from, &table.to) {
            (Some(text), None, None) => self.listed(nodes, text, &format!("{field}.route"))?,
            (None, Some(from), Some(to)) => {
                let from = nodes.node(from, &format!("{field}.from"))?;
                let to = nodes.node(to, &format!("{field}.to"))?;
                if from == to {
                    let why = "cross traffic from a node to itself; write another one";
                    return Err(Wrong::new(format!("{field}.to"), why));
                }
                let route = self.shortest(nodes, (from, to), None, ALL_UP);
                let route = route.filter(|route| !route.there.is_empty());
                route.ok_or_else(|| Wrong::new(field, "there is no way between its nodes"))?
            }
            _ => return Err(Wrong::new(field, "write from and to, or a route over nodes")),
        };
        Ok(self.add(route))
    }
}

/// The pairs of nodes between which the flows of a table go.
pub(super) fn ends(
    nodes: Option<&Nodes>,
    table: &FlowTable,
    seed: u64,
    field: &str,
) -> Result<Vec<Ends>, Wrong> {
    let Some(nodes) = nodes else {
        let fields = [
            ("from", table.from.is_some()),
            ("to", table.to.is_some()),
            ("pairs", table.pairs.is_some()),
        ];
        return match fields.iter().find(|(_, is_there)| *is_there) {
            None => Ok(vec![None]),
            Some((name, _)) => {
                let why = "there are no nodes; write [[node]] tables, or leave it out";
                Err(Wrong::new(format!("{field}.{name}"), why))
            }
        };
    };
    if table.direction == Direction::Up {
        let why = "nodes say the direction; write from and to the other way round";
        return Err(Wrong::new(format!("{field}.direction"), why));
    }
    let of_route = match &table.route {
        Some(text) => {
            let route = Routes::default().listed(nodes, text, &format!("{field}.route"))?;
            Some(ends_of(nodes, &route))
        }
        None => None,
    };
    let end = |name: &Option<String>, end: &str, of_route: Option<usize>| {
        let field = format!("{field}.{end}");
        match (name, of_route) {
            (None, Some(node)) => Ok(vec![node]),
            (None, None) => {
                let why = "no such field, and there are nodes; write the name of one, or a route";
                Err(Wrong::new(field, why))
            }
            (Some(name), of_route) => {
                let found = nodes.nodes(name, &field)?;
                if of_route.is_some_and(|node| found != [node]) {
                    let why = "the route has another end; leave it out";
                    return Err(Wrong::new(field, why));
                }
                Ok(found)
            }
        }
    };
    let from = end(&table.from, "from", of_route.map(|r| r.0))?;
    let to = end(&table.to, "to", of_route.map(|r| r.1))?;
    let pairs = pairs(&from, &to, table.pairs, seed, field)?;
    if pairs.iter().any(|(from, to)| from == to) {
        let why = "a flow from a node to itself; write another one";
        return Err(Wrong::new(format!("{field}.to"), why));
    }
    Ok(pairs.into_iter().map(Some).collect())
}

/// The longest round trip of the flows at the start, without queues and their senders' own links.
pub(super) fn longest(doc: &Document, nodes: &Nodes) -> Result<Duration, Wrong> {
    let mut routes = Routes::default();
    let mut longest = Duration::ZERO;
    let rtt = |route: &Route| {
        let links = route.there.iter().chain(&route.back);
        let delays = links.map(|link| nodes.topology.edges()[*link].delay);
        delays.fold(Duration::ZERO, |sum, delay| sum + delay)
    };
    // Flows are numbered as they are built; more than there may be are refused there.
    let mut first = 0;
    for (i, table) in doc.flow.iter().enumerate() {
        let field = format!("flow[{i}]");
        let seed = stream_seed(doc.seed(), Stream::Route, i as u64);
        let pairs = ends(Some(nodes), table, seed, &field)?;
        let count = table.count().min(MAX_FLOWS) as usize;
        if let Some(text) = &table.route {
            longest = longest.max(rtt(&routes.listed(nodes, text, &format!("{field}.route"))?));
        } else {
            for (pair, ends) in pairs.iter().enumerate() {
                let Some(ends) = *ends else { continue };
                // Without equal-cost multipath all flows of a pair have one route.
                for k in 0..if nodes.ecmp { count } else { count.min(1) } {
                    let flow = first + pair * count + k;
                    let hashes = hashes(nodes, flow, doc.seed());
                    if let Some(route) = routes.shortest(nodes, ends, hashes, ALL_UP) {
                        longest = longest.max(rtt(&route));
                    }
                    if flow as u64 > MAX_FLOWS {
                        return Ok(longest);
                    }
                }
            }
        }
        first += pairs.len() * count;
    }
    Ok(longest)
}

fn pairs(
    from: &[usize],
    to: &[usize],
    who: Option<Pairs>,
    seed: u64,
    field: &str,
) -> Result<Vec<(usize, usize)>, Wrong> {
    let wrong = |why: String| Err(Wrong::new(format!("{field}.pairs"), why));
    if who == Some(Pairs::Permutation) {
        if from != to || from.len() < 2 {
            return wrong("from and to are not the same nodes, two or more".to_owned());
        }
        return Ok(permutation(from, seed));
    }
    match (from, to) {
        ([one], all) => {
            Ok(all.iter().filter(|n| *n != one || all.len() == 1).map(|n| (*one, *n)).collect())
        }
        (all, [one]) => Ok(all.iter().filter(|n| *n != one).map(|n| (*n, *one)).collect()),
        (from, to) if from.len() == to.len() => {
            Ok(from.iter().copied().zip(to.iter().copied()).collect())
        }
        (from, to) => wrong(format!(
            "{} nodes send and {} receive; write as many, or one of either",
            from.len(),
            to.len()
        )),
    }
}

/// Each node sends to another one, and each hears from one: a random cycle of all of them
/// (Sattolo 1986).
fn permutation(nodes: &[usize], seed: u64) -> Vec<(usize, usize)> {
    let mut to = nodes.to_vec();
    for i in (1..to.len()).rev() {
        let other = stream_seed(seed, Stream::Route, i as u64) % i as u64;
        to.swap(i, other as usize);
    }
    nodes.iter().copied().zip(to).collect()
}

/// The first and the last node of a route over nodes.
fn ends_of(nodes: &Nodes, route: &Route) -> (usize, usize) {
    let edges = nodes.topology.edges();
    let first = route.there.first().map_or(0, |i| edges[*i].from);
    (first, route.there.last().map_or(0, |i| edges[*i].to))
}

/// The times at which routes change: so long after each failure and repair.
fn changes(nodes: &Nodes) -> Vec<Duration> {
    let each = nodes.outages.iter().flat_map(|o| [o.from, o.to]);
    let each = each.filter(|t| *t < Duration::MAX).map(|t| t + nodes.reroute_after);
    let mut times: Vec<Duration> = each.collect();
    times.sort_unstable();
    times.dedup();
    times
}

/// The links that are known to be down at a time.
fn state(nodes: &Nodes, at: Duration) -> LinkState {
    let after = nodes.reroute_after;
    let is_known = |o: &&Outage| o.from + after <= at && at < saturating(o.to, after);
    let known = nodes.outages.iter().filter(is_known);
    let mut down: LinkState = known.map(|outage| outage.link).collect();
    down.sort_unstable();
    down.dedup();
    down
}

/// The hashes by which a flow's data and its ACKs choose among equally short routes.
fn hashes(nodes: &Nodes, flow: usize, seed: u64) -> Option<(u64, u64)> {
    let hash = |way: u64| stream_seed(seed, Stream::Route, 2 * flow as u64 + way);
    nodes.ecmp.then(|| (hash(0), hash(1)))
}

fn saturating(time: Duration, after: Duration) -> Duration {
    if time == Duration::MAX { time } else { time + after }
}

/// The links of a route over a chain: `"1"`, `"0-2"`, `"2-0"` or `"0,2"`.
fn chain(text: &str, links: usize, field: &str) -> Result<Vec<usize>, Wrong> {
    let number = |text: &str| text.trim().parse().ok().filter(|n: &usize| *n < links);
    let part = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (number(first)?, number(last)?);
        let part: Vec<usize> =
            if first <= last { (first..=last).collect() } else { (last..=first).rev().collect() };
        Some(part)
    };
    let parts: Option<Vec<Vec<usize>>> = text.split(',').map(part).collect();
    let passed = parts.map(|parts| parts.concat());
    let wrong = |why: String| {
        let text = text.escape_debug();
        Err(Wrong::new(format!("{field}.route"), format!("'{text}' is no route: {why}")))
    };
    match passed {
        None => wrong(match links {
            1 => "there is one link; leave it out".to_owned(),
            n => format!(
                "links count from 0 to {}; write \"0-{}\", \"1\" or \"0,{}\"",
                n - 1,
                n - 1,
                n - 1
            ),
        }),
        Some(passed) => {
            let twice = (0..passed.len()).find(|i| passed[..*i].contains(&passed[*i]));
            match twice {
                Some(i) => wrong(format!("it passes link {} twice; write it once", passed[i])),
                None => Ok(passed),
            }
        }
    }
}
