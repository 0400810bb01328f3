//! `fullpipe link`: any program on a path.

use std::ffi::OsString;
use std::io::{IsTerminal, stdin};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Instant;

use fullpipe_cc::{Duration, Rate};
use fullpipe_lab::output::{SCHEMA_VERSION, table::number};
use fullpipe_lab::program::{
    self, PathOptions, ProgramPath, ProgramPlace, ProgramRequest, ProgramResult,
};
use fullpipe_lab::units::{self, Buffer};
use fullpipe_lab::{Edition, EmuError, Options, Progress, RunError};
use fullpipe_path::Probability;

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::patience::PATIENCE;
use crate::{print, run, say};

/// Run any command on a path
///
/// The command runs in a network namespace of its own; all that it sends and receives crosses the path, which
/// knows the truth about each packet. It reaches the servers of this machine, as far as they listen on more than
/// 127.0.0.1, at the address that stands in its environment as FULLPIPE_HOST and replaces {host} in its arguments.
/// Of other machines it reaches those to which this one forwards and whose answers it gets back, usually none.
/// A link inside a link works: both paths are one behind the other, and {host} is the outermost machine.
///
/// With --udp there is no namespace and no root is needed: a relay between UDP clients and a server has the path, and
/// the command, if there is one, runs beside it. Each client has a socket of its own towards the server.
///
/// Rate, buffer and loss hold in both directions. At the end a table of both directions goes to stderr: stdout is
/// the command's. Goodput is what was delivered behind the headers of IP and of TCP or UDP, from the first packet to
/// the last. Without --udp it needs Linux and root.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Rate of each direction's bottleneck, IP headers included, like 20mbit [default: 100mbit]
    #[arg(long, value_parser = units::parse_rate, allow_hyphen_values = true)]
    rate: Option<Rate>,
    /// Another rate for what the command sends [default: that of --rate]
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate, allow_hyphen_values = true)]
    up_rate: Option<Rate>,
    /// Round-trip propagation delay, like 60ms [default: 40ms]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration, allow_hyphen_values = true)]
    rtt: Option<Duration>,
    /// The buffer of each direction's bottleneck, like 2bdp (rate x rtt), 64kB or 25pkts [default: 1bdp]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    buffer: Option<Buffer>,
    /// Random loss in each direction, like 0.1% or 0.001 [default: 0%]
    #[arg(long, value_parser = units::parse_loss, allow_hyphen_values = true)]
    loss: Option<Probability>,
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = units::parse_count::<u64>, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Relay UDP from the address LISTEN to SERVER and back, until Ctrl-C or until the command ends; {host} and
    /// {port} in its arguments are LISTEN. A port alone is one of 127.0.0.1, port 0 a free one
    #[arg(long, value_name = "LISTEN=SERVER", value_parser = parse_relay, allow_hyphen_values = true)]
    udp: Option<Relay>,
    /// Let every client of the relay appear to the server with another port at these times, like 5s,10s
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = units::parse_duration, requires = "udp", allow_hyphen_values = true)]
    rebind: Vec<Duration>,
    /// Take the path of a scenario file: its links are passed by what the command receives, its way back by what
    /// it sends, and its times count from the start of the command. Flows and expectations in it are not used
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["rate", "up_rate", "rtt", "buffer", "loss", "seed"])]
    scenario: Option<PathBuf>,
    /// Let what the command sends pass the links of the scenario file, and what it receives its way back
    #[arg(long, requires = "scenario")]
    reverse: bool,
    /// Write the packets at both ends into this file, as pcapng: interface client is the command's end or the clients',
    /// interface server the other one
    #[arg(long, value_name = "FILE.pcapng")]
    pcap: Option<PathBuf>,
    /// Print one JSON object on stdout; the command's output goes to stderr
    #[arg(long)]
    json: bool,
    /// Draw the rates of both directions and the queue on stderr while the command runs. Without this a line
    /// every two seconds says them, and nothing does when stdin is a terminal, which may be the command's
    #[arg(long, conflicts_with = "quiet")]
    live: bool,
    /// Say nothing while the command runs, and print no table
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
  sudo fullpipe link --scenario scenarios/quickstart.toml --json -- sh -c 'iperf3 -c $FULLPIPE_HOST'
  sudo fullpipe link --rate 10mbit -- bash
  sudo fullpipe link --rate 10mbit --pcap both-ends.pcapng -- curl -O http://{host}:8000/file
  fullpipe link --udp 5000=127.0.0.1:4433 --rate 20mbit --rtt 60ms
  fullpipe link --udp 0=example.org:443 --loss 1% -- sh -c 'my-quic-client https://localhost:{port}/'
  sudo fullpipe link --rtt 20ms -- fullpipe link --rate 10mbit -- ping {host}

Exit status: the command's own, 128 and the signal's number if one killed it, 2 bad input or a command that cannot
start or failed before it sent a packet (one line says which), 130 interrupted. What a killed run leaves, fullpipe
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

/// `LISTEN=SERVER`, each an address and a port, or a port alone of this machine; the server also by its name.
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
    let place = args.udp.map_or(ProgramPlace::Namespace, Relay::place);
    program::check(place).map_err(Failure::bad_input)?;
    let stop = Interrupt::install()?.flag();
    let mut news = News::start(args, &path.name);
    let result = program::run(ProgramRequest {
        path: &path,
        place,
        rebind: &args.rebind,
        capture: args.pcap.as_deref(),
        command: &args.command,
        output_on_stderr: args.json,
        stop: &stop,
        address: &mut |host| match args.udp {
            _ if args.quiet => {}
            None => say(&format!("{}: this machine is {} for the command", path.name, host.ip())),
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
    /// The path that the arguments describe.
    fn path(&self) -> Result<ProgramPath, Failure> {
        let Some(file) = &self.scenario else {
            let plan = self.options().plan().map_err(Failure::bad_input)?;
            return ProgramPath::of(&plan, false).map_err(Failure::bad_input);
        };
        let plan = run::load(file, Edition::default())?;
        ProgramPath::of(&plan, self.reverse)
            .map_err(|why| Failure::bad_input(format!("{}: {why}", file.display())))
    }

    fn options(&self) -> PathOptions {
        let usual = Options::default();
        PathOptions {
            rate: self.rate.map_or(usual.rate, units::show_rate),
            up_rate: self.up_rate.map(units::show_rate),
            rtt: self.rtt.map_or(usual.rtt, units::show_duration),
            buffer: self.buffer.map_or(usual.buffer, |buffer| buffer.to_string()),
            loss: self
                .loss
                .filter(|p| *p > Probability::ZERO)
                .map(|p| units::show_loss(p.as_f64())),
            seed: self.seed,
        }
    }
}

/// A run without a result.
pub(crate) fn cannot_run(error: RunError) -> Failure {
    match error {
        RunError::NoCommand { .. }
        | RunError::Link(
            EmuError::Listen { .. } | EmuError::TwoFamilies { .. } | EmuError::Capture { .. },
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
    match (code, result.is_without_packets() && ended.code.is_some()) {
        (0, false) => Ok(()),
        (0, true) => {
            say(&format!("'{name}' sent nothing over the link; {reach}"));
            Ok(())
        }
        (_, true) => Err(Failure::bad_input(format!(
            "'{name}' ended with {} after {} s, before it sent anything over the link; its output is above, and {reach}",
            ended.in_words(),
            number(result.elapsed_s)
        ))),
        (_, false) => Err(Failure::Command {
            reason: format!("'{name}' ended with {}", ended.in_words()),
            code,
        }),
    }
}

/// What has to be known to use the link.
fn reach(result: &ProgramResult) -> String {
    match &result.relay {
        None => "it reaches this machine at {host}, not at 127.0.0.1".to_owned(),
        Some(relay) => format!("clients send to {}", relay.listen),
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

/// News while the command runs.
struct News {
    name: String,
    live: Option<Live>,
    is_silent: bool,
    spoken: Instant,
}

impl News {
    fn start(args: &Args, name: &str) -> Self {
        let live = args.live.then(|| Live::quiet(name.to_owned(), false));
        let is_silent = args.quiet || stdin().is_terminal();
        Self { name: name.to_owned(), live, is_silent, spoken: Instant::now() }
    }

    fn tick(&mut self, progress: &Progress) {
        if let Some(live) = &mut self.live {
            live.tick(progress);
        } else if !self.is_silent && self.spoken.elapsed() >= PATIENCE {
            let nanos = |d: Duration| d.as_nanos() as f64;
            let [down, up] =
                [0, 1].map(|way| progress.flow_bps.get(way).map_or(0.0, |bps| *bps as f64 / 1e6));
            say(&format!(
                "{}: {:.0} s, {down:.1} Mbit/s down, {up:.1} up, queue {:.1} ms",
                self.name,
                nanos(progress.elapsed) / 1e9,
                nanos(progress.queue) / 1e6
            ));
            self.spoken = Instant::now();
        }
    }

    fn end(self) {
        if let Some(live) = self.live {
            live.end(None);
        }
    }
}
