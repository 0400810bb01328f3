//! A flow that other programs make: its two commands, from their start to their end. What they send
//! is seen on the link alone.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fs, thread, time};

use fullpipe_cc::{Duration, Instant};
use fullpipe_emu::namespace::{CLIENT, NamespaceHandle, SERVER};
use fullpipe_emu::tun::{WireSample, WireView};
use fullpipe_report::observe::{FlowSample, FlowTimes};
use fullpipe_scenario::{Flow, Scenario, Sends, Values};
use fullpipe_traffic::{Direction, SenderStats};
use nix::unistd::{AccessFlags, access};

use super::flow::TcpFlow;
use crate::backend::RunError;
use crate::backend::realtime::Event;
use crate::process::{Output, Process};

/// Time between two looks at the programs.
const NAP: time::Duration = time::Duration::from_millis(5);

/// Time that a server has until it listens, and a client until its first packet.
const PATIENCE: time::Duration = time::Duration::from_secs(20);

/// Time that a client has to say for itself what is wrong after its server has failed.
const LAST_WORDS: time::Duration = time::Duration::from_secs(1);

/// A flow that is silent for so long at its end, and for half of its time, hangs.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// More than this against the flow's direction are no handshake and no acknowledgements of little
/// data.
const WRONG_WAY_BYTES: u64 = 50_000;

/// Length of an IP header and UDP's.
const UDP_HEADERS: u64 = 28;

/// A flow's programs.
#[derive(Debug)]
pub(super) struct Program {
    flow: usize,
    server: Vec<String>,
    client: Vec<String>,
    port: u16,
    /// The direction of its data on the link.
    way: usize,
    sends: Sends,
    /// Time at which the client is to start and the run's first request, both since the epoch, once
    /// they are known.
    go: OnceLock<(Duration, Option<Duration>)>,
    /// Of the server and of the client, once they run.
    outputs: Mutex<[Option<Output>; 2]>,
    /// Programs of all flows whose servers do not listen yet.
    unready: Arc<AtomicUsize>,
}

/// The namespaces in which a flow's programs run, and their packets on the link.
pub(super) struct Endpoints {
    pub(super) server: NamespaceHandle,
    pub(super) client: NamespaceHandle,
    pub(super) wire: WireView,
}

/// A program that runs.
struct Running {
    name: String,
    process: Process,
    output: Output,
}

impl Program {
    /// The programs of a flow, if it has any.
    pub(super) fn of(
        number: usize,
        port: u16,
        scenario: &Scenario,
        unready: &Arc<AtomicUsize>,
    ) -> Option<Arc<Self>> {
        let program = scenario.flows[number].program.as_ref()?;
        let config = &scenario.config.flows[number];
        let (server, client) = match is_server_here(config.direction, program.sends) {
            true => (SERVER, CLIENT),
            false => (CLIENT, SERVER),
        };
        let end = config.stop.or(scenario.duration).unwrap_or(config.start);
        let duration_s = (end - config.start).as_nanos().div_ceil(1_000_000_000).max(1);
        let values = Values { server, client, port, duration_s };
        unready.fetch_add(1, Ordering::Relaxed);
        Some(Arc::new(Self {
            flow: number,
            server: program.server(values),
            client: program.client(values),
            port,
            way: config.direction as usize,
            sends: program.sends,
            go: OnceLock::new(),
            outputs: Mutex::default(),
            unready: unready.clone(),
        }))
    }

    /// Its flow's number.
    pub(super) fn flow(&self) -> usize {
        self.flow
    }

    /// True if the server's program runs where the links' data comes from.
    pub(super) fn is_server_here(&self) -> bool {
        (self.sends == Sends::Server) == (self.way == 0)
    }

    /// Lets the client start, as [`TcpFlow::send`] does with a flow.
    pub(super) fn go(&self, at: Duration, zero: Option<Duration>) {
        let _ = self.go.set((at, zero));
    }

    /// The direction of its data, as it is on the link.
    pub(super) fn sample(&self, wire: &WireView) -> WireSample {
        wire.sample(self.flow)[self.way]
    }

    /// The link's record of the sender.
    pub(super) fn sender(&self, wire: &WireView) -> Option<FlowSample> {
        let seen = self.sample(wire);
        let (lost_packets, lost_bytes) = match seen.is_tcp {
            true => (seen.retransmitted.packets, seen.retransmitted.bytes),
            // What QUIC sends again looks like anything else.
            false => {
                let lost = seen.dropped;
                (lost.packets, lost.bytes.saturating_sub(UDP_HEADERS * lost.packets))
            }
        };
        let sender = SenderStats {
            sent_packets: seen.sent.packets,
            sent_bytes: seen.sent_payload_bytes,
            lost_packets,
            lost_bytes,
        };
        let there = FlowSample { rtt: seen.srtt, srtt: seen.srtt, sender, ..FlowSample::default() };
        seen.first.map(|_| there)
    }

    /// Runs both programs until the flow or the run is over. When this returns, all that they
    /// started has ended.
    pub(super) fn run(&self, flow: &TcpFlow, places: &Endpoints) {
        let mut running = Vec::new();
        let done = self.try_run(flow, places, &mut running);
        running.iter().for_each(|running: &Running| running.process.ask_to_end());
        for running in &mut running {
            // One that cannot be waited for was never there.
            let _ = running.process.end();
        }
        if let Err(error) = done
            && !flow.has_ended()
        {
            flow.tell(Event::Failed(error));
        }
    }

    fn try_run(
        &self,
        flow: &TcpFlow,
        places: &Endpoints,
        running: &mut Vec<Running>,
    ) -> Result<(), RunError> {
        if !self.server.is_empty() {
            let server = self.start(&self.server, &places.server, 0)?;
            running.push(server);
            if !self.wait_until_it_listens(flow, &places.server, &mut running[0])? {
                return Ok(());
            }
        }
        self.unready.fetch_sub(1, Ordering::Release);
        let Some(zero) = self.wait_for_start(flow) else { return Ok(()) };
        let client = self.start(&self.client, &places.client, 1)?;
        let begun = time::Instant::now();
        // On a path whose times count from the start of the run, that is the client's.
        let has_lead = zero.is_none() && self.go.get().is_some_and(|(at, _)| *at > Duration::ZERO);
        let mut told = false;
        let tell = |at: Duration| {
            flow.zero.get_or_init(|| zero.unwrap_or(at));
            flow.tell(Event::Started { flow: self.flow, at });
        };
        if has_lead {
            tell(flow.now());
            told = true;
        }
        running.push(client);
        loop {
            if let Some(first) = self.sample(&places.wire).first.filter(|_| !told) {
                tell(first.since(Instant::default()));
                told = true;
            }
            if flow.has_ended() {
                return Ok(());
            }
            if flow.zero.get().is_some() && flow.has_stopped() {
                flow.tell(Event::Finished { flow: self.flow, at: flow.now() });
                return Ok(());
            }
            let place = running.len() - 1;
            if let Some(status) = running[place].poll()? {
                let seen = self.sample(&places.wire);
                return match (status.success(), seen.first) {
                    (true, Some(_)) => {
                        let newest = seen.newest.map(|at| at.since(Instant::default()));
                        let at = newest.unwrap_or_else(|| flow.now());
                        flow.tell(Event::Finished { flow: self.flow, at });
                        Ok(())
                    }
                    _ => Err(self.ended(&running[place], status, begun, seen.first.is_some())),
                };
            }
            if place > 0
                && let Some(status) = running[0].poll()?
                && !status.success()
            {
                let has_sent = self.has_packets(places);
                return Err(self.server_failed(running, status, begun, has_sent)?);
            }
            if !self.has_packets(places) && begun.elapsed() > PATIENCE {
                let how = format!("sent nothing over the link in {} s", PATIENCE.as_secs());
                return Err(self.failed(&running[place], how, true));
            }
            thread::sleep(NAP);
        }
    }

    fn has_packets(&self, places: &Endpoints) -> bool {
        places.wire.sample(self.flow).iter().any(|way| way.first.is_some())
    }

    fn start(
        &self,
        words: &[String],
        place: &NamespaceHandle,
        which: usize,
    ) -> Result<Running, RunError> {
        let (program, arguments) = words.split_first().ok_or(RunError::Lost)?;
        let started = inside(place, || {
            let mut command = Command::new(program);
            command.args(arguments);
            Process::start_apart(command)
        })?;
        let name = program.escape_debug().to_string();
        let (process, output) =
            started.map_err(|source| RunError::NoCommand { program: name.clone(), source })?;
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)[which] = Some(output.clone());
        Ok(Running { name, process, output })
    }

    /// False when the run ended first.
    fn wait_until_it_listens(
        &self,
        flow: &TcpFlow,
        place: &NamespaceHandle,
        server: &mut Running,
    ) -> Result<bool, RunError> {
        let begun = time::Instant::now();
        inside(place, || {
            while !is_taken(self.port) {
                if flow.has_ended() {
                    return Ok(false);
                }
                if let Some(status) = server.poll()? {
                    return Err(self.ended(server, status, begun, false));
                }
                if begun.elapsed() > PATIENCE {
                    let how = format!(
                        "did not listen on port {} within {} s",
                        self.port,
                        PATIENCE.as_secs()
                    );
                    return Err(self.failed(server, how, true));
                }
                // The kernel walks large tables for each look.
                thread::sleep(4 * NAP);
            }
            Ok(true)
        })?
    }

    /// Waits until the client may start; gives the run's first request, which the first flow makes.
    /// Nothing when the run ended before.
    fn wait_for_start(&self, flow: &TcpFlow) -> Option<Option<Duration>> {
        loop {
            if flow.has_ended() {
                return None;
            }
            if let Some((at, zero)) = self.go.get() {
                let is_ready = zero.is_some() || self.unready.load(Ordering::Acquire) == 0;
                if is_ready {
                    return flow.sleep_until(*at).then_some(*zero);
                }
            }
            thread::sleep(NAP);
        }
    }

    fn server_failed(
        &self,
        running: &mut [Running],
        status: ExitStatus,
        begun: time::Instant,
        has_sent: bool,
    ) -> Result<RunError, RunError> {
        let failed_at = time::Instant::now();
        while failed_at.elapsed() < LAST_WORDS && running[1].poll()?.is_none() {
            thread::sleep(NAP);
        }
        Ok(self.ended(&running[0], status, begun, has_sent))
    }

    fn ended(
        &self,
        running: &Running,
        status: ExitStatus,
        begun: time::Instant,
        has_sent: bool,
    ) -> RunError {
        let seconds = begun.elapsed().as_secs_f64();
        let before = if has_sent { "" } else { ", before it sent anything over the link" };
        self.failed(running, format!("ended with {status} after {seconds:.1} s{before}"), !has_sent)
    }

    fn failed(&self, running: &Running, how: String, is_unfit: bool) -> RunError {
        let (program, output) = (running.name.clone(), running.output.last_words());
        RunError::Program { flow: self.flow, program, how, output, is_unfit }
    }

    /// Errors of a run that ended in time: data that never came, that came the other way,
    /// or that ended long before the flow. `zero` is the run's first request, since the epoch.
    pub(super) fn complaint(
        &self,
        wire: &WireView,
        zero: Duration,
        times: FlowTimes,
    ) -> Option<RunError> {
        let ways = wire.sample(self.flow);
        let (data, other) = (ways[self.way].payload_bytes, ways[1 - self.way].payload_bytes);
        let name = |words: &[String]| words.first().cloned().unwrap_or_default();
        let (sends, wants) = match self.sends {
            Sends::Client => ("client", "server"),
            Sends::Server => ("server", "client"),
        };
        let outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let shown =
            |which: usize| outputs[which].as_ref().map_or(String::new(), Output::last_lines);
        let (program, output) = match self.sends {
            Sends::Client => (name(&self.client), shown(1)),
            Sends::Server => (name(&self.server), shown(0)),
        };
        let failed = |how| {
            let program = program.escape_debug().to_string();
            let is_unfit = data == 0 || other > data.max(WRONG_WAY_BYTES);
            Some(RunError::Program { flow: self.flow, program, how, output, is_unfit })
        };
        if other > data.max(WRONG_WAY_BYTES) {
            return failed(format!(
                "sent {data} bytes and got {other}: the data comes from the program's {wants}; write sends = \
                 \"{wants}\" instead of \"{sends}\""
            ));
        }
        if data == 0 {
            return failed("sent no data over the link".to_owned());
        }
        let newest = ways[self.way].newest?.since(Instant::default()) - zero;
        let (silent, life) = (times.end - newest, times.end - times.start);
        if silent < LONGEST_SILENCE || silent.times(2) < life {
            return None;
        }
        let seconds = |time: Duration| time.as_nanos() as f64 / 1e9;
        failed(format!(
            "hangs: of the {:.1} s of its flow nothing came in the last {:.1} s",
            seconds(life),
            seconds(silent)
        ))
    }
}

impl Running {
    fn poll(&mut self) -> Result<Option<ExitStatus>, RunError> {
        self.process.poll().map_err(RunError::LostCommand)
    }
}

fn is_server_here(direction: Direction, sends: Sends) -> bool {
    (sends == Sends::Server) == (direction == Direction::Down)
}

/// Checks that a flow's programs are there, before anything is started.
pub(super) fn check(number: usize, flow: &Flow) -> Result<(), RunError> {
    let Some(program) = &flow.program else { return Ok(()) };
    let missing = program.files().find(|file| !is_there(file));
    missing.map_or(Ok(()), |file| {
        Err(RunError::NoProgram { flow: number, program: file.escape_debug().to_string() })
    })
}

/// True if a file can be run, which is looked for as a shell does.
fn is_there(file: &str) -> bool {
    let can_run = |path: &Path| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    if file.contains('/') {
        return can_run(Path::new(file));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| can_run(&dir.join(file)))
}

/// Does something on a thread inside a namespace.
fn inside<T: Send>(
    place: &NamespaceHandle,
    work: impl FnOnce() -> T + Send,
) -> Result<T, RunError> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            place.enter()?;
            Ok(work())
        });
        thread.join().map_err(|_| RunError::Lost)?
    })
}

/// True if somebody listens on a port in the calling thread's namespace, over TCP or UDP.
fn is_taken(port: u16) -> bool {
    let tables = [("tcp", Some("0A")), ("tcp6", Some("0A")), ("udp", None), ("udp6", None)];
    tables.into_iter().any(|(table, state)| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        has_port(&text, port, state)
    })
}

/// True if one of the kernel's tables of sockets has a port, in this state.
fn has_port(table: &str, port: u16, state: Option<&str>) -> bool {
    let port = format!("{port:04X}");
    table.lines().skip(1).any(|row| {
        let mut fields = row.split_ascii_whitespace().skip(1);
        let local = fields.next().and_then(|local| local.rsplit_once(':'));
        let its_state = fields.nth(1);
        local.is_some_and(|(_, its)| its == port) && state.is_none_or(|s| its_state == Some(s))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 00000000:1388 00000000:0000 0A 00\n   \
                     1: 0100007F:1389 00000000:0000 01 00\n";
        assert!(has_port(table, 5000, Some("0A")));
        assert!(!has_port(table, 5001, Some("0A")), "a connection");
        assert!(has_port(table, 5001, None) && !has_port(table, 500, None));
    }

    #[test]
    fn a_program_is_looked_for_as_a_shell_does() {
        assert!(is_there("sh") && is_there("/bin/sh"));
        assert!(!is_there("/bin") && !is_there("no-such-program") && !is_there("./no/such"));
    }
}
