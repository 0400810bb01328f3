//! `fullpipe interop`: the QUIC interop runner's cases with other people's stacks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use fullpipe_interop::{
    CASES, Case, Cell, ENDPOINT, Ends, Grade, InteropReport, MEASUREMENTS, Request, Role, Run,
};
use fullpipe_judge::peers::{self, Installed, Missing, Recipe};
use fullpipe_judge::program::{self, ProgramPlace};
use fullpipe_lab::RunError;
use fullpipe_report::output::{SCHEMA_VERSION, page};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::{print, say};

/// Run the QUIC interop runner's cases with other people's stacks (Linux, root)
///
/// Each case runs over the path that the runner has for it, between two network namespaces, with a
/// peer as the server and as the client of this program's other end. It passes if the files are
/// equal and the packets at both ends of the path show what the case asks for; docs/interop.md says
/// what that is. The peers are those of fullpipe peers; fullpipe is one of them.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// All cases and both measurements with every installed peer
    #[arg(long, conflicts_with_all = ["peers", "cases", "commands"])]
    all: bool,
    /// The peers [default: all that are installed]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    peers: Vec<String>,
    /// A peer of your own, by the command of its ends; docs/interop.md lists its environment
    /// variables. Can be given several times
    #[arg(long = "command", value_name = "NAME=COMMAND", value_parser = named_command)]
    commands: Vec<(String, String)>,
    /// The cases, goodput and crosstraffic among them [default: the 22 cases]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    cases: Vec<String>,
    /// Roles of the peers; both is a peer with itself, which shows if this program's end influences
    /// a result
    #[arg(
        long,
        value_name = "ROLES",
        value_delimiter = ',',
        value_enum,
        default_value = "server,client"
    )]
    roles: Vec<PeerRole>,
    /// Runs of each case; it passes if each run does [default: 5 times a measurement, others once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// The random numbers of losses, corruption and files; each run adds one
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep here what ends and links wrote in runs that did not pass: output, secrets, qlogs,
    /// packets
    #[arg(long, short = 'o', value_name = "DIR")]
    output: Option<PathBuf>,
    /// Keep it of all runs
    #[arg(long, requires = "output")]
    keep: bool,
    /// The folder of the peers [default: fullpipe/peers below XDG_CACHE_HOME, or below ~/.cache]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print one JSON object in place of the table
    #[arg(long)]
    json: bool,
    /// Write the page here
    #[arg(long, short = 'r', value_name = "FILE.html")]
    report: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  sudo fullpipe interop --peers fullpipe
  sudo fullpipe interop --peers quic-go,aioquic --cases handshake,transfer,retry --output logs --report interop.html
  sudo fullpipe interop --peers quic-go --roles client --cases handshakeloss --runs 5
  sudo fullpipe interop --peers quic-go --roles client,both --cases handshakeloss
  sudo fullpipe interop --command mine=./run_endpoint.sh --cases transfer
  sudo fullpipe interop --all --json";

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum PeerRole {
    Server,
    Client,
    Both,
}

/// The object of --json.
#[derive(serde::Serialize)]
struct Json<'a> {
    schema_version: u32,
    interop: &'a InteropReport,
}

/// A peer in a role, with the commands of both ends.
struct Pair {
    peer: String,
    role: Role,
    server: (String, String),
    client: (String, String),
}

impl Pair {
    /// A peer's end in a role, and this program's.
    fn of(peer: (String, String), role: Role, own: (String, String)) -> Self {
        let name = peer.0.clone();
        let (server, client) = match role {
            Role::Server => (peer, own),
            Role::Client => (own, peer),
            Role::Both => (peer.clone(), peer),
        };
        Self { peer: name, role, server, client }
    }
}

/// A name that can be a folder's, and a command line.
fn named_command(text: &str) -> Result<(String, String), String> {
    let (name, command) = text.split_once('=').ok_or("write NAME=COMMAND")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(format!(
            "'{}' is no name; write letters, digits and - alone",
            name.escape_debug()
        ));
    }
    if peers::recipes().iter().any(|recipe| recipe.name == name) {
        return Err(format!("'{name}' is the name of a recipe; write another one"));
    }
    match command.trim() {
        "" => Err(format!("there is no command behind {name}=")),
        command => Ok((name.to_owned(), command.to_owned())),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let cases = args.chosen_cases()?;
    let recipes = args.chosen_recipes()?;
    if let Some(report) = &args.report {
        page::check_replaceable(report).map_err(Failure::bad_input)?;
    }
    program::check(ProgramPlace::Namespace).map_err(Failure::bad_input)?;
    let root = peers::folder(args.dir.as_deref()).map_err(Failure::bad_input)?;
    let itself = std::env::current_exe().map_err(Failure::run)?;
    let place = args.place()?;
    let endpoint = place.path().join("run_endpoint.sh");
    fs::write(&endpoint, ENDPOINT).map_err(Failure::bad_input)?;

    let mut report = InteropReport::new(&cases);
    let own = recipes_own()?;
    let command =
        |recipe: &Recipe| recipe.interop_command(&root, &itself, &endpoint).unwrap_or_default();
    let mut pairs = Vec::new();
    for recipe in recipes {
        match peers::installed(recipe, &root, &itself) {
            Ok(stack) => report.peers.push(stack),
            Err(error) => {
                let missing = Missing { name: recipe.name.clone(), reason: error.to_string() };
                say(&format!("{} {}", missing.name, missing.reason));
                report.missing.push(missing);
                continue;
            }
        }
        for (name, text) in recipe.scripts() {
            fs::write(place.path().join(name), text).map_err(Failure::bad_input)?;
        }
        let end = |recipe: &Recipe| (recipe.name.clone(), command(recipe));
        let mut own_end = end(own);
        if let Some(alpn) = &recipe.interop_alpn {
            own_end.1 = format!("env ALPN={alpn} {}", own_end.1);
        }
        let roles: Vec<Role> = match recipe.name == own.name {
            true => vec![Role::Both],
            false => args.roles.iter().map(|role| role.of_peer()).collect(),
        };
        pairs.extend(roles.into_iter().map(|role| Pair::of(end(recipe), role, own_end.clone())));
    }
    for (name, line) in &args.commands {
        let own = (own.name.clone(), command(own));
        let roles = args.roles.iter().map(|role| role.of_peer());
        pairs.extend(roles.map(|role| Pair::of((name.clone(), line.clone()), role, own.clone())));
        report.peers.push(Installed {
            name: name.clone(),
            version: None,
            says: line.clone(),
            date: None,
        });
    }
    if pairs.is_empty() {
        return Err(Failure::bad_input("no peer is there; the lines above say why"));
    }
    let stop = Interrupt::install()?.flag();
    args.perform(&pairs, &cases, place.path(), &mut report, &stop)?;
    args.tell(&report)
}

impl PeerRole {
    fn of_peer(self) -> Role {
        match self {
            Self::Server => Role::Server,
            Self::Client => Role::Client,
            Self::Both => Role::Both,
        }
    }
}

/// This program's own recipe.
fn recipes_own() -> Result<&'static Recipe, Failure> {
    let own = peers::recipes().iter().find(|recipe| recipe.name == peers::OWN);
    own.ok_or_else(|| Failure::run("there is no recipe of this program"))
}

/// A folder for runs, that goes with this.
enum RunFolder {
    Kept(PathBuf),
    Temporary(tempfile::TempDir),
}

impl RunFolder {
    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(dir) => dir.path(),
        }
    }
}

impl Args {
    fn chosen_cases(&self) -> Result<Vec<&'static Case>, Failure> {
        if self.all {
            return Ok(CASES.iter().chain(&MEASUREMENTS).collect());
        }
        if self.cases.is_empty() {
            if self.peers.is_empty() && self.commands.is_empty() {
                return Err(Failure::bad_input(
                    "write --peers NAMES, --cases NAMES or both; or --all for all cases, both measurements and every peer",
                ));
            }
            return Ok(CASES.iter().collect());
        }
        fullpipe_interop::choose_cases(&self.cases).map_err(Failure::bad_input)
    }

    fn chosen_recipes(&self) -> Result<Vec<&'static Recipe>, Failure> {
        let able = || peers::recipes().iter().filter(|recipe| recipe.has_interop());
        if self.peers.is_empty() {
            return Ok(if self.commands.is_empty() { able().collect() } else { Vec::new() });
        }
        let names: Vec<String> = able().map(|recipe| recipe.name.clone()).collect();
        let mut chosen = Vec::new();
        for name in &self.peers {
            let found = able().find(|recipe| recipe.name == *name).ok_or_else(|| {
                let meant = fullpipe_scenario::suggest::did_you_mean(
                    name,
                    names.iter().map(String::as_str),
                );
                let name = name.escape_debug();
                Failure::bad_input(format!(
                    "'{name}' is no peer with interop cases; there are {}{meant}",
                    names.join(", ")
                ))
            })?;
            if !chosen.contains(&found) {
                chosen.push(found);
            }
        }
        Ok(chosen)
    }

    fn place(&self) -> Result<RunFolder, Failure> {
        let Some(output) = &self.output else {
            return Ok(RunFolder::Temporary(tempfile::tempdir().map_err(Failure::run)?));
        };
        let wrong =
            |e| Failure::bad_input(format!("cannot use the folder {}: {e}", output.display()));
        let output = std::path::absolute(output).map_err(wrong)?;
        fs::create_dir_all(&output).map_err(wrong)?;
        Ok(RunFolder::Kept(output))
    }

    /// Runs all, until `stop` is set.
    fn perform(
        &self,
        pairs: &[Pair],
        cases: &[&'static Case],
        place: &Path,
        report: &mut InteropReport,
        stop: &Arc<AtomicBool>,
    ) -> Result<(), Failure> {
        let all = pairs.len() * cases.len();
        let cells = pairs.iter().flat_map(|pair| cases.iter().map(move |case| (pair, *case)));
        for (number, (pair, case)) in cells.enumerate() {
            let (peer, role) = (pair.peer.clone(), pair.role);
            let mut cell = Cell { peer, role, case: case.name.to_owned(), runs: Vec::new() };
            for n in 0..self.runs.map_or(case.usual_runs(), usize::from) {
                let name = match role {
                    Role::Both => format!("{} {}", pair.peer, case.name),
                    role => format!("{} as {} {}", pair.peer, role.name(), case.name),
                };
                let mut live = Live::quiet(name.clone(), false);
                live.is_one_of(number + 1, all);
                let dir = place
                    .join(format!("{}-{}", pair.peer, role.name()))
                    .join(case.name)
                    .join((n + 1).to_string());
                let result = self.run_once(pair, case, n, &dir, stop, &mut live);
                match result {
                    Ok(run) => {
                        live.end(None);
                        say(&format!("{} of {all}: {name}: {}", number + 1, in_short(&run)));
                        // What is not supported once is not either the next time.
                        let is_over = run.grade == Grade::Unsupported;
                        cell.runs.push(run);
                        if is_over {
                            break;
                        }
                    }
                    Err(RunError::StoppedEarly) => {
                        live.end(None);
                        report.interrupted = true;
                        break;
                    }
                    Err(error) => return Err(Failure::run(format!("{name}: {error}"))),
                }
            }
            if !cell.runs.is_empty() {
                report.cells.push(cell);
            }
            if report.interrupted || stop.load(Ordering::Relaxed) {
                report.interrupted = true;
                break;
            }
        }
        Ok(())
    }

    /// One run, and what is kept of it.
    fn run_once(
        &self,
        pair: &Pair,
        case: &Case,
        n: usize,
        dir: &Path,
        stop: &AtomicBool,
        live: &mut Live,
    ) -> Result<Run, RunError> {
        let store = |e: std::io::Error| RunError::Store(format!("{}: {e}", dir.display()).into());
        if dir.exists() {
            fs::remove_dir_all(dir).map_err(store)?;
        }
        fs::create_dir_all(dir).map_err(store)?;
        let request = Request {
            case,
            ends: Ends {
                server: (&pair.server.0, &pair.server.1),
                client: (&pair.client.0, &pair.client.1),
            },
            dir,
            seed: self.seed.wrapping_add(n as u64),
            stop,
            watch: &mut |progress| live.tick(&progress),
        };
        let result = fullpipe_interop::run_case(request);
        let is_kept = self.output.is_some()
            && (self.keep
                || !matches!(result, Ok(Run { grade: Grade::Passed | Grade::Unsupported, .. })));
        if !is_kept || result.is_err() {
            fs::remove_dir_all(dir).map_err(store)?;
            // The folders of case and peer, if nothing else is in them.
            for above in dir.ancestors().skip(1).take(2) {
                let _ = fs::remove_dir(above);
            }
            return result;
        }
        // Their content is known from the packets.
        for files in ["www", "downloads"] {
            fs::remove_dir_all(dir.join(files)).map_err(store)?;
        }
        result.map(|run| Run { logs: Some(dir.to_owned()), ..run })
    }

    fn tell(&self, report: &InteropReport) -> Result<(), Failure> {
        if self.json {
            let object = Json { schema_version: SCHEMA_VERSION, interop: report };
            print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?))?;
        } else {
            print(&format!(
                "{}\n{}",
                fullpipe_interop::table(report).to_text(),
                fullpipe_interop::notes(report)
            ))?;
        }
        if let Some(path) = &self.report {
            let place = std::path::absolute(path).map_err(Failure::run)?;
            let dir = place.parent().unwrap_or(Path::new("/"));
            page::write_text(path, &fullpipe_interop::render(report, dir)).map_err(Failure::run)?;
            let line = format!("report: {}", path.display());
            if self.json { say(&line) } else { print(&format!("{line}\n"))? }
        }
        if report.interrupted {
            return Err(Failure::interrupted(report.cells.is_empty()));
        }
        let (failed, unchecked) = (report.count(Grade::Failed), report.count(Grade::NotChecked));
        let with = if self.output.is_some() {
            ""
        } else {
            "; --output DIR keeps what the ends and the link wrote"
        };
        match (failed, unchecked) {
            (0, 0) => Ok(()),
            (failed, unchecked) => Err(Failure::run(format!(
                "{failed} of {} cases failed, {unchecked} were not checked{with}",
                report.cells.len()
            ))),
        }
    }
}

/// A run in one line.
fn in_short(run: &Run) -> String {
    let what = match run.kbps.filter(|_| run.grade == Grade::Passed) {
        Some(kbps) => format!("{kbps:.0} kbit/s"),
        None => run.grade.name().to_owned(),
    };
    let why =
        if run.notes.is_empty() { String::new() } else { format!(": {}", run.notes.join("; ")) };
    format!("{what} after {:.1} s{why}", run.elapsed_s)
}
