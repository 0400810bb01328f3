//! `fullpipe link`: any program on a path.

use std::ffi::OsString;
use std::io::{IsTerminal, stderr, stdin};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use fullpipe_cc::Duration;
use fullpipe_judge::program::{
    self, ProgramPath, ProgramPlace, ProgramRequest, ProgramResult, Rebinding, Rebound,
};
use fullpipe_lab::{EmuError, Progress, RunError};
use fullpipe_report::output::{SCHEMA_VERSION, page, table::number};
use fullpipe_report::plan::Options;
use fullpipe_scenario::units;
use nix::sys::termios::{LocalFlags, tcgetattr};

use crate::failure::Failure;
use crate::heartbeat::PATIENCE;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::path_args::PathArgs;
use crate::pictures::Pictures;
use crate::{print, say};

/// Run any command on a path
///
/// The command runs in a network namespace of its own; all that it sends and receives crosses the
/// path, which records what happens to each packet. It reaches the servers of this machine, as far
/// as they listen on more than 127.0.0.1, at the address that stands in its environment as
/// FULLPIPE_HOST and replaces {host} in its arguments; over IPv6 as FULLPIPE_HOST6 and {host6}. Of
/// other machines it reaches those to which this one forwards and whose answers it gets back,
/// usually none. A link inside a link works: both paths are one behind the other, and {host} is the
/// outermost machine.
///
/// With --server a command line is started first, at the other end of the path, and {host} is its
/// address: the run needs nothing else of this machine, and where the kernel has user namespaces it
/// needs no root.
///
/// With --udp there is no namespace and no root is needed: a relay between UDP clients and a server
/// has the path, and the command, if there is one, runs beside it. Each client has a socket of its
/// own towards the server.
///
/// Rate, buffer, loss, queue, jitter, reordering and policer hold in both directions, and so does
/// the rate of a trace; --up-... is for what the command sends alone. At the end a table of both
/// directions goes to stderr: stdout is the command's. Goodput is what was delivered behind the
/// headers of IP and of TCP or UDP, from the first packet to the last; its middle is the rate at
/// which the second and third quarter of the bytes arrived, without handshake, start and end.
/// Without --udp it needs Linux, and root unless there is --server.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    path: PathArgs,
    /// Relay UDP from the address LISTEN to SERVER and back, until Ctrl-C or until the command
    /// ends; {host} and {port} in its arguments are LISTEN. A port alone is one of 127.0.0.1, port
    /// 0 a free one
    #[arg(long, value_name = "LISTEN=SERVER", value_parser = parse_relay, allow_hyphen_values = true)]
    udp: Option<Relay>,
    /// Let clients appear to the server with another port at these times, like 5s,10s
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = units::parse_duration, allow_hyphen_values = true)]
    rebind: Vec<Duration>,
    /// The same with another address; with --udp the server is on 127.0.0.1 then
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = units::parse_duration, allow_hyphen_values = true)]
    rebind_address: Vec<Duration>,
    /// Start this command line with sh at the other end of the path, wait until it listens, and end
    /// it with the command; {host} in it is its own address, and {port}, in it and in the command,
    /// a port. The command cannot reach this machine's servers then
    #[arg(long, value_name = "COMMAND LINE", conflicts_with = "udp", allow_hyphen_values = true)]
    server: Option<OsString>,
    /// Swap the directions: packets from the command pass the links of the scenario file, packets
    /// to it the way back
    #[arg(long, requires = "scenario")]
    reverse: bool,
    /// Write the packets at both ends into this file, as pcapng: interface client is the command's
    /// end or the clients', interface server the other one
    #[arg(long, value_name = "FILE.pcapng")]
    pcap: Option<PathBuf>,
    /// Write a page with the table, and the rates, the queues and the losses of both directions
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    pictures: Pictures,
    /// Print one JSON object on stdout; the command's output goes to stderr
    #[arg(long)]
    json: bool,
    /// Draw the rates of both directions and the queue on stderr while the command runs. Without
    /// this a line shows them, with the losses: every second on a terminal, while packets go and no
    /// program draws on it, and every two seconds elsewhere
    #[arg(long, conflicts_with = "quiet")]
    live: bool,
    /// Print no progress and no table
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments, behind --
    #[arg(last = true, required_unless_present = "udp", value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples (with iperf3 -s running on this machine):
  sudo fullpipe link --rate 20mbit --rtt 60ms --buffer 2bdp -- iperf3 -c {host}
  sudo fullpipe link --rate 20mbit --rtt 60ms --loss 1% -- iperf3 -c {host} -R
  sudo fullpipe link --rate 5mbit --up-rate 1mbit -- curl -o /dev/null http://{host}:8000/file
  fullpipe link --rate 20mbit --rtt 60ms --server 'iperf3 -s -p {port}' -- iperf3 -c {host} -p {port}
  sudo fullpipe link --trace drive.csv --rtt 50ms --up-rate 2mbit --queue codel -- curl -O http://{host}:8000/file
  sudo fullpipe link --scenario scenarios/quickstart.toml --json -- sh -c 'iperf3 -c $FULLPIPE_HOST'
  sudo fullpipe link --rate 10mbit -- bash
  sudo fullpipe link --rate 10mbit --pcap both-ends.pcapng -- curl -O http://{host}:8000/file
  sudo fullpipe link --rate 10mbit --svg plots --series-csv series.csv -- curl -O http://{host}:8000/file
  fullpipe link --udp 5000=127.0.0.1:4433 --rate 20mbit --rtt 60ms
  fullpipe link --udp 0=example.org:443 --loss 1% -- sh -c 'my-quic-client https://localhost:{port}/'
  sudo fullpipe link --rtt 20ms -- fullpipe link --rate 10mbit -- ping {host}

Exit status: the command's own, 128 and the signal's number if one killed it, 2 bad input, or a command that cannot
start, or failed and nobody had answered it over the link (one line says which), 130 interrupted. What a killed run leaves, fullpipe
clean removes.";

/// The object of --json.
#[derive(serde::Serialize)]
struct Report<'a> {
    schema_version: u32,
    link: &'a ProgramResult,
}

/// The two ends of a relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relay {
    listen: SocketAddr,
    server: SocketAddr,
}

impl Relay {
    pub(crate) fn place(self) -> ProgramPlace {
        ProgramPlace::Relay { listen: self.listen, server: self.server }
    }
}

/// `LISTEN=SERVER`, each an address and a port, or a port alone of this machine; the server also by
/// its name.
pub(crate) fn parse_relay(text: &str) -> Result<Relay, String> {
    let usage = "write LISTEN=SERVER, as 127.0.0.1:5000=127.0.0.1:4433";
    let (listen, server) = text.split_once('=').ok_or_else(|| format!("no '='; {usage}"))?;
    let local = |text: &str| {
        let port = text.parse::<u16>().ok().map(|port| (Ipv4Addr::LOCALHOST, port).into());
        port.or_else(|| text.parse::<SocketAddr>().ok())
    };
    let listen = local(listen)
        .ok_or_else(|| format!("'{}' is no address and port; {usage}", listen.escape_debug()))?;
    if let Some(server) = local(server) {
        return if server.port() == 0 {
            Err("the server's port is 0; write the port on which it listens".to_owned())
        } else {
            Ok(Relay { listen, server })
        };
    }
    let found = server
        .to_socket_addrs()
        .map_err(|e| format!("'{}' is not found: {e}; {usage}", server.escape_debug()))?;
    let server = found.into_iter().find(|server| server.is_ipv4() == listen.is_ipv4());
    let server = server
        .ok_or_else(|| format!("the server has no address of the family of {listen}; {usage}"))?;
    Ok(Relay { listen, server })
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let path = args.path()?;
    if let Some(file) = &args.report {
        page::check_writable(file).map_err(Failure::bad_input)?;
        page::check_replaceable(file).map_err(Failure::bad_input)?;
    }
    args.pictures.check()?;
    let place = args.udp.map_or(ProgramPlace::Namespace, Relay::place);
    match args.server {
        // Before this process has a second thread.
        Some(_) => program::check_inside().map_err(Failure::bad_input)?,
        None => program::check(place).map_err(needs_root)?,
    }
    let stop = Interrupt::install()?.flag();
    let mut news = News::start(args, &path.name);
    let result = program::run(ProgramRequest {
        path: &path,
        place,
        rebind: &args.rebindings(),
        capture: args.pcap.as_deref(),
        command: &args.command,
        server: args.server.as_deref(),
        beside: &[],
        rival: None,
        record: 0,
        output_on_stderr: args.json,
        stop: &stop,
        address: &mut |host| match args.udp {
            _ if args.quiet => {}
            None => {
                let who = if args.server.is_some() { "the server" } else { "this machine" };
                say(&format!("{}: {who} is {} for the command", path.name, host.ip()));
            }
            Some(Relay { server, .. }) => {
                say(&format!("{}: relays UDP between {host} and {server}", path.name));
            }
        },
        watch: &mut |progress| news.tick(&progress),
    });
    news.end();
    let result = result.map_err(cannot_run)?;
    let outcome = outcome(&result);
    if matches!(outcome, Err(Failure::BadInput(_))) {
        return outcome;
    }
    if let Some(file) = &args.report {
        let text = program::page(&result).map_err(Failure::run)?;
        page::write_text(file, &text).map_err(Failure::run)?;
    }
    args.pictures.write_svg(|| vec![(result.path.clone(), program::drawing(&result))])?;
    args.pictures.write_series(|file| program::write_series_csv(&result, file))?;
    if args.json {
        let object = Report { schema_version: SCHEMA_VERSION, link: &result };
        print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?))?;
    } else if !args.quiet {
        say(&in_words(&result));
    }
    if let Some(pcap) = &result.pcap
        && (pcap.missing > 0 || pcap.error.is_some())
    {
        let why = pcap.error.as_deref().unwrap_or("the disk was too slow");
        say(&format!("--pcap: {} packets are in the file, others are not: {why}", pcap.written));
    }
    if let Some(warning) = &result.emulator.warning {
        say(&format!("{}: not to be trusted: {warning}", result.path));
    }
    outcome
}

impl Args {
    /// The times at which clients become somebody else.
    fn rebindings(&self) -> Vec<Rebinding> {
        let each = |times: &[Duration], what| {
            times.iter().map(|at| Rebinding { at: *at, what }).collect::<Vec<_>>()
        };
        [each(&self.rebind, Rebound::Port), each(&self.rebind_address, Rebound::Address)].concat()
    }

    /// The path that the arguments describe.
    fn path(&self) -> Result<ProgramPath, Failure> {
        self.path.program_path(self.reverse, &Options::default())
    }
}

/// Ways to do without root, beside the error that it is needed.
pub(crate) fn needs_root(error: RunError) -> Failure {
    match error {
        RunError::NoNamespace(EmuError::NeedsRoot) => Failure::bad_input(
            "a command that is to reach this machine over a link needs root; run it with sudo, or start what it talks \
             to at the other end with --server 'COMMAND LINE', or carry UDP alone with --udp LISTEN=SERVER",
        ),
        error => Failure::bad_input(error),
    }
}

/// A run without a result.
pub(crate) fn cannot_run(error: RunError) -> Failure {
    match error {
        RunError::StoppedEarly => Failure::interrupted(true),
        RunError::NoCommand { .. }
        | RunError::NoServer { .. }
        | RunError::NoHost6
        | RunError::Link(
            EmuError::Listen { .. }
            | EmuError::TwoFamilies { .. }
            | EmuError::OneAddress(_)
            | EmuError::Capture { .. },
        ) => Failure::bad_input(error),
        error => Failure::run(error),
    }
}

/// The command's own end, as this one's.
pub(crate) fn outcome(result: &ProgramResult) -> Result<(), Failure> {
    if result.interrupted {
        return Err(Failure::interrupted(false));
    }
    let reach = reach(result);
    let Some(ended) = result.ended else {
        if result.is_without_packets() {
            say(&format!("nobody sent anything over the link; {reach}"));
        }
        return Ok(());
    };
    let name = result.command.first().map_or("", String::as_str).escape_debug();
    let code = ended.exit_code();
    // Whatever killed it, it was not that nobody answered.
    let is_silent = result.is_without_packets() && ended.code.is_some();
    let is_alone = result.is_without_answer() && ended.code.is_some();
    let reason = format!("'{name}' ended with {}", ended.in_words());
    match code {
        0 if is_silent => {
            say(&format!("'{name}' sent nothing over the link; {reach}"));
            Ok(())
        }
        0 => Ok(()),
        _ if is_silent => Err(Failure::bad_input(format!(
            "{reason} after {} s, before it sent anything over the link; its output is above, and {reach}",
            number(result.elapsed_s)
        ))),
        _ if is_alone => Err(Failure::bad_input(format!(
            "{reason}, and nobody answered it over the link; its output is above. {}",
            no_answer(result)
        ))),
        _ => Err(Failure::Command { reason: format!("{reason}{}", said(result)), code }),
    }
}

/// Addresses that a user of the link needs.
fn reach(result: &ProgramResult) -> String {
    match (&result.relay, &result.server) {
        (Some(relay), _) => format!("clients send to {}", relay.listen),
        (None, Some(_)) => "it reaches the server at {host}, and nothing else".to_owned(),
        (None, None) => "it reaches this machine at {host}, not at 127.0.0.1".to_owned(),
    }
}

/// Likely causes where nobody answers.
fn no_answer(result: &ProgramResult) -> String {
    match (&result.relay, &result.server) {
        (Some(relay), _) if relay.unreachable > 0 => {
            format!("Nobody listens at the server's address {}", relay.server)
        }
        (Some(relay), _) => format!("The server's address is {}", relay.server),
        (None, Some(_)) => format!("It reaches the server at {{host}}, and nothing else{}", said(result)),
        (None, None) => "It reaches servers of this machine, at {host}, that are started before and listen on all \
                         addresses, not on 127.0.0.1 alone; of other machines usually none"
            .to_owned(),
    }
}

/// The last output of the server that belonged to the run.
fn said(result: &ProgramResult) -> String {
    match result.server.as_ref().map(|server| server.output.as_str()) {
        None | Some("") => String::new(),
        Some(output) => format!("; the server's last output: {output}"),
    }
}

/// The table, and a line above and below it.
fn in_words(result: &ProgramResult) -> String {
    let name = result.command.first().map_or("the relay", String::as_str).escape_debug();
    let ended = result.ended.map_or_else(String::new, |e| format!(" with {}", e.in_words()));
    let clients = match result.relay.as_ref().map(|relay| relay.clients) {
        None => String::new(),
        Some(1) => ", with 1 client".to_owned(),
        Some(n) => format!(", with {n} clients"),
    };
    let lateness = &result.emulator.lateness_us;
    format!(
        "{}: {name} ended{ended} after {} s{clients}\n{}packets left the link {} ms late at p99",
        result.path,
        number(result.elapsed_s),
        program::table(result).to_text(),
        number(lateness.p99 / 1e3),
    )
}

/// Time between two lines on a terminal, where somebody looks on.
const SECOND: Duration = Duration::from_secs(1);

/// News while the command runs.
struct News {
    name: String,
    live: Option<Live>,
    is_silent: bool,
    interval: Duration,
    /// Time of the last line in the run, and what was delivered since: to the command and from it.
    spoken: Duration,
    megabits: [f64; 2],
    /// Time of the last tick.
    heard: Duration,
}

impl News {
    fn start(args: &Args, name: &str) -> Self {
        let live = args.live.then(|| Live::quiet(name.to_owned(), false));
        let interval = if stderr().is_terminal() { SECOND } else { PATIENCE.into() };
        Self {
            name: name.to_owned(),
            live,
            is_silent: args.quiet,
            interval,
            spoken: Duration::ZERO,
            megabits: [0.0; 2],
            heard: Duration::ZERO,
        }
    }

    fn tick(&mut self, progress: &Progress) {
        if let Some(live) = &mut self.live {
            live.tick(progress);
            return;
        }
        let seconds = |d: Duration| d.as_nanos() as f64 / 1e9;
        let passed = seconds(progress.elapsed - self.heard);
        self.heard = progress.elapsed;
        for (sum, bps) in self.megabits.iter_mut().zip(&progress.flow_bps) {
            *sum += *bps as f64 / 1e6 * passed;
        }
        let since = progress.elapsed - self.spoken;
        if self.is_silent || since < self.interval {
            return;
        }
        let [down, up] = self.megabits.map(|sum| sum / seconds(since));
        (self.spoken, self.megabits) = (progress.elapsed, [0.0; 2]);
        if (down + up > 0.0 || !stderr().is_terminal()) && !is_drawn_on() {
            say(&format!(
                "{}: {:.0} s, {down:.1} Mbit/s down, {up:.1} up, queue {:.1} ms, {:.2} % lost",
                self.name,
                seconds(progress.elapsed),
                progress.queue.as_nanos() as f64 / 1e6,
                progress.loss_rate * 100.0
            ));
        }
    }

    fn end(self) {
        if let Some(live) = self.live {
            live.end(None);
        }
    }
}

/// True if a program has the terminal for itself, like an editor or a shell at its prompt: it reads
/// keys and not lines.
fn is_drawn_on() -> bool {
    let lines =
        tcgetattr(stdin()).map(|settings| settings.local_flags.contains(LocalFlags::ICANON));
    stderr().is_terminal() && lines == Ok(false)
}
